"""A client queue in memory. Also the model that the other queues are tested against.

    serial      41    42    43    44    45
    _items    [ ✓  │  ✓  │ owed │ None │ owed ]      None: acknowledged out of order
                           ↑ _head     ↑ _next: was not read yet

Serials are dense, so a place is an index: every operation is constant time.
"""

from typing import Final

from holdfast.durable.queues.client_queue import BacklogEnd, EntryQueue, RunStart
from holdfast.durable.sessions.session_store import StoredSession
from holdfast.model.owed import Owed
from holdfast.records.session.progress import ProgressEntry

#: Acknowledged items in front are cut off when they are this many, so that cutting is cheap on average.
_CUT: Final = 1024


class MemoryQueue(EntryQueue):
    """Survives: nothing. Over a limit the oldest go, of those that were not read yet."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages: Final = max_messages
        self._max_bytes: Final = max_bytes
        self._items: list[Owed | None] = []
        #: Index of the oldest message kept, and the serial of `_items[0]`.
        self._head = 0
        self._base = 1
        #: The first serial that was not read yet, and what is kept from there on: that is what the limits are for.
        self._next = 1
        self._waiting = 0
        self._waiting_bytes = 0
        self._count = 0

    def append(self, messages: list[Owed]) -> int:
        for owed in messages:
            owed.serial = self._base + len(self._items)
            self._items.append(owed)
            self._count += 1
            self._waiting += 1
            self._waiting_bytes += owed.size_bytes
        dropped = 0
        while self._waiting > self._max_messages or self._waiting_bytes > self._max_bytes:
            owed_or_none = self._items[self._next - self._base]
            if owed_or_none is None:
                self._next += 1
            else:
                dropped += 1
                self.acknowledge(owed_or_none.serial)
        return dropped

    def read(self, after: int, limit: int) -> list[Owed]:
        found: list[Owed] = []
        index = max(after + 1 - self._base, self._head)
        while len(found) < limit and index < len(self._items):
            owed = self._items[index]
            if owed is not None:
                found.append(owed)
                if owed.serial >= self._next:
                    self._read_up_to(owed.serial)
            index += 1
        return found

    def _read_up_to(self, serial: int) -> None:
        """From now on everything up to `serial` is in the reader's hands."""
        while self._next <= serial:
            index = self._next - self._base
            owed = self._items[index] if index >= 0 else None
            if owed is not None:
                self._waiting -= 1
                self._waiting_bytes -= owed.size_bytes
            self._next += 1

    def at_end(self) -> bool:
        return True

    def last_serial(self) -> int:
        """The serial of the newest message, whether it is still kept or not."""
        return self._base + len(self._items) - 1

    def acknowledge(self, serial: int) -> None:
        index = serial - self._base
        if not self._head <= index < len(self._items):
            return
        owed = self._items[index]
        if owed is None:
            return
        self._items[index] = None
        self._count -= 1
        if serial >= self._next:
            self._waiting -= 1
            self._waiting_bytes -= owed.size_bytes
        while self._head < len(self._items) and self._items[self._head] is None:
            self._head += 1
        if self._head >= _CUT or self._head == len(self._items):
            del self._items[: self._head]
            self._base += self._head
            self._head = 0
            self._next = max(self._next, self._base)

    def release(self, serial: int) -> None:
        """Nothing to do: the content is shared with other clients, so dropping it here would free nothing."""

    def count(self) -> int:
        return self._count

    def drop_unread(self) -> int:
        """Forget what was not read yet; how many messages these were. What is in flight stays."""
        serials = [owed.serial for owed in self._items if owed is not None and owed.serial >= self._next]
        for serial in serials:
            self.acknowledge(serial)
        return len(serials)

    def drop(self) -> None:
        self._base += len(self._items)
        self._next = self._base
        self._items = []
        self._head = 0
        self._count = 0
        self._waiting = self._waiting_bytes = 0

    # ---- progress is not stored

    def sent(self) -> dict[int, int] | None:
        return None

    def sent_before(self) -> list[ProgressEntry]:
        return []

    def resume(self, stored: StoredSession, crashed: RunStart | None) -> None:
        """What it held ended with the last run of the broker."""

    def backlog_end(self) -> BacklogEnd:
        return BacklogEnd({}, self.last_serial())

    def has_sent(self, end: BacklogEnd, cursor: int) -> bool:
        return cursor >= end.serial

    # ---- connections change nothing

    def online(self) -> None:
        """Nothing to do."""

    def offline(self) -> None:
        """Nothing to do."""

    def waits(self) -> bool:
        return False

    def check_invariants(self) -> None:
        kept = [owed for owed in self._items if owed is not None]
        assert len(kept) == self._count
        waiting = [owed for owed in kept if owed.serial >= self._next]
        assert len(waiting) == self._waiting <= self._max_messages
        assert sum(owed.size_bytes for owed in waiting) == self._waiting_bytes <= self._max_bytes
        assert all(owed is None for owed in self._items[: self._head])
        assert not self._items or self._items[self._head] is not None
        for index, owed in enumerate(self._items):
            assert owed is None or owed.serial == self._base + index
