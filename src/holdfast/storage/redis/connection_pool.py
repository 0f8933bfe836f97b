"""A pool of connections to one Redis server: commands are sent together, replies come in their order."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

import hiredis
from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.exceptions import RedisError, ResponseError

from holdfast.model.errors import SettingsError
from holdfast.model.passwords import hide_passwords
from holdfast.storage.redis.options import RedisOptions

#: An argument of a command, and a reply.
Argument = bytes | int
Reply = object


class ConnectionLostError(Exception):
    """The server is away or too slow. Whether the commands were executed is not known."""


class RedisPool:
    """At most `connections` connections to one server, made when they are needed.

    1. A connection on which something went wrong is closed, so that no reply is taken for that of another command.
       So are those that are idle: they are likely to be of a server that has gone.
    """

    def __init__(self, options: RedisOptions, url: str, address: tuple[str, int] | None = None) -> None:
        try:
            self._arguments: Final[dict[str, Any]] = dict(parse_url(url))
        except ValueError as wrong:
            raise SettingsError(f"{hide_passwords(url)}: {wrong}") from wrong
        if address is not None:
            self._arguments["host"], self._arguments["port"] = address
        self.name: Final = hide_passwords(url) if address is None else f"{address[0]}:{address[1]}"
        self.host: Final = str(self._arguments.get("host", "localhost"))
        self._kind: Final[type[AbstractConnection]] = self._arguments.pop("connection_class", Connection)
        if url.startswith("rediss:"):
            tls = (("ssl_ca_certs", options.tls_ca), ("ssl_certfile", options.tls_certificate))
            self._arguments.update({key: path for key, path in (*tls, ("ssl_keyfile", options.tls_key)) if path})
        self._timeout_s: Final = options.timeout_s
        self._room: Final = asyncio.Semaphore(options.connections)
        self._idle: Final[list[AbstractConnection]] = []

    async def run(self, commands: Sequence[Sequence[Argument]], timeout_s: float) -> list[Reply]:
        """The replies, in order; a ResponseError is a reply, too. ConnectionLostError if any reply is missing."""
        async with self._room:
            connection = self._idle.pop() if self._idle else self._connect()
            whole = False
            try:
                async with asyncio.timeout(timeout_s):
                    replies = await _converse(connection, commands)
                whole = True
            except (RedisError, OSError, TimeoutError) as error:
                reason = str(error) or f"no answer in {timeout_s:.3g} s"
                raise ConnectionLostError(f"Redis at {self.name}: {reason}") from error
            finally:
                self._idle.append(connection)
                if not whole:
                    await self.close()
            return replies

    def _connect(self) -> AbstractConnection:
        """A new connection, which the first command opens."""
        # No CLIENT SETINFO, which a user with few rights may not send. Timeouts are ours.
        return self._kind(
            **self._arguments,
            socket_timeout=None,
            socket_connect_timeout=self._timeout_s,
            protocol=2,
            driver_info=None,
        )

    async def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)


async def _converse(connection: AbstractConnection, commands: Sequence[Sequence[Argument]]) -> list[Reply]:
    # redis-py's types allow commands of one word only.
    packed = [hiredis.pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]
    await connection.send_packed_command(packed)
    replies: list[Reply] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(timeout=math.inf, disconnect_on_error=False))
        except ResponseError as refused:
            replies.append(refused)
    return replies
