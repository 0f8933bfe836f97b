"""Reads the queues of a TBMQ 2.x: sorted sets `{client}_messages` of the keys of its messages, which are JSON.

It changes nothing. A client id that begins with `}` has keys in many slots, so every key is read from its own server.
"""

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Final

from redis.crc import key_slot
from redis.exceptions import ResponseError

from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, PermanentError, TransientError
from holdfast.storage.redis.connection_pool import Argument, ConnectionLostError, RedisPool, Reply
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.servers import Servers, open_servers
from holdfast.storage.tbmq import PUBLISHED, RELEASED, TbmqMessage, tbmq_message
from holdfast.wire.properties import NO_PROPERTIES

_SUFFIX: Final = b"}_messages"
#: Known fields of a TBMQ message. Other fields are lost, and reported.
_KNOWN: Final = {"packetType", "payload", "time", "clientId", "retained", "packetId", "topicName", "qos"}


class TbmqRedis:
    """One Redis or Redis Cluster, for one import."""

    def __init__(self, options: RedisOptions, clock: Clock) -> None:
        self._options: Final = options
        self._clock: Final = clock
        self._servers: Final[Servers] = open_servers(options)

    async def clients(self) -> AsyncIterator[tuple[str, int]]:
        await self._look_around()
        seen: set[bytes] = set()
        for pool in list(self._servers.masters()):
            cursor = -1
            while cursor:
                pattern = b"{*" + _SUFFIX
                reply = await self._ask(
                    pool, b"SCAN", max(cursor, 0), b"MATCH", pattern, b"COUNT", 1000, b"TYPE", b"zset"
                )
                assert isinstance(reply, list)
                cursor = int(reply[0])
                for key in reply[1]:
                    if key in seen:
                        continue
                    seen.add(key)
                    newest = await self._ask(pool, b"ZREVRANGE", key, 0, 0, b"WITHSCORES")
                    if isinstance(newest, list) and newest:
                        yield key[1 : -len(_SUFFIX)].decode("utf-8", "surrogateescape"), int(float(newest[1]))

    async def messages(self, client_id: str, after: int, limit: int) -> list[TbmqMessage]:
        key = b"{" + client_id.encode("utf-8", "surrogateescape") + _SUFFIX
        pool = self._pool(key)
        reply = await self._ask(pool, b"ZRANGEBYSCORE", key, b"(%d" % after, b"+inf", b"WITHSCORES", b"LIMIT", 0, limit)
        assert isinstance(reply, list)
        names = reply[::2]
        values = await self._values(names)
        serials = [int(float(score)) for score in reply[1::2]]
        # TBMQ keeps references to expired messages, which are skipped.
        return [_found(serial, values[name][0], values[name][1]) for serial, name in zip(serials, names, strict=True)]

    async def _values(self, names: list[bytes]) -> dict[bytes, tuple[Reply, int]]:
        """Each value, and its expiry time."""
        groups: dict[RedisPool, list[bytes]] = defaultdict(list)
        for name in names:
            groups[self._pool(name)].append(name)
        found: dict[bytes, tuple[Reply, int]] = {}
        for pool, some in groups.items():
            commands: list[tuple[Argument, ...]] = []
            for name in some:
                commands += [(b"GET", name), (b"PTTL", name)]
            replies = await self._run(pool, commands)
            now_us = self._clock.wall_us()
            for place, name in enumerate(some):
                left_ms = replies[2 * place + 1]
                expires_us = now_us + left_ms * 1000 if isinstance(left_ms, int) and left_ms >= 0 else 0
                found[name] = (replies[2 * place], expires_us)
        return found

    def _pool(self, key: bytes) -> RedisPool:
        pool = self._servers.pool(key_slot(key))
        if pool is None:
            raise TransientError("a slot of TBMQ's Redis Cluster has no master")
        return pool

    async def _look_around(self) -> None:
        try:
            await self._servers.refresh(self._options.timeout_s)
        except ConnectionLostError as lost:
            raise TransientError(f"TBMQ's {lost}") from lost

    async def _ask(self, pool: RedisPool, *command: Argument) -> Reply:
        (reply,) = await self._run(pool, [command])
        return reply

    async def _run(self, pool: RedisPool, commands: list[tuple[Argument, ...]]) -> list[Reply]:
        try:
            replies = await pool.run(commands, self._options.timeout_s)
        except ConnectionLostError as lost:
            raise TransientError(f"TBMQ's {lost}") from lost
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise TransientError(f"TBMQ's Redis at {pool.name}: {reply}")
        return replies

    async def close(self) -> None:
        await self._servers.close()


def _found(serial: int, value: Reply, expires_us: int) -> TbmqMessage:
    if value is None:
        return TbmqMessage(serial, None, reason="")
    assert isinstance(value, bytes)
    try:
        fields = json.loads(value)
        if not isinstance(fields, dict):
            raise PermanentError("is no JSON object")
        unknown = sorted(name for name, content in fields.items() if content and name not in _KNOWN)
        kind = fields.get("packetType", PUBLISHED)
        if kind not in (PUBLISHED, RELEASED):
            raise PermanentError(f"is a packet of type {kind}")
        packet_id = int(fields.get("packetId") or 0)
        message = tbmq_message(
            fields["topicName"],
            base64.b64decode(fields["payload"] or "", validate=True),
            int(fields["qos"]),
            int(fields["time"]),
            retain=bool(fields.get("retained", False)),
            expires_us=0,  # no field has the expiry of the message: the TTL in Redis is that of the queue
            properties=NO_PROPERTIES,
        )
    except (HoldfastError, KeyError, TypeError, ValueError, binascii.Error) as wrong:
        return TbmqMessage(serial, None, reason=f"message {serial}: {wrong!s}")
    lost = f"message {serial}: without {', '.join(unknown)}" if unknown else ""
    return TbmqMessage(serial, message, expires_us, packet_id=packet_id, released=kind == RELEASED, reason=lost)
