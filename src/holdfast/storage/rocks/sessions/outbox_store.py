"""The outbox on disk, in `meta`: a put when a message is committed, a delete when the queues outside have it."""

from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.queues.outbox import OutboxChange, OutboxDone, OutboxRecord, QueueDrop
from holdfast.model.errors import MisuseError
from holdfast.records.meta_keys import (
    OUTBOX,
    OUTBOX_CEILING_KEY,
    QUEUE_DROP,
    all_of,
    number_of_key,
    outbox_key,
    queue_drop_key,
)
from holdfast.records.outbox import (
    decode_outbox,
    decode_outbox_ceiling,
    decode_queue_drop,
    encode_outbox,
    encode_outbox_ceiling,
    encode_queue_drop,
)
from holdfast.storage.rocks.engine.column_families import META, ColumnFamilies
from holdfast.storage.rocks.engine.scan import get_one, scan_items

#: Numbers that are reserved at once; a sync in so many messages is none.
_RESERVED: Final = 1_000_000


class RocksOutbox:
    """An `OutboxStore`, and the `Companion` that writes it. Survives: what the log survives.

    1. A number is given out only below a ceiling that is synced, or in the batch that brings it: a queue outside
       ignores what is numbered below the last it has, so a number that came twice would lose a message.
    """

    def __init__(self, contents: ColumnFamilies) -> None:
        self._contents: Final = contents
        stored = get_one(contents.family(META), OUTBOX_CEILING_KEY)
        self._ceiling = 0 if stored is None else decode_outbox_ceiling(stored)

    def add(self, batch: Batch, changes: Changes) -> None:
        if not batch.outbox:
            return
        puts = changes.into(META)
        for change in batch.outbox:
            if isinstance(change, OutboxRecord):
                puts.put(outbox_key(change.number), encode_outbox(change.message, change.targets))
            elif isinstance(change, QueueDrop):
                puts.put(queue_drop_key(change.number), encode_queue_drop(change.backend, change.client_id))
            elif isinstance(change, OutboxDone):
                puts.delete(outbox_key(change.number))
                puts.delete(queue_drop_key(change.number))
            else:
                raise MisuseError(f"{type(change).__name__} is no change of the outbox")
        last = max(change.number for change in batch.outbox)
        if last + _RESERVED // 2 > self._ceiling:
            self._ceiling = last + _RESERVED
            puts.put(OUTBOX_CEILING_KEY, encode_outbox_ceiling(self._ceiling))
            batch.strict = True

    def ceiling(self) -> int:
        return self._ceiling

    def leftover(self) -> list[OutboxChange]:
        family = self._contents.family(META)
        found: list[OutboxChange] = []
        for key, value in scan_items(family, *all_of(OUTBOX)):
            found.append(OutboxRecord(number_of_key(key), *decode_outbox(value)))
        for key, value in scan_items(family, *all_of(QUEUE_DROP)):
            found.append(QueueDrop(number_of_key(key), *decode_queue_drop(value)))
        return sorted(found, key=lambda change: change.number)
