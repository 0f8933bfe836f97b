"""The generations of a zone for their readers, in the broker or in another process."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from holdfast.durable.log import NO_END, LostRange
from holdfast.records.generations import Generation
from holdfast.storage.rocks.layouts.build import make_layout
from holdfast.storage.rocks.layouts.layout import Layout
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.topics.learned import LearnedTopics


class ShardGeneration:
    """One shard of one generation: a column family, and the layout that reads and writes it."""

    def __init__(self, family: str, layout: Layout) -> None:
        self.family: Final = family
        self.layout = layout
        #: Whether all of it is in segments and nothing follows, or cannot become segments.
        self.needs_no_segments = False
        #: The first position of a damaged commit page that the next stretch has to end before; 0 if none is known.
        self.damaged_us = 0
        #: Whether a reader has failed in it, so that its commit pages are looked at; and whether one ever has.
        self.is_suspect = False
        self.was_suspect = False
        #: Segments without an index that were made one after the other, since the start.
        self.small_segments = 0

    def suspect(self) -> None:
        """A reader has failed in it. Once: what fails again is no commit page."""
        if not self.was_suspect:
            self.is_suspect = self.was_suspect = True


class LiveGeneration:
    """A generation that can be read."""

    def __init__(
        self,
        record: Generation,
        inherited: dict[int, LearnedTopics] | None = None,
        given: Sequence[bytes] = (),
        segments: SegmentFamilies | None = None,
    ) -> None:
        """Without `segments` only what is in the families of its shards can be read."""
        self.record = record
        self._segments: Final = None if segments is None else segments.of(record)
        learnt = inherited or {}
        self.by_shard: Final = {
            shard: ShardGeneration(record.family(shard), self._layout(learnt.get(shard), given))
            for shard in record.shards
        }

    def forget_writing(self, piece: ShardGeneration) -> None:
        """Nothing is written to it any more: what its writer held in memory can go."""
        piece.layout = self._layout(None)

    def _layout(self, inherited: LearnedTopics | None, given: Sequence[bytes] = ()) -> Layout:
        record = self.record
        parameters = {name: value for name, value in record.parameters.items() if not isinstance(value, str)}
        return make_layout(record.layout, parameters, inherited, given, self._segments)


class ZoneGenerations:
    """Which generations there are, and which there were."""

    def __init__(self) -> None:
        #: Oldest first; the last one may be open.
        self.live: Final[list[LiveGeneration]] = []
        #: Oldest first. The records of those that were dropped last: they tell how much a reader lost.
        self.dropped: Final[list[Generation]] = []

    def pieces(self, shard: int, lo_us: int, hi_us: int) -> list[tuple[ShardGeneration, int, int]]:
        """The generations of a shard that hold a part of [lo, hi), oldest first, each with its own part."""
        found: list[tuple[ShardGeneration, int, int]] = []
        for generation in self.live:
            piece = generation.by_shard.get(shard)
            record = generation.record
            if piece is None or record.start_us >= hi_us or (record.end_us and record.end_us <= lo_us):
                continue
            end_us = min(hi_us, record.end_us) if record.end_us else hi_us
            found.append((piece, max(lo_us, record.start_us), end_us))
        return found

    def gap_us(self, shard: int, from_us: int) -> int:
        """Where something of a shard is missing behind what can be read from a position on; NO_END if that is nowhere.

        Retention drops the oldest, so there is no gap unless a generation was brought back, or a page is lost.
        """
        lost = [one.first_us for generation in self.live for one in generation.record.lost_pages(shard)]
        return min([self._dropped_us(from_us), *[first_us for first_us in lost if first_us >= from_us]])

    def _dropped_us(self, from_us: int) -> int:
        if self.live and self.dropped and self.dropped[-1].number > self.live[0].record.number:
            for one, following in pairwise(generation.record for generation in self.live):
                between = any(one.number < gone.number < following.number for gone in self.dropped)
                if one.end_us > from_us and between:
                    return one.end_us
        return NO_END

    def lost(self, shard: int, from_us: int, before_us: int) -> LostRange | None:
        """What was dropped of [from, before) in a shard, up to the first generation that can still be read; or what is
        lost from there on.
        """
        live = [generation.record for generation in self.live]
        dropped = lost_range(live, self.dropped, shard, from_us, before_us)
        if dropped is not None:
            return dropped
        for record in live:
            for lost in record.lost_pages(shard):
                if lost.first_us <= from_us <= lost.last_us:
                    return LostRange(shard, from_us, lost.last_us + 1, lost.messages, damaged=True)
        return None


def damaged_range(live: list[Generation], shard: int, from_us: int, before_us: int) -> LostRange | None:
    """What is lost of [from, before) in a shard because pages are damaged; all of it as one range."""
    found = [
        lost
        for record in live
        for lost in record.lost_pages(shard)
        if lost.last_us >= from_us and lost.first_us < before_us
    ]
    if not found:
        return None
    first_us, end_us = max(from_us, found[0].first_us), min(before_us, found[-1].last_us + 1)
    return LostRange(shard, first_us, end_us, sum([lost.messages for lost in found]), damaged=True)


def lost_range(
    live: list[Generation], dropped: list[Generation], shard: int, from_us: int, before_us: int
) -> LostRange | None:
    """What was dropped of [from, before) in a shard, up to the first generation that can still be read."""
    for record in live:
        if not record.end_us or record.end_us > from_us:
            before_us = min(before_us, record.start_us)
            break
    sealed = [record for record in live if record.end_us]
    passed = [record for record in [*dropped, *sealed] if shard in record.shards and record.end_us <= from_us]
    gone = [
        record
        for record in dropped
        if shard in record.shards and record.end_us > from_us and record.start_us < before_us
    ]
    if from_us >= before_us or not gone:
        return None
    last_serial = _last_serial(gone[-1], shard)
    count = last_serial - max([0, *[_last_serial(record, shard) for record in passed]])
    if count <= 0:
        return None
    # Of what was there before the first record that is kept, nothing is known but the count.
    is_first = not passed and gone[0].number > 1
    first_us = from_us if is_first else max(from_us, gone[0].start_us)
    return LostRange(shard, first_us, min(before_us, gone[-1].end_us), count, last_serial=last_serial)


def _last_serial(record: Generation, shard: int) -> int:
    return record.last_serials[record.shards.index(shard)]
