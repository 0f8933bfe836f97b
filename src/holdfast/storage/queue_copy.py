"""Copies a queue from one backend to another, with the same serials.

A session knows its messages in flight by their serials, so a copy has the same ones. A backend gives out serials
without gaps; where messages are gone, fillers are appended and acknowledged at once.

    source      .  .  3  .  5  6  .        last serial 7
    target      f  f  3  f  5  6  f        f: a filler, appended and acknowledged

1. Numbers make it resumable: the target does not store a number twice, and its serials show how far the copy is.
2. A target that has another queue of this client is refused, and not changed.
3. At the end both are read again and compared, message by message.
"""

from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from holdfast.durable.queues.queue_store import NO_LIMITS, AppendBatch, Appended, QueueEntry, QueueStore
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.queued_message import encode_queued

#: Entries per read and append.
PAGE: Final = 500
#: More fillers than this would take too long, and point to another problem.
MAX_FILLERS: Final = 10_000_000
_FILLER: Final = Owed(Message(b"holdfast/filler", b"", 1, ClientId(""), 0), 1)


class QueueSource(Protocol):
    """Where a queue is read from: a backend, or a file."""

    async def last(self, client_id: str) -> tuple[int, int]: ...

    def entries(self, client_id: str) -> AsyncIterator[QueueEntry]: ...


class BackendSource:
    """A backend as a source."""

    def __init__(self, backend: QueueStore) -> None:
        self._backend: Final = backend

    async def last(self, client_id: str) -> tuple[int, int]:
        return await self._backend.last(client_id)

    async def entries(self, client_id: str) -> AsyncIterator[QueueEntry]:
        after = 0
        while page := await self._backend.read(client_id, after, PAGE):
            for entry in page:
                yield entry
            after = page[-1].owed.serial


class Copied(NamedTuple):
    """The size of a queue and a checksum of its messages, which is the same in every backend."""

    messages: int
    checksum: str


async def copy_queue(
    source: QueueSource, target: QueueStore, client_id: str, now_us: Callable[[], int], told: Callable[[int], None]
) -> Copied:
    """PermanentError: the target has another queue of this client, or does not hold what it was given.

    `told` gets the number of messages that were copied, now and then.
    """
    last_serial, last_number = await source.last(client_id)
    writer = _Writer(target, client_id, *await target.last(client_id))
    if writer.serial or writer.number:
        is_longer = writer.serial > last_serial or writer.number > last_number
        if is_longer or not await _is_begun(source, target, client_id, writer.serial, now_us):
            raise PermanentError(f"the target has a queue of {client_id!r} already, and not a part of this one")
    async for entry in source.entries(client_id):
        # No backend gives a serial to an expired message; a filler takes its place.
        if not entry.expired(now_us()):
            await writer.put(entry)
        told(writer.messages)
    await writer.fill_up_to(last_serial, last_number + 1)
    await writer.flush()
    return await _compare(source, target, client_id, now_us)


async def _is_begun(
    source: QueueSource, target: QueueStore, client_id: str, up_to: int, now_us: Callable[[], int]
) -> bool:
    """Whether the target has the beginning of a copy of this queue, from a run that was interrupted."""
    missing: dict[int, tuple[bytes, int]] = {}
    async for entry in source.entries(client_id):
        if entry.owed.serial > up_to:
            break
        missing[entry.owed.serial] = _content(entry), entry.expires_us
    async for entry in BackendSource(target).entries(client_id):
        there = missing.pop(entry.owed.serial, None)
        is_same = there is not None and there[0] == _content(entry)
        if not is_same and entry.message != _FILLER.message and not entry.expired(now_us()):
            return False
    return all(0 < expires_us <= now_us() for _digest, expires_us in missing.values())


