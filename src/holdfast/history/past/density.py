"""Density: how many messages of a filter lie in each bucket of time. First at once, perhaps estimated; then exact.

    borders of buckets ──▶ serials ──▶ exact totals ──▶ a sample of each cell ──▶ line: estimates with their errors
    newest stretch ──▶ positions that match, from the cache or the log ──▶ line … every 250 ms ──▶ line: exact, done

    #            differences of serials, less the messages on `$`-topics, which `#` does not match
    any other    positions by index, postings or keys (`layouts/shard_counter.py`); no message is decoded

1. A line is finer than the one before: exact buckets stay as they are, and no number looks exact that is an estimate.
2. Erased messages are counted, because serials are; `erased_at_most` says how many of them there may be.
3. One reader is held for one question. All lines show the state of its beginning.
4. A question stops when its client is gone, and keeps what was counted (`counts_cache.py`).
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.history.past.counts_cache import CountsCache, Positions, Range
from holdfast.history.past.density_edges import (
    ErasedCount,
    Gap,
    Lost,
    covered_marks,
    erasure_times,
    gaps,
    longest_marks,
    lost_messages,
    without_messages,
)
from holdfast.history.past.density_frame import Frame
from holdfast.history.past.density_parts import Cell, CountedPart, first_position, generation_starts
from holdfast.history.past.density_sample import Sampler, cell_bounds
from holdfast.history.past.questions import Question, wrong_value
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.time import HOUR_US
from holdfast.records.head_marks import HeadMarks

MAX_BUCKETS: Final = 600
DEFAULT_BUCKETS: Final = 240
#: Seconds until the first line: so long everything is counted exactly, then estimated.
_EXACT_S: Final = 0.1
_FIRST_LINE_S: Final = 0.2
#: Seconds between two lines.
_LINE_S: Final = 0.25
_PARAMETERS: Final = ("filter", "zone", "from", "to", "buckets")

Line = dict[str, object]


class DensityQuery(NamedTuple):
    """Which messages, and which buckets: about `buckets` of them in [from, to)."""

    levels: tuple[bytes, ...]
    from_us: int
    to_us: int
    buckets: int
    now_us: int
    #: None: all zones.
    zone: str | None = None


def parse_density(params: Mapping[str, list[str]], zones: Collection[str], now_us: int = 0) -> DensityQuery:
    """The question that parameters ask; without a time of asking, now. QuestionError if one of them is wrong."""
    question = Question(params, _PARAMETERS, now_us=now_us)
    from_us, to_us = question.moment_us("from", 0), question.moment_us("to", question.now_us)
    if from_us >= to_us:
        raise wrong_value("to", f"it is {to_us}, and from is {from_us}; a time behind that would be right")
    buckets = question.number("buckets", DEFAULT_BUCKETS, 1, MAX_BUCKETS)
    return DensityQuery(question.filter().levels, from_us, to_us, buckets, question.now_us, question.zone(zones))


def density(
    pool: ReaderPool,
    query: DensityQuery,
    gone: Callable[[], bool],
    *,
    clock_s: Callable[[], float] = time.monotonic,
    cache: CountsCache | None = None,
) -> Iterator[Line]:
    """The lines of an answer, each finer than the one before; the last one is `done`.

    PermanentError if there is no such zone, TransientError if no reader is free.
    """
    return pool.read(lambda reader: Density(reader, query, clock_s, cache).lines(), gone)


class Density:
    """One question, and what is known of its answer."""

    def __init__(
        self, reader: HistoryReader, query: DensityQuery, clock_s: Callable[[], float], cache: CountsCache | None = None
    ) -> None:
        self._clock_s: Final = clock_s
        self._begun_s: Final = clock_s()
        self._cache: Final = CountsCache(reader.folder) if cache is None else cache
        view = reader.view()
        self.frame: Final = Frame(_first_moment(reader, query), query.to_us, query.buckets)
        self.parts: Final = [
            CountedPart(reader, part, query.levels, self.frame)
            for part in view.parts(self.frame.from_us, query.to_us, query.zone)
        ]
        # The newest first: that is what is looked at.
        self.parts.sort(key=lambda part: part.part.hi_us, reverse=True)
        for part in self.parts:
            if part.counter.marks_help:
                part.use_marks(covered_marks(reader.folder, view, part.part.shard))
        zones = [zone for zone in view.zones.values() if query.zone is None or zone.is_of(query.zone)]
        shards = sorted({shard for zone in zones for shard in zone.shards if shard in view.heads})
        self._lost: Final[Lost] = lost_messages(view, shards, query.from_us, query.to_us)
        # Of a cluster other nodes went on when this one did not run.
        marks = HeadMarks(b"") if view.of_cluster else longest_marks(reader.folder, view)
        self._gaps: Final[list[Gap]] = [
            gap
            for one in gaps(marks, self.frame.from_us, query.to_us, query.now_us)
            if (gap := without_messages(one, self.parts))[0] < gap[1]
        ]
        records = [record for zone in zones for record in view.live[zone.name]]
        self._generations_us: Final = generation_starts(records, self.frame.from_us, query.to_us)
        erasures = reader.erasures()
        self._erased: Final = ErasedCount(erasures, query.levels, self.parts)
        self._erasures_us: Final = erasure_times(erasures, query.levels, self.frame.from_us, query.to_us)
        self._erased_at_most: int | None = None
        self._sampler: Final = Sampler(crc32(repr(query[:4]).encode()))
        self._done = False
        #: Stretches, how many of them are counted, and when that began.
        self._planned = 0
        self._counted = 0
        self._counting_s = self._begun_s

    def lines(self) -> Iterator[Line | None]:
        """None where others may have a turn."""
        with closing(self._counting()) as work:
            yield from self._until(work, _EXACT_S)
            if self._is_nearly_done():
                yield from self._until(work, _FIRST_LINE_S)
            if not self._done:
                yield from self._until(self._estimating(), _FIRST_LINE_S)
            was_done = self._done
            yield self.line()
            told_s = self._clock_s()
            for _pause in work:
                if self._clock_s() - told_s >= _LINE_S:
                    yield self.line()
                    told_s = self._clock_s()
                else:
                    yield None
            if not was_done:
                yield self.line()

    def _until(self, work: Iterator[None], limit_s: float) -> Iterator[None]:
        """Go on with something until so long after the beginning."""
        for _pause in work:
            yield None
            if self._clock_s() - self._begun_s >= limit_s:
                return

    def _is_nearly_done(self) -> bool:
        """Whether all will be counted until the first line, if it goes on as it went."""
        if not self._counted:
            return False
        now_s = self._clock_s()
        left_s = (now_s - self._counting_s) * (self._planned - self._counted) / self._counted
        return now_s + left_s <= self._begun_s + _FIRST_LINE_S

    # ---- counting

    def _counting(self) -> Generator[None]:
        """Everything there is to do until the answer is exact, with pauses. What it has counted is kept at its end."""
        stretches = self._plan()
        # Where a lookup is cheap it comes first: an estimate without totals is none.
        yield from _look_up(part for part in self.parts if part.is_rest or not part.counter.marks_help)
        known: dict[int, _KnownPositions] = {}
        self._planned, self._counting_s = len(stretches), self._clock_s()
        try:
            for stretch, number in stretches:
                part = self.parts[number]
                if number not in known:
                    known[number] = _KnownPositions(self._cache, part)
                yield from known[number].count(stretch)
                self._counted += 1
        finally:
            for positions in known.values():
                positions.save()
        if self._erased.can_be_counted:
            for found in self._erased.count():
                self._erased_at_most = found
                yield None
        self._done = True

    def _estimating(self) -> Iterator[None]:
        """Find out how many messages there are in all, and look at some of them. Counting positions needs neither."""
        yield from _look_up(self.parts)
        yield from self._sampler.look(self.parts)

    def _plan(self) -> list[tuple[Range, int]]:
        """All stretches with the numbers of their parts, the newest first."""
        found: list[tuple[Range, int]] = []
        for number, part in enumerate(self.parts):
            for stretch in part.stretches():
                part.await_stretch(stretch)
                found.append((stretch, number))
        found.sort(key=lambda one: one[0][1], reverse=True)
        return found

    # ---- what is known by now

    def line(self) -> Line:
        counts = [0] * self.frame.count
        errors = [0] * self.frame.count
        for part in self.parts:
            guesses = part.guessed_totals()
            for number, cell in enumerate(part.cells):
                count, error = self._value(part, number, cell, guesses[number])
                counts[cell.bucket] += count
                errors[cell.bucket] += error
        exact = not any(errors)
        total = sum(counts)
        erased = self._erased.at_most() if self._erased_at_most is None else self._erased_at_most
        return {
            "from_us": self.frame.from_us,
            "to_us": self.frame.to_us,
            "step_us": self.frame.step_us,
            "counts": counts,
            "errors": errors,
            "exact": exact,
            "done": self._done,
            "total": total,
            "looked_at": self._sampler.looked_at,
            "erased_at_most": min(erased, total + sum(errors)),
            "lost_at_most": self._lost.at_most,
            "lost_before_us": self._lost.before_us,
            "gaps": [list(gap) for gap in self._gaps],
            "generations_us": self._generations_us,
            "erasures_us": self._erasures_us,
        }

    def _value(self, part: CountedPart, number: int, cell: Cell, total: int) -> tuple[int, int]:
        """How many messages of a cell are counted, and by how much that may be wrong. `total` is about what it has."""
        least, most = part.total(number)
        if cell.waiting:
            low, high = cell_bounds(cell, most) if least == most else (0, most)
        else:
            low = high = cell.found
        if part.is_rest:
            low, high = max(0, least - high), most - low
        if low == high:
            return low, 0
        share = self._sampler.share(cell)
        share = 1.0 - share if part.is_rest else share
        guess = min(high, max(low, round(share * total)))
        return guess, max(high - guess, guess - low)


def _look_up(parts: Iterable[CountedPart]) -> Iterator[None]:
    """Find out the serials at all borders of some parts, with pauses."""
    for part in parts:
        for number in part.unknown_borders():
            part.look_up(number)
            yield None


class _KnownPositions:
    """The positions of one part that are in the cache, and those that were counted since."""

    def __init__(self, cache: CountsCache, part: CountedPart) -> None:
        self._cache: Final = cache
        self._part: Final = part
        self._name: Final = part.cache_name(part.wanted)
        self._blocks: Final = cache.load(part.family, self._name) if part.is_final else {}
        self._is_new = False

    def count(self, stretch: Range) -> Iterator[None]:
        block = self._blocks.get(stretch)
        if block is not None:
            positions = block.unpack()
        else:
            positions = []
            for found in self._part.positions(stretch):
                positions += found
                yield None
            positions.sort()
            if self._part.is_final:
                self._blocks[stretch] = Positions.pack(stretch[0], positions)
                self._is_new = True
        self._part.add(stretch, positions)
        yield None

    def save(self) -> None:
        if self._is_new:
            self._cache.save(self._part.family, self._name, self._blocks)
            self._is_new = False


def _first_moment(reader: HistoryReader, query: DensityQuery) -> int:
    """Where a picture begins that is to show everything: with the first message that there is."""
    if query.from_us > 0:
        return query.from_us
    first_us = first_position(reader, reader.parts(0, query.to_us, query.zone))
    return first_us if first_us < query.to_us else max(0, query.to_us - HOUR_US)
