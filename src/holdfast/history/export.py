"""An export: record batches of the messages that match a filter, and the share that is done.

    parts of the folder ──▶ slices ──▶ replay ──▶ record batches
                            weighed by how many messages they hold, whether they match or not

1. Messages of a shard come in order. Merged by time, all messages do.
2. A read without a filter is checked by serials; missing messages are an error, never a silent gap.
3. The share counts messages that were read, not those that match, so that it advances also for a rare topic.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.durable.log import NO_END
from holdfast.history.arrow.message_batches import record_batch
from holdfast.history.reader.reader import UNKNOWN, HistoryReader, Part
from holdfast.topics.filters import REST, TopicFilter

_BATCH_ROWS: Final = 16_384
#: With a filter a part is read in slices of about this many messages, so that progress advances without matches.
_SLICE_MESSAGES: Final = 100_000
_MAX_SLICES: Final = 64
#: Columns that are always read: for the order, the summary, and `$`-topics.
_OWN_COLUMNS: Final = ("offset", "shard", "topic")
#: Messages of different shards may have the same position: then the shard decides, so that every run is the same.
_ORDER: Final = [("offset", "ascending"), ("shard", "ascending")]


class Export:
    """One export of [since, until)."""

    def __init__(
        self, reader: HistoryReader, topic_filter: TopicFilter, columns: Sequence[str], since_us: int, until_us: int
    ) -> None:
        self._reader: Final = reader
        self._columns: Final = [*columns]
        self._read_columns: Final = [*columns, *(name for name in _OWN_COLUMNS if name not in columns)]
        levels = topic_filter.levels
        #: Whether all is read and `$`-topics are removed afterwards: such a read can be checked by serials.
        self._all: Final = levels == (REST,)
        self._levels: Final = () if self._all else levels
        self._parts: Final = reader.parts(since_us, until_us)
        whole = {(part.shard, part.generation): part for part in reader.parts(0, NO_END)}
        self._weights: Final = {part: _weight(part, whole[part.shard, part.generation]) for part in self._parts}
        self._total: Final = sum(self._weights.values())
        self._done = 0.0
        self.messages = 0
        #: Positions of the first and the last message; 0 without any.
        self.first_us = 0
        self.last_us = 0

    def share(self) -> float | None:
        """The share that was read, from 0 to 1; None if there is nothing to read."""
        return min(1.0, self._done / self._total) if self._total else None

    def batches(self, *, by_time: bool) -> Iterator[Any]:
        """Record batches of the columns asked for."""
        if by_time:
            shards = sorted({part.shard for part in self._parts})
            found = merge_by_time([self._of([part for part in self._parts if part.shard == one]) for one in shards])
        else:
            found = self._of(self._parts)
        for batch in found:
            positions = pc.min_max(batch.column("offset"))
            first_us, last_us = positions["min"].as_py(), positions["max"].as_py()
            self.first_us = min(self.first_us or first_us, first_us)
            self.last_us = max(self.last_us, last_us)
            self.messages += batch.num_rows
            yield batch.select(self._columns)

    def _of(self, parts: Sequence[Part]) -> Iterator[Any]:
        for part in parts:
            weight = self._weights[part]
            # A read can be checked only if its part is not divided.
            slices = [part] if self._all else part.split(min(_MAX_SLICES, 1 + int(weight) // _SLICE_MESSAGES))
            for piece in slices:
                yield from self._piece(piece, weight / len(slices))

    def _piece(self, piece: Part, weight: float) -> Iterator[Any]:
        """Never an empty batch."""
        counted = 0.0
        replay = self._reader.start_replay([piece], self._levels)
        while not (page := replay.next(_BATCH_ROWS)).at_end:
            batch = record_batch(page.messages, piece.shard, self._read_columns)
            if self._all:
                step = min(float(len(page.messages)), weight - counted)
                counted += step
                self._done += step
                dollar = pc.starts_with(batch.column("topic"), "$")
                if pc.any(dollar).as_py():
                    batch = batch.filter(pc.invert(dollar))
            if batch.num_rows:
                yield batch
        self._done += weight - counted


def _weight(part: Part, whole: Part) -> float:
    """How many messages there are in a part, by serials where they are known, else by its share of time."""
    if part.after_serial != UNKNOWN and part.last_serial != UNKNOWN:
        return float(part.last_serial - part.after_serial)
    if whole.after_serial == UNKNOWN or whole.last_serial == UNKNOWN:
        return 1.0
    share = (part.hi_us - part.lo_us) / (whole.hi_us - whole.lo_us)
    return (whole.last_serial - whole.after_serial) * share


def merge_by_time(streams: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Record batches with the columns `offset` and `shard`, merged. Requires: no batch is empty.

        stream A   ▂▂▂▂▂▂▂▂│        the earliest of the last positions in hand is the frontier: nothing below it can
        stream B   ▂▂▂▂│            still come, so everything up to it is sorted and passed on
                   frontier ↑

    Memory is a batch for each stream.
    """
    waiting = list(streams)
    hands: list[Any] = [next(stream, None) for stream in waiting]
    while True:
        there = [index for index, hand in enumerate(hands) if hand is not None]
        if not there:
            return
        frontier_us = min(hands[index].column("offset")[-1].as_py() for index in there)
        taken: list[Any] = []
        for index in there:
            hand = hands[index]
            count = int(np.searchsorted(hand.column("offset").to_numpy(), frontier_us, side="right"))
            if count:
                taken.append(hand.slice(0, count))
            hands[index] = hand.slice(count) if count < hand.num_rows else next(waiting[index], None)
        yield from pa.Table.from_batches(taken).sort_by(_ORDER).combine_chunks().to_batches()
