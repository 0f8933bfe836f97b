"""The plan of an append: which messages of a batch a queue takes, which older ones it drops, which it refuses.

1. A message whose number the queue has seen already is not stored again.
2. Expired messages are removed first and count toward no limit.
3. Limits count waiting messages only; messages that were read stay. The journal's own limit (`max_queue_messages`)
   applies in addition to those of the batch, except with `take`.
4. `drop_oldest`: the oldest are dropped until the rest fits, also those of the batch.
5. `refuse`: messages that do not fit are refused, a mark is written once, and all messages are refused until the queue
   has been read to its end.
"""

from typing import Final

from holdfast.durable.queues.queue_store import REFUSE, TAKE, AppendBatch, Appended, QueueEntry
from holdfast.records.queued_message import encode_queued
from holdfast.storage.journal.queue.change import QueueChange
from holdfast.storage.journal.queue.message_file import FULL, MESSAGE, encode_record
from holdfast.storage.journal.queue.queue import JournalQueue
from holdfast.storage.journal.queue.serials import Serials


class AppendPlan:
    """The plan for one batch. It changes nothing; `make` may be called once."""

    def __init__(self, queue: JournalQueue, batch: AppendBatch, now_us: int, most: int | None = None) -> None:
        """`most`: the journal's limit of waiting messages; None has no such limit."""
        asked = batch.limits.max_messages
        self._most: Final = asked if most is None or batch.limits.on_full == TAKE else min(most, asked)
        self._queue: Final = queue
        self._batch: Final = batch
        self._now_us: Final = now_us
        self._gone: Final = Serials(queue.expired(now_us))
        waited = [serial for serial in self._gone if serial > queue.given]
        sizes = [file.size_of(serial) for serial in waited if (file := queue.file_of(serial)) is not None]
        #: Waiting messages, and their size.
        self._messages = queue.waiting - len(waited)
        self._size_bytes = queue.waiting_bytes - sum(sizes)
        self._number = queue.number
        self._was_full: Final = queue.full and self._messages > 0
        self._full = self._was_full
        self._dropped = 0
        self._refused = 0
        #: Indexes of the new messages in the batch.
        self._new: list[int] = []

    def make(self) -> tuple[QueueChange | None, Appended]:
        """The change, None if nothing has to be written; and the result for the caller once it is committed."""
        places = [self._place(index, entry) for index, entry in enumerate(self._batch.entries)]
        if self._batch.limits.on_full != REFUSE:
            self._drop_oldest()
        records: list[bytes] = []
        serial = self._queue.serial
        for index in self._new:
            serial += 1
            places[index] = serial
            entry = self._batch.entries[index]
            value = encode_queued(entry.owed, entry.number, self._expiry_us(entry))
            records.append(encode_record(MESSAGE, serial, entry.owed.size_bytes, value))
        self._full = self._full and self._messages > 0
        if self._full and not self._was_full:
            records.append(encode_record(FULL, serial, 0, b""))
        change = QueueChange(
            self._batch.client_id,
            full=self._full,
            number=self._number,
            gone=str(self._gone),
            records=b"".join(records),
        )
        is_empty = not records and not self._gone and self._number == self._queue.number
        return None if is_empty else change, Appended(places, self._dropped, self._refused)

    def _place(self, index: int, entry: QueueEntry) -> int:
        """The serial of an entry that is stored already, else 0. Notes a new one in `_new`."""
        if entry.number <= self._number:
            serial = self._queue.serial_of(entry.number)
            return 0 if serial in self._gone else serial
        self._number = entry.number
        if 0 < self._expiry_us(entry) <= self._now_us:
            return 0
        limits, size_bytes = self._batch.limits, entry.owed.size_bytes
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
        limits = self._batch.limits
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
                self._size_bytes -= self._batch.entries[self._new.pop(0)].owed.size_bytes
            self._messages -= 1
            self._dropped += 1

    def _expiry_us(self, entry: QueueEntry) -> int:
        return self._batch.limits.expiry_us(entry.message, entry.expires_us)
