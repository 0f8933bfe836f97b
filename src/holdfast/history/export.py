"""What an export reads: batch after batch of the messages that match a filter, and how much of it is done.

    parts of the folder ──▶ slices ──▶ values ──▶ record batches
                            weighed by how many messages they hold, whether they match or not

1. Messages of a shard come in order. Merged by time, all do.
2. A read of everything is checked by serials; what retention or damage took away is an error, never a gap.
3. The share that is done is of messages looked through, not of messages found: a rare topic does not stand still.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.durable.log import FOR_EVER
from holdfast.history.arrow import record_batch
from holdfast.history.merging import merged_by_time
from holdfast.history.reader import UNKNOWN, HistoryReader, Part
from holdfast.topics.filters import REST, TopicFilter

#: Rows and bytes of a batch.
_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 32 * 2**20
#: With a filter a part is read in slices of about so many messages, so that progress shows where nothing matches.
_SLICE_MESSAGES: Final = 100_000
_MAX_SLICES: Final = 64
#: Needed besides what is asked for: the order, the summary, and `$`-topics.
_OWN_COLUMNS: Final = ("offset", "shard", "topic")


class Export:
    """One export of [since, until)."""

    def __init__(
        self, reader: HistoryReader, topic_filter: TopicFilter, columns: Sequence[str], since_us: int, until_us: int
    ) -> None:
        self._reader: Final = reader
        self._columns: Final = [*columns]
        self._read_columns: Final = [*columns, *(name for name in _OWN_COLUMNS if name not in columns)]
        levels = topic_filter.levels
        #: Whether everything is read, and what `#` does not match is left out afterwards: that can be checked.
        self._all: Final = levels == (REST,)
        self._levels: Final = () if self._all else levels
        self._parts: Final = reader.parts(since_us, until_us)
        whole = {(part.shard, part.generation): part for part in reader.parts(0, FOR_EVER)}
        self._weights: Final = {part: _weight(part, whole[part.shard, part.generation]) for part in self._parts}
        self._total: Final = sum(self._weights.values())
        self._done = 0.0
        self.messages = 0
        #: Positions of the first and the last message; 0 without any.
        self.first_us = 0
        self.last_us = 0

    def share(self) -> float | None:
        """How much was looked through, from 0 to 1; None if there is nothing."""
        return min(1.0, self._done / self._total) if self._total else None

    def batches(self, *, by_time: bool) -> Iterator[Any]:
        """Record batches of the columns asked for."""
        if by_time:
            shards = sorted({part.shard for part in self._parts})
            found = merged_by_time([self._of([part for part in self._parts if part.shard == one]) for one in shards])
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
            # A read that is checked needs its part whole.
            slices = [part] if self._all else part.split(min(_MAX_SLICES, 1 + int(weight) // _SLICE_MESSAGES))
            for piece in slices:
                yield from self._piece(piece, weight / len(slices))

    def _piece(self, piece: Part, weight: float) -> Iterator[Any]:
        """Never an empty batch."""
        counted = 0.0
        for chunk in _chunks(self._reader.values(piece, self._levels)):
            batch = record_batch(chunk, piece.shard, self._read_columns)
            if self._all:
                step = min(float(len(chunk)), weight - counted)
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


def _chunks(values: Iterator[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size_bytes = 0
    for value in values:
        chunk.append(value)
        size_bytes += len(value)
        if len(chunk) == _BATCH_ROWS or size_bytes >= _BATCH_BYTES:
            yield chunk
            chunk = []
            size_bytes = 0
    if chunk:
        yield chunk
