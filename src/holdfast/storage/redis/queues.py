"""The queues of all clients in Redis (`durable/queues/queue_store.py`), as script calls and their replies."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from struct import error
from typing import Final

import structlog
from redis.exceptions import ClusterCrossSlotError, ResponseError

from holdfast.durable.queues.queue_store import REFUSE, AppendBatch, Appended, QueueEntry, QueueSize
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, MisuseError, PermanentError, TransientError
from holdfast.records.queued_message import decode_queued, encode_queued
from holdfast.storage.redis import scripts
from holdfast.storage.redis.calls import Calls, ScriptCall
from holdfast.storage.redis.connection_pool import ConnectionLostError, RedisPool
from holdfast.storage.redis.keys import EXPIRING, STATE, base_key, client_of, pattern
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.servers import Servers, open_servers

#: First byte of a value: PUBREC was not received, or it was. Never change: it is stored, and a script writes it.
_WAITS: Final = b"\0"
_RELEASED: Final = 1

#: Keys per step of SCAN, and steps per sweep.
_SCAN_KEYS: Final = 1_000
_SWEEP_STEPS: Final = 10

#: The argument for no expiry.
_NOT_STORED: Final = b"-"
_LAST_NUMBER: Final = 2**64 - 1
#: The most messages and bytes of a call: enough to make it cheap, and few enough for Redis to work on one while the
#: next is encoded, and for other calls in between.
_PORTION: Final = 500
_PORTION_BYTES: Final = 1_000_000

_log = structlog.get_logger()


class RedisQueues:
    """Survives: what the server's `appendfsync` and the option `replicas` say."""

    def __init__(self, options: RedisOptions, clock: Clock) -> None:
        """It connects with the first call."""
        self._options: Final = options
        self._clock: Final = clock
        self._prefix: Final = options.prefix.encode()
        self._servers: Final[Servers] = open_servers(options)
        self._calls: Final = Calls(self._servers, options)
        #: Whether a call may have many clients: in a cluster they are in different slots.
        self._many = options.pipelined and not options.cluster
        #: The cursor of the next sweep, for each server.
        self._swept: Final[dict[RedisPool, int]] = {}

    async def append(self, batches: list[AppendBatch]) -> list[Appended | Exception]:
        answers: list[Appended | Exception] = []
        for call, group in await self._append(batches):
            if isinstance(call.reply, ClusterCrossSlotError) and len(group) > 1:
                # One server in cluster mode: a call may have one client only.
                self._many = False
                answers += await self.append(group)
            else:
                answers += _answers(call, group)
        return answers

    async def _append(self, batches: list[AppendBatch]) -> list[tuple[ScriptCall, list[AppendBatch]]]:
        """The calls, with the batches of each, done or given up."""
        calls: list[tuple[ScriptCall, list[AppendBatch]]] = []
        sending: list[asyncio.Task[None]] = []
        try:
            for portion in _portions(batches) if self._options.pipelined else [batches]:
                groups = [portion] if self._many else [[batch] for batch in portion]
                made = [(self._append_call(group), group) for group in groups]
                calls += made
                sending.append(asyncio.create_task(self._calls.run([call for call, _ in made], safe=True)))
                # Redis works on it while the next one is encoded.
                await asyncio.sleep(0)
        finally:
            await asyncio.gather(*sending)
        return calls

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        """A message that cannot be read is set aside and logged once; the next read returns the rest."""
        reply = await self._one(scripts.READ, client_id, (self._clock.wall_us(), after, limit))
        entries: list[QueueEntry] = []
        damaged: dict[int, str] = {}
        for place in range(0, len(reply), 2):
            try:
                entries.append(_decode_entry(reply[place], reply[place + 1]))
            except PermanentError as wrong:
                damaged[reply[place]] = str(wrong)
        if damaged:
            await self._all([ScriptCall(scripts.SET_ASIDE, [self._base(client_id)], list(damaged))])
            told = "; ".join(f"message {serial}: {reason}" for serial, reason in damaged.items())
            raise PermanentError(f"set aside in {self._base(client_id)!r}:damaged: {told}")
        return entries

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        calls = [
            ScriptCall(scripts.ACKNOWLEDGE, [self._base(client_id)], runs(serials))
            for client_id, serials in done
            if serials
        ]
        await self._all(calls)

    async def release(self, client_id: str, serials: list[int]) -> None:
        if serials:
            await self._all([ScriptCall(scripts.RELEASE, [self._base(client_id)], serials)], safe=True)

    async def size(self, client_id: str) -> QueueSize:
        reply = await self._one(scripts.LOOK, client_id, (self._clock.wall_us(),))
        return QueueSize(reply[1], reply[2])

    async def last(self, client_id: str) -> tuple[int, int]:
        reply = await self._one(scripts.LOOK, client_id, (self._clock.wall_us(),))
        return int(reply[3]), int(reply[4])

    async def drop(self, client_ids: list[str]) -> None:
        """Messages that arrive for these clients after this call are not removed, even if it is executed later."""
        looks = [
            ScriptCall(scripts.LOOK, [self._base(client_id)], (self._clock.wall_us(),)) for client_id in client_ids
        ]
        await self._all(looks)
        going = [(self._base(client_id), look.outcome()) for client_id, look in zip(client_ids, looks, strict=True)]
        rest = [(base, state[4]) for base, state in going if isinstance(state, list)]
        while rest:
            calls = [ScriptCall(scripts.DROP, [base], (number,)) for base, number in rest]
            await self._all(calls, safe=True)
            rest = [one for one, call in zip(rest, calls, strict=True) if call.outcome()]

    async def clients(self) -> AsyncIterator[str]:
        seen: set[str] = set()
        await self._look_around()
        for pool in self._servers.masters():
            cursor = -1
            while cursor:
                cursor, keys = await self._scan(pool, max(cursor, 0), STATE)
                for key in keys:
                    client_id = client_of(key, self._prefix, STATE)
                    if client_id not in seen:
                        seen.add(client_id)
                        yield client_id

    async def sweep(self, now_us: int) -> int:
        """Remove references to values that Redis has expired, and expired messages of unused queues."""
        await self._look_around()
        bases: set[bytes] = set()
        for pool in self._servers.masters():
            cursor = self._swept.get(pool, 0)
            for _ in range(_SWEEP_STEPS):
                cursor, keys = await self._scan(pool, cursor, EXPIRING)
                bases.update(key[: -len(EXPIRING)] for key in keys)
                if not cursor:
                    break
            self._swept[pool] = cursor
        calls = [ScriptCall(scripts.LOOK, [base], (now_us,)) for base in bases]
        await self._all(calls)
        return sum(state[0] for call in calls if isinstance(state := call.outcome(), list))

    async def close(self) -> None:
        await self._servers.close()

    async def _one(self, script: scripts.Script, client_id: str, arguments: tuple[int, ...]) -> list[int]:
        call = ScriptCall(script, [self._base(client_id)], arguments)
        await self._all([call])
        reply = call.outcome()
        assert isinstance(reply, list)
        return reply

    async def _all(self, calls: list[ScriptCall], *, safe: bool = False) -> None:
        """Run all calls; raises the error of the first that failed."""
        await self._calls.run(calls, safe=safe)
        for call in calls:
            call.outcome()

    async def _look_around(self) -> None:
        if next(self._servers.masters(), None) is None:
            try:
                await self._servers.refresh(self._options.timeout_s)
            except ConnectionLostError as lost:
                raise TransientError(str(lost)) from lost

    async def _scan(self, pool: RedisPool, cursor: int, suffix: bytes) -> tuple[int, list[bytes]]:
        command = (b"SCAN", cursor, b"MATCH", pattern(self._prefix, suffix), b"COUNT", _SCAN_KEYS)
        try:
            (reply,) = await pool.run([command], self._options.timeout_s)
        except ConnectionLostError as lost:
            with suppress(ConnectionLostError):
                await self._servers.refresh(self._options.timeout_s)  # for the next time
            raise TransientError(str(lost)) from lost
        if isinstance(reply, ResponseError):
            raise TransientError(f"Redis at {pool.name}: {reply}")
        assert isinstance(reply, list)
        return int(reply[0]), reply[1]

    def _base(self, client_id: str) -> bytes:
        return base_key(self._prefix, client_id)

    def _append_call(self, batches: list[AppendBatch]) -> ScriptCall:
        arguments = _arguments(batches, self._clock.wall_us())
        return ScriptCall(scripts.APPEND, [self._base(batch.client_id) for batch in batches], arguments)


