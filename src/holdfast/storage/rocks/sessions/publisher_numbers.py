"""The last number of each publisher that numbers its messages, in the family `meta`."""

from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.model.clock import Clock
from holdfast.records.meta_keys import NUMBER, all_of, number_key
from holdfast.records.session.numbers import LastNumber, decode_number, encode_number
from holdfast.storage.rocks.engine.column_families import META, ColumnFamilies
from holdfast.storage.rocks.engine.scan import get_one, scan_items

#: How long a number is kept that is not used: a publisher repeats a message within hours.
KEPT_US: Final = 30 * 24 * 3600 * 1_000_000


class RocksPublisherNumbers:
    """A `NumberStore`, and the `Companion` that writes it. Survives: what the log survives."""

    def __init__(self, contents: ColumnFamilies, clock: Clock) -> None:
        self._contents: Final = contents
        self._clock: Final = clock
        #: Where the next sweep goes on.
        self._swept = all_of(NUMBER)[0]

    def add(self, batch: Batch, changes: Changes) -> None:
        if not batch.numbers:
            return
        puts = changes.into(META)
        now_us = self._clock.wall_us()
        for key, number in batch.numbers.items():
            puts.put(number_key(key), encode_number(LastNumber(number, now_us)))

    def last(self, key: str) -> int:
        value = get_one(self._contents.family(META), number_key(key))
        return -1 if value is None else decode_number(value).number

    def sweep(self, now_us: int, limit: int, changes: Changes) -> None:
        """Remove what was not used for long, looking at `limit` records."""
        first, end = all_of(NUMBER)
        for looked, (key, value) in enumerate(scan_items(self._contents.family(META), self._swept, end)):
            if looked == limit:
                self._swept = key
                return
            if decode_number(value).taken_us + KEPT_US < now_us:
                changes.into(META).delete(key)
        self._swept = first
