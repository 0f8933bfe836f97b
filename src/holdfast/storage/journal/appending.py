"""What becomes of a pack: which messages a queue takes, which older ones go, which are refused.

1. A message whose number the queue was given already is not stored again.
2. What has expired goes first and counts toward nothing.
3. Limits concern what waits: what was read already is in the reader's hands, and stays.
   The journal's own limit (`max_queue_messages`) holds whatever the pack's say, but for `take`.
4. `drop_oldest`: the oldest go until the rest fits, those of the pack included.
5. `refuse`: what does not fit is refused, a mark is written once, and everything is refused from then on until the
   queue has been read to its end.
"""

from typing import Final

from holdfast.durable.queue_store import REFUSE, TAKE, Appended, Entry, Pack
from holdfast.records.queued import encode_queued
from holdfast.storage.journal.changes import Change
from holdfast.storage.journal.message_records import FULL, MESSAGE, encode_record
from holdfast.storage.journal.queue import JournalQueue
from holdfast.storage.journal.serials import Serials

_SECOND_US: Final = 1_000_000


class Planned:
    """A change, and what the caller is told once it is done."""

    def __init__(self, change: Change, appended: Appended, *, is_empty: bool) -> None:
        self.change: Final = change
        self.appended: Final = appended
        #: Nothing has to be written.
        self.is_empty: Final = is_empty


def plan(queue: JournalQueue, pack: Pack, now_us: int, most: int | None = None) -> Planned:
    """Nothing is changed yet. `most` messages may wait in any queue; None: as many as the pack says."""
    return _Plan(queue, pack, now_us, most).result()


class _Plan:
    def __init__(self, queue: JournalQueue, pack: Pack, now_us: int, most: int | None) -> None:
        asked = pack.limits.max_messages
        self._most: Final = asked if most is None or pack.limits.on_full == TAKE else min(most, asked)
        self._queue: Final = queue
        self._pack: Final = pack
        self._now_us: Final = now_us
        self._gone: Final = Serials(queue.expired(now_us))
        waited = [serial for serial in self._gone if serial > queue.given]
        sizes = [file.size_of(serial) for serial in waited if (file := queue.file_of(serial)) is not None]
        #: What waits, and how large that is.
        self._messages = queue.waiting - len(waited)
        self._size_bytes = queue.waiting_bytes - sum(sizes)
        self._number = queue.number
        self._was_full: Final = queue.full and self._messages > 0
        self._full = self._was_full
        self._dropped = 0
        self._refused = 0
        #: Where in the pack the new ones are.
        self._new: list[int] = []

    def result(self) -> Planned:
        places = [self._place(index, entry) for index, entry in enumerate(self._pack.entries)]
        if self._pack.limits.on_full != REFUSE:
            self._drop_oldest()
        records: list[bytes] = []
        serial = self._queue.serial
        for index in self._new:
            serial += 1
            places[index] = serial
            entry = self._pack.entries[index]
            value = encode_queued(entry.owed, entry.number, self._expiry_us(entry))
            records.append(encode_record(MESSAGE, serial, entry.owed.size_bytes, value))
        self._full = self._full and self._messages > 0
        if self._full and not self._was_full:
            records.append(encode_record(FULL, serial, 0, b""))
        change = Change(
            self._pack.client_id,
            full=self._full,
            number=self._number,
            gone=str(self._gone),
            records=b"".join(records),
        )
        is_empty = not records and not self._gone and self._number == self._queue.number
        return Planned(change, Appended(places, self._dropped, self._refused), is_empty=is_empty)

    def _place(self, index: int, entry: Entry) -> int:
        """The serial of an entry that is there already; 0 for all others, which may be among the new ones now."""
        if entry.number <= self._number:
            serial = self._queue.serial_of(entry.number)
            return 0 if serial in self._gone else serial
        self._number = entry.number
        if 0 < self._expiry_us(entry) <= self._now_us:
            return 0
        limits, size_bytes = self._pack.limits, entry.owed.size_bytes
        if limits.on_full == REFUSE:
            fits = self._messages < self._most and self._size_bytes + size_bytes <= limits.max_bytes
            if self._full or not fits:
                self._full = True
                self._refused += 1
                return 0
        self._messages += 1
        self._size_bytes += size_bytes
        self._new.append(index)
        return 0

    def _drop_oldest(self) -> None:
        limits = self._pack.limits
        older = self._queue.waiting_messages()
        while self._messages > self._most or self._size_bytes > limits.max_bytes:
            for file, serial in older:
                if serial not in self._gone:
                    self._gone.add(serial)
                    self._size_bytes -= file.size_of(serial)
                    break
            else:
                if not self._new:
                    return
                self._size_bytes -= self._pack.entries[self._new.pop(0)].owed.size_bytes
            self._messages -= 1
            self._dropped += 1

    def _expiry_us(self, entry: Entry) -> int:
        if entry.expires_us or not self._pack.limits.ttl_s:
            return entry.expires_us
        return entry.message.received_us + self._pack.limits.ttl_s * _SECOND_US