def _portions(batches: Iterable[AppendBatch]) -> Iterator[list[AppendBatch]]:
    """Groups of batches for one call each, in order; a batch is not divided."""
    portion: list[AppendBatch] = []
    messages = 0
    size_bytes = 0
    for batch in batches:
        portion.append(batch)
        messages += len(batch.entries)
        for entry in batch.entries:
            size_bytes += entry.owed.size_bytes
        if messages >= _PORTION or size_bytes >= _PORTION_BYTES:
            yield portion
            portion = []
            messages = 0
            size_bytes = 0
    if portion:
        yield portion


def _arguments(batches: list[AppendBatch], now_us: int) -> list[bytes | int]:
    """A message that cannot be encoded has a number and no serial, which is logged."""
    arguments: list[bytes | int] = [now_us]
    for batch in batches:
        limits = batch.limits
        arguments += (limits.max_messages, limits.max_bytes, int(limits.on_full == REFUSE), len(batch.entries))
        for entry in batch.entries:
            owed = entry.owed
            expires_us = limits.expiry_us(owed.message, entry.expires_us)
            expiry = b""
            if expires_us:
                left_ms = (expires_us - now_us + 999) // 1000
                expiry = b"%d:%d" % (expires_us, left_ms) if expires_us > now_us else _NOT_STORED
            if not 0 < entry.number <= _LAST_NUMBER:
                raise MisuseError(f"{entry!r} has a number that is not above 0 and below 2^64")
            value = b""
            try:
                value = _WAITS + encode_queued(owed, entry.number, expires_us)
            except (HoldfastError, error) as wrong:
                # The rest of the batch is stored.
                expiry = _NOT_STORED
                _log.warning("a message cannot be stored in Redis", client=batch.client_id, reason=str(wrong))
            arguments += (b"%020d:%d" % (entry.number, owed.size_bytes), expiry, value)
    return arguments