class _Writer:
    """Appends entries at given serials."""

    def __init__(self, target: QueueStore, client_id: str, serial: int, number: int) -> None:
        self._target: Final = target
        self._client_id: Final = client_id
        #: The last serial of the target, and the last one including the entries that are collected here.
        self.serial: Final = serial
        self.number: Final = number
        self._next = serial + 1
        self._number = number
        self._gathered: list[tuple[int, QueueEntry]] = []
        self._fillers = 0
        self.messages = 0

    async def put(self, entry: QueueEntry) -> None:
        serial = entry.owed.serial
        self.messages += 1
        if serial >= self._next:
            await self.fill_up_to(serial - 1, entry.number)
            self._next = serial + 1
            self._number = entry.number
        self._gathered.append((serial, entry))
        if len(self._gathered) >= PAGE:
            await self.flush()

    async def fill_up_to(self, serial: int, below: int) -> None:
        """Add fillers up to a serial, with numbers below the next one."""
        self._fillers += max(0, serial + 1 - self._next)
        if self._fillers > MAX_FILLERS:
            raise PermanentError(f"the queue of {self._client_id!r} has gaps of {self._fillers} messages")
        while self._next <= serial:
            # The last filler is just below the next message, which leaves room for all.
            number = max(self._number + 1, below - 1 - (serial - self._next))
            if number >= below:
                raise PermanentError(f"messages of {self._client_id!r} have no room for {serial - self._next} others")
            self._gathered.append((self._next, QueueEntry(number, _FILLER)))
            self._next += 1
            self._number = number
            if len(self._gathered) >= PAGE:
                await self.flush()

    async def flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        entries = [entry for _serial, entry in gathered]
        (answer,) = await self._target.append([AppendBatch(self._client_id, entries, NO_LIMITS)])
        if not isinstance(answer, Appended):
            raise answer
        for (serial, entry), given in zip(gathered, answer.serials, strict=True):
            # 0: it is gone from the target already: an acknowledged filler, or an expired message.
            if given not in (0, serial):
                raise PermanentError(
                    f"the target has a queue of {self._client_id!r} already: message {entry.number} is number {given} "
                    f"in it, and not {serial}"
                )
        fillers = [serial for serial, entry in gathered if entry.owed is _FILLER]
        released = [serial for serial, entry in gathered if entry.released]
        if fillers:
            await self._target.acknowledge([(self._client_id, fillers)])
        if released:
            await self._target.release(self._client_id, released)


async def _compare(source: QueueSource, target: QueueStore, client_id: str, now_us: Callable[[], int]) -> Copied:
    """Compare both. Acknowledges entries that only the target has: fillers of an interrupted run."""
    copies = BackendSource(target).entries(client_id)
    total, messages, extra = sha256(), 0, []
    copy = await anext(copies, None)
    async for entry in source.entries(client_id):
        while copy is not None and copy.owed.serial < entry.owed.serial:
            extra.append(copy)
            copy = await anext(copies, None)
        found = copy is not None and fingerprint(copy) == fingerprint(entry)
        if not found and not entry.expired(now_us()):
            raise PermanentError(f"message {entry.owed.serial} of {client_id!r} is not in the target as it is here")
        if found:
            total.update(fingerprint(entry))
            messages += 1
            copy = await anext(copies, None)
    while copy is not None:
        extra.append(copy)
        copy = await anext(copies, None)
    strange = [one for one in extra if one.message != _FILLER.message and not one.expired(now_us())]
    if strange:
        raise PermanentError(f"the target has messages of {client_id!r} that are not here, such as {strange[0]!r}")
    if extra:
        await target.acknowledge([(client_id, [one.owed.serial for one in extra])])
    return Copied(messages, total.hexdigest())


def fingerprint(entry: QueueEntry) -> bytes:
    """A hash of all that must be equal in both entries."""
    return sha256(b"%d %d " % (entry.owed.serial, entry.released) + _content(entry)).digest()


def _content(entry: QueueEntry) -> bytes:
    """A hash of what does not change while a message waits."""
    return sha256(encode_queued(entry.owed, entry.number, entry.expires_us)).digest()
