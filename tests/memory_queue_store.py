"""Client queues in memory: the model that every queue backend is tested by (`durable/queues/queue_store.py`)."""

from collections.abc import AsyncIterator
from typing import Final

from holdfast.durable.queues.queue_store import REFUSE, AppendBatch, Appended, QueueEntry, QueueLimits, QueueSize
from holdfast.model.clock import Clock
from holdfast.model.owed import Owed


class _Queue:
    """One client's queue.

    1. Entries are in the order of their serials. `read_up_to` divides them: what lies above waits, and is bounded.
    """

    def __init__(self) -> None:
        self.entries: Final[dict[int, QueueEntry]] = {}
        self.last_serial = 0
        self.last_number = 0
        self.read_up_to = 0
        #: It was full, and has not been read to its end since.
        self.refusing = False

    def waiting(self) -> list[QueueEntry]:
        return [entry for serial, entry in self.entries.items() if serial > self.read_up_to]

    def forget_expired(self, now_us: int) -> int:
        gone = [serial for serial, entry in self.entries.items() if entry.expired(now_us)]
        for serial in gone:
            del self.entries[serial]
        return len(gone)

    def serial_of(self, number: int) -> int:
        return next((serial for serial, entry in self.entries.items() if entry.number == number), 0)


class MemoryQueueStore:
    """Survives: nothing beyond the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._queues: Final[dict[str, _Queue]] = {}

    async def append(self, packs: list[AppendBatch]) -> list[Appended | Exception]:
        return [self._append(pack) for pack in packs]

    def _append(self, pack: AppendBatch) -> Appended:
        queue = self._queues.setdefault(pack.client_id, _Queue())
        now_us = self._clock.wall_us()
        queue.forget_expired(now_us)
        if not queue.waiting():
            queue.refusing = False
        refused = dropped = 0
        for entry in pack.entries:
            if entry.number <= queue.last_number:
                continue
            queue.last_number = entry.number
            expires_us = pack.limits.expiry_us(entry.message, entry.expires_us)
            if 0 < expires_us <= now_us:
                continue
            if pack.limits.on_full == REFUSE and (queue.refusing or not _fits(queue, entry, pack.limits)):
                queue.refusing = True
                refused += 1
                continue
            queue.last_serial += 1
            owed = entry.owed
            kept = Owed(
                owed.message,
                owed.qos,
                retain=owed.retain,
                identifiers=owed.identifiers,
                serial=queue.last_serial,
            )
            queue.entries[kept.serial] = QueueEntry(entry.number, kept, expires_us)
            dropped += _make_room(queue, pack.limits)
        return Appended([queue.serial_of(entry.number) for entry in pack.entries], dropped, refused)

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        queue = self._queues.get(client_id)
        if queue is None:
            return []
        queue.forget_expired(self._clock.wall_us())
        found = [entry for serial, entry in queue.entries.items() if serial > after]
        found = found[:limit]
        if found:
            queue.read_up_to = max(queue.read_up_to, found[-1].owed.serial)
        return found

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        for client_id, serials in done:
            queue = self._queues.get(client_id)
            if queue is not None:
                for serial in serials:
                    queue.entries.pop(serial, None)

    async def release(self, client_id: str, serials: list[int]) -> None:
        queue = self._queues.get(client_id)
        for serial in serials:
            entry = None if queue is None else queue.entries.get(serial)
            if queue is not None and entry is not None:
                queue.entries[serial] = QueueEntry(entry.number, entry.owed, entry.expires_us, released=True)

    async def size(self, client_id: str) -> QueueSize:
        queue = self._queues.get(client_id)
        if queue is None:
            return QueueSize(0, 0)
        queue.forget_expired(self._clock.wall_us())
        return QueueSize(len(queue.entries), sum(entry.owed.size_bytes for entry in queue.entries.values()))

    async def last(self, client_id: str) -> tuple[int, int]:
        queue = self._queues.get(client_id)
        return (0, 0) if queue is None else (queue.last_serial, queue.last_number)

    async def drop(self, client_ids: list[str]) -> None:
        for client_id in client_ids:
            self._queues.pop(client_id, None)

    async def clients(self) -> AsyncIterator[str]:
        for client_id in list(self._queues):
            yield client_id

    async def sweep(self, now_us: int) -> int:
        return sum(queue.forget_expired(now_us) for queue in self._queues.values())

    def forget_everything(self) -> None:
        """As a server does that keeps nothing on disk, and is restarted."""
        self._queues.clear()

    async def close(self) -> None:
        """Nothing is to be made safe."""


def _fits(queue: _Queue, entry: QueueEntry, limits: QueueLimits) -> bool:
    waiting = queue.waiting()
    size_bytes = sum(other.owed.size_bytes for other in waiting) + entry.owed.size_bytes
    return len(waiting) < limits.max_messages and size_bytes <= limits.max_bytes


def _make_room(queue: _Queue, limits: QueueLimits) -> int:
    """Drop the oldest of what waits, as far as a limit is exceeded."""
    dropped = 0
    waiting = queue.waiting()
    size_bytes = sum(entry.owed.size_bytes for entry in waiting)
    while waiting and (len(waiting) > limits.max_messages or size_bytes > limits.max_bytes):
        oldest = waiting.pop(0)
        size_bytes -= oldest.owed.size_bytes
        del queue.entries[oldest.owed.serial]
        dropped += 1
    return dropped