def _appended(answer: object, batch: AppendBatch) -> Appended | Exception:
    """The result of APPEND for one client, or its error."""
    if isinstance(answer, Exception):
        return answer
    if isinstance(answer, int):
        return Appended(list(range(answer, answer + len(batch.entries))), 0, 0)
    if isinstance(answer, list):
        return Appended(answer[2:], answer[0], answer[1])
    return PermanentError(f"Redis refused a call: {answer!r}")


def _answers(call: ScriptCall, batches: list[AppendBatch]) -> list[Appended | Exception]:
    try:
        reply = call.outcome()
    except HoldfastError as failure:
        reply = [failure] * len(batches)
    assert isinstance(reply, list)
    found = enumerate(zip(reply, batches, strict=True))
    return [_appended(call.served.get(place, answer), batch) for place, (answer, batch) in found]


def _decode_entry(serial: int, value: object) -> QueueEntry:
    assert isinstance(value, bytes)
    if not value:
        raise PermanentError("a message in Redis is empty")
    owed, number, expires_us = decode_queued(value[1:], serial)
    return QueueEntry(number, owed, expires_us, released=value[0] == _RELEASED)


def runs(serials: Iterable[int]) -> list[int]:
    """First and last of each run of neighbours, in turn."""
    found: list[int] = []
    for serial in sorted(serials):
        if found and serial <= found[-1] + 1:
            found[-1] = serial
        else:
            found += [serial, serial]
    return found
