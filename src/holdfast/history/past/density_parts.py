"""A part of the log in a picture: how many messages it has in each bucket, and how many of them are wanted.

    part        lo ───────┬──────────┬──────────┬───── hi        one shard, one generation
    borders               b1         b2         b3               of buckets
    serials     s0        s1         s2         s3     s4        each between a low and a high bound
    cells       [   0   ) [    1   ) [    2   ) [  3   )         what lies in a bucket: s1 - s0, s2 - s1, …

Serials have no gaps, so the messages of a cell need not be looked at to be counted. A serial at a border is known from
what the view says, from marks of heads, or looked up; until then its bounds are, and they hold without exception.

1. Erased messages have serials, so they are counted. Pages that are lost are in no part.
2. A cell is counted when every stretch that touches it has told its positions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from holdfast.durable.log import NO_END
from holdfast.history.past.density_frame import Frame
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import UNKNOWN, Part
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.records.head_marks import HeadMarks
from holdfast.records.pages.lost_pages import LOST
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.storage.rocks.layouts.indexed import IndexedLayout
from holdfast.storage.rocks.layouts.layout import Layout
from holdfast.storage.rocks.layouts.learned import LearnedLayout
from holdfast.storage.rocks.layouts.page_counter import PagedCounter
from holdfast.storage.rocks.layouts.paged import PagedLayout
from holdfast.storage.rocks.layouts.shard_counter import (
    Place,
    ScanCounter,
    ShardCounter,
    TimelineCounter,
    Wanted,
)
from holdfast.storage.rocks.layouts.stream_counter import StreamCounter
from holdfast.storage.rocks.layouts.timeline import TimelineLayout
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.topics.filters import REST

#: Messages of a stretch, about: what is counted between two lines, and is one block of the cache.
STRETCH_MESSAGES: Final = 32_768
_EVERYTHING: Final = (REST,)


def open_counter(layout: Layout, family: FamilyReader) -> ShardCounter:
    """The counter that fits a layout."""
    if isinstance(layout, PagedLayout):
        return PagedCounter(layout, family)
    if isinstance(layout, LearnedLayout | IndexedLayout):
        return StreamCounter(layout, family)
    return TimelineCounter(layout, family) if isinstance(layout, TimelineLayout) else ScanCounter(layout, family)


class Cell:
    """What a part has in one bucket."""

    def __init__(self, bucket: int, lo_us: int, hi_us: int) -> None:
        self.bucket: Final = bucket
        self.lo_us: Final = lo_us
        self.hi_us: Final = hi_us
        #: Messages that are wanted, as far as they were counted, and stretches that are not.
        self.found = 0
        self.waiting = 0
        #: Messages that were looked at for an estimate, and how many of them are wanted.
        self.looked_at = 0
        self.hits = 0
        #: Serials of the sample, in the order in which they are looked at; made with the first of them.
        self.sample: list[int] | None = None


class CountedPart:
    """See the module."""

    def __init__(self, reader: HistoryReader, part: Part, levels: tuple[bytes, ...], frame: Frame) -> None:
        self.part: Final = part
        piece = reader.piece(part)
        self.family: Final = piece.family
        self.counter: Final = open_counter(piece.layout, reader.family(piece.family))
        view = reader.view()
        records = view.generations(part.zone)
        self._record: Final = next(one for one in records if one.number == part.generation and part.shard in one.shards)
        head = view.heads[part.shard]
        is_sealed = bool(self._record.end_us) and self._record.last_serial(part.shard) <= head.serial
        #: What no longer changes may be kept.
        self.is_final: Final = is_sealed
        self._end_us: Final = self._record.end_us if is_sealed else head.position_us + 1
        before = view.serial_before(part.zone, self._record, part.shard)
        self._before: Final = self._serial_before(reader) if before == UNKNOWN else before
        self._begin_us: Final = self._begin(reader)
        self._last: Final = self._record.last_serial(part.shard) if is_sealed else head.serial
        #: Everything is the difference of serials less `$`-topics, where serials can be looked up.
        self.is_rest: Final = levels == _EVERYTHING and self.counter.knows_serials
        self.wanted: Final = Wanted() if self.is_rest else Wanted(levels)
        #: Whether some of what is counted was left out of the edition that is read.
        self.may_lack_messages: Final = self.is_rest and self._record.edition != 0
        self.borders: Final = [part.lo_us, *frame.borders_within(part.lo_us, part.hi_us), part.hi_us]
        self.low: Final = [self._before] * len(self.borders)
        self.high: Final = [self._last] * len(self.borders)
        self.cells: Final = [Cell(frame.bucket(lo_us), lo_us, hi_us) for lo_us, hi_us in pairwise(self.borders)]
        if part.after_serial != UNKNOWN:
            self._know(0, part.after_serial)
        if part.last_serial != UNKNOWN:
            self._know(len(self.borders) - 1, part.last_serial)
        self._spread()

    def _first(self, reader: HistoryReader) -> Head | None:
        return reader.first(self.part._replace(lo_us=self._record.start_us, hi_us=self._end_us))

    def _serial_before(self, reader: HistoryReader) -> int:
        """Nothing is known of the generation before: its first message tells."""
        first = self._first(reader)
        return 0 if first is None else first.serial - 1

    def _begin(self, reader: HistoryReader) -> int:
        """Where it begins. The first generation of a cluster's shard begins in 1970, and its messages do not."""
        if self._record.start_us:
            return self._record.start_us
        first = self._first(reader)
        return 0 if first is None else first.position_us

    # ---- serials at borders

    def use_marks(self, marks: HeadMarks) -> None:
        """Narrow the bounds by marks. Requires: none is above the durable head."""
        low, high = self.low, self.high
        for number, border_us in enumerate(self.borders):
            place = marks.count_until(border_us - 1)
            if place:
                position_us, serial = marks.mark(place - 1)
                low[number] = max(low[number], min(serial, high[number]))
                if position_us == border_us - 1:
                    high[number] = max(low[number], min(serial, high[number]))
            if place < len(marks):
                high[number] = max(low[number], min(marks.mark(place).serial, high[number]))
        self._spread()

    def _spread(self) -> None:
        """Serials do not decrease: what is known of a border is known of its neighbours."""
        low, high = self.low, self.high
        for number in range(1, len(low)):
            low[number] = max(low[number], low[number - 1])
        for number in range(len(high) - 2, -1, -1):
            high[number] = min(high[number], high[number + 1])

    def unknown_borders(self) -> list[int]:
        """Numbers of borders whose serial can be looked up, the newest first."""
        if not self.counter.knows_serials:
            return []
        return [number for number in range(len(self.borders) - 1, -1, -1) if self.low[number] < self.high[number]]

    def look_up(self, number: int) -> None:
        """Find out the serial at a border."""
        if self.low[number] == self.high[number]:
            return
        found = self.counter.last_before(self.borders[number])
        serial = self._before if found is None else found.serial
        floor = self.part.after_serial if self.part.after_serial != UNKNOWN else self._before
        self._know(number, max(serial, floor))

    def _know(self, number: int, serial: int) -> None:
        if not self._before <= serial <= self._last:
            raise PermanentError(
                f"shard {self.part.shard} has serial {serial} at {self.borders[number]}, and its generation has those "
                f"behind {self._before} up to {self._last}; run: holdfast verify"
            )
        self.low[number] = self.high[number] = serial

    def total(self, number: int) -> tuple[int, int]:
        """The least and the most messages of a cell."""
        low, high = self.low, self.high
        return max(0, low[number + 1] - high[number]), high[number + 1] - low[number]

    def guessed_totals(self) -> list[int]:
        """About how many messages each cell has: between borders that are known they are spread evenly over time."""
        serials = [0] * len(self.borders)
        known = 0
        for number in range(len(self.borders)):
            if self.low[number] != self.high[number] and 0 < number < len(self.borders) - 1:
                continue
            serials[number] = (self.low[number] + self.high[number]) // 2
            span_us = self.borders[number] - self.borders[known]
            for between in range(known + 1, number):
                passed_us = self.borders[between] - self.borders[known]
                guess = serials[known] + (serials[number] - serials[known]) * passed_us // span_us
                serials[between] = min(self.high[between], max(self.low[between], guess))
            known = number
        return [max(0, after - before) for before, after in pairwise(serials)]

    def ends(self, number: int) -> tuple[Place, Place]:
        """Bounds for the messages of a cell whose serials are known: the last before it, and the last in it."""
        cell = self.cells[number]
        return Place(cell.lo_us, self.low[number]), Place(cell.hi_us - 1, self.low[number + 1])

    # ---- positions

    def stretches(self) -> list[tuple[int, int]]:
        """Ranges that are counted at once, the newest first. They do not depend on the picture, if it is final."""
        fixed = self.counter.stretches()
        rest_us = fixed[-1][1] if fixed else self._begin_us
        messages = self._last - self._before
        if fixed:
            inside = self.counter.last_before(rest_us)
            messages -= 0 if inside is None else inside.serial - self._before
        rest = Part(self.part.zone, self.part.shard, self.part.generation, rest_us, self._end_us)
        pieces = rest.split(1 + max(0, messages) // STRETCH_MESSAGES) if rest_us < self._end_us else []
        found = [*fixed, *[(piece.lo_us, piece.hi_us) for piece in pieces]]
        return [one for one in reversed(found) if one[0] < self.part.hi_us and one[1] > self.part.lo_us]

    def positions(self, stretch: tuple[int, int], wanted: Wanted | None = None) -> Iterator[Sequence[int]]:
        """As `ShardCounter.positions`, of what is wanted here. Of what is not final, only inside of the part."""
        lo_us, hi_us = stretch
        if not self.is_final:
            lo_us, hi_us = max(lo_us, self.part.lo_us), min(hi_us, self.part.hi_us)
        return self.counter.positions(wanted or self.wanted, lo_us, hi_us)

    def await_stretch(self, stretch: tuple[int, int]) -> None:
        for cell in self._cells_of(stretch):
            cell.waiting += 1

    def add(self, stretch: tuple[int, int], positions: Sequence[int]) -> None:
        """Count a stretch. Requires: its positions are in order."""
        for cell in self._cells_of(stretch):
            cell.waiting -= 1
            cell.found += bisect_left(positions, cell.hi_us) - bisect_left(positions, cell.lo_us)

    def _cells_of(self, stretch: tuple[int, int]) -> list[Cell]:
        first = max(0, bisect_right(self.borders, stretch[0]) - 1)
        return self.cells[first : bisect_left(self.borders, stretch[1])]

    def cache_name(self, wanted: Wanted) -> bytes:
        """What is lost of a generation is not the same for good."""
        return b"\0".join([wanted.name, str(self._record.parameters.get(LOST, "")).encode()])


def first_position(reader: HistoryReader, parts: list[Part]) -> int:
    """Where the oldest message of some parts is; NO_END if there is none."""
    oldest: dict[tuple[str, int], Part] = {}
    found_us = NO_END
    for part in sorted(parts, key=lambda part: part.lo_us):
        if (part.zone, part.shard) in oldest:
            continue
        first = reader.first(part)
        if first is not None:
            oldest[part.zone, part.shard] = part
            found_us = min(found_us, first.position_us)
    return found_us


def generation_starts(records: list[Generation], from_us: int, to_us: int) -> list[int]:
    """Where generations begin inside of a picture."""
    return sorted({record.start_us for record in records if from_us < record.start_us < to_us})
