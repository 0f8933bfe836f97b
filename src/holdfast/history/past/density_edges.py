"""What a picture of the past is bounded by: what retention took, what was erased, when the broker did not run."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import sub
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.durable.erasures import Erasure, Erasures
from holdfast.durable.log import NO_END
from holdfast.history.past.density_parts import CountedPart
from holdfast.history.reader.view import View
from holdfast.records.head_marks import HeadMarks
from holdfast.storage.rocks.layouts.shard_counter import Wanted
from holdfast.storage.rocks.log.head_marks import GAP_US, read_marks, read_span
from holdfast.storage.rocks.log.zone_generations import lost_range
from holdfast.topics.overlap import overlap

#: Gaps that are told, the newest.
_MAX_GAPS: Final = 1_000
#: Erasures that are told in one picture.
_MAX_ERASURES: Final = 1000
#: More erasures than these are not counted one by one.
MAX_COUNTED: Final = 16

Gap = tuple[int, int]


class Lost(NamedTuple):
    """What is not there any more: at most so many messages, and before when retention took everything, if it did."""

    at_most: int
    before_us: int | None


def lost_messages(view: View, shards: Iterable[int], from_us: int, to_us: int) -> Lost:
    """Of [from, to) in some shards: by retention, and by damage."""
    at_most = 0
    before_us: int | None = None
    for shard in shards:
        zone = view.zone_of(shard)
        live = [record for record in view.live[zone] if shard in record.shards]
        dropped = lost_range(live, view.dropped[zone], shard, from_us, to_us)
        if dropped is not None:
            at_most += dropped.at_most
            before_us = dropped.to_us if before_us is None else max(before_us, dropped.to_us)
        damaged = view.damaged(shard, from_us, to_us)
        at_most += 0 if damaged is None else damaged.at_most
    return Lost(at_most, before_us)


def covered_marks(folder: Path, view: View, shard: int) -> HeadMarks:
    """The marks of a shard, without those above its durable head."""
    marks = read_marks(folder, shard)
    marks.cut(marks.count_covered(view.heads[shard].serial, NO_END))
    return marks


def longest_marks(folder: Path, view: View) -> HeadMarks:
    """The marks of the shard that has had them for longest, among those that have them up to now.

    All shards get their marks at the same moments, so one tells for all when the broker ran. A zone that came later has
    no marks from before, and one that has nothing left gets none any more.
    """
    spans = {shard: span for shard in view.heads if (span := read_span(folder, shard)) is not None}
    newest_us = max((last_us for _first_us, last_us in spans.values()), default=0)
    lasting = [shard for shard, (_first_us, last_us) in spans.items() if newest_us - last_us <= GAP_US]
    return covered_marks(folder, view, min(lasting, key=lambda shard: spans[shard])) if lasting else HeadMarks(b"")


def gaps(marks: HeadMarks, from_us: int, to_us: int, now_us: int) -> list[Gap]:
    """When the broker did not run, in [from, to). Nothing is known of the time before the first mark."""
    positions = marks.positions
    if not positions:
        return []
    steps = map(sub, islice(positions, 1, None), positions)
    found = [(positions[number], positions[number + 1]) for number, step_us in enumerate(steps) if step_us > GAP_US]
    if now_us - positions[-1] > GAP_US:
        found.append((positions[-1], now_us))
    clipped = [(max(begin_us, from_us), min(end_us, to_us)) for begin_us, end_us in found]
    return [gap for gap in clipped if gap[0] < gap[1]][-_MAX_GAPS:]


def without_messages(gap: Gap, parts: Sequence[CountedPart]) -> Gap:
    """A gap from the last message before its end on: a broker that was killed has written no last mark."""
    begin_us, end_us = gap
    for part in parts:
        if part.part.lo_us < end_us and part.part.hi_us > begin_us and part.counter.knows_serials:
            last = part.counter.last_before(min(end_us, part.part.hi_us))
            if last is not None:
                begin_us = max(begin_us, last.position_us + 1)
    return begin_us, end_us


def erasure_times(erasures: Erasures, levels: tuple[bytes, ...], from_us: int, to_us: int) -> list[int]:
    """When something of a filter was erased, in [from, to): the newest of them, in order."""
    made = [one.made_us for one in erasures.all if one.client or overlap(one.levels, levels)]
    return sorted({made_us for made_us in made if from_us <= made_us < to_us})[-_MAX_ERASURES:]


class ErasedCount:
    """How many messages of a picture were erased, at most."""

    def __init__(self, erasures: Erasures, levels: tuple[bytes, ...], parts: Sequence[CountedPart]) -> None:
        self._parts: Final = parts
        shards = {part.part.shard: part.part.lo_us for part in sorted(parts, key=lambda part: -part.part.lo_us)}
        self._concerned: Final = [
            erasure
            for erasure in erasures.all
            if (erasure.client or overlap(erasure.levels, levels))
            and any(shards.get(shard, up_to_us + 1) <= up_to_us for shard, up_to_us in erasure.up_to.items())
        ]
        #: By shard, up to where anything that concerns the picture was erased.
        self._up_to: Final[dict[int, int]] = {}
        for erasure in self._concerned:
            for shard, up_to_us in erasure.up_to.items():
                self._up_to[shard] = max(up_to_us, self._up_to.get(shard, -1))

    @property
    def can_be_counted(self) -> bool:
        return 0 < len(self._concerned) <= MAX_COUNTED

    @property
    def is_nothing(self) -> bool:
        return not self._concerned

    def at_most(self) -> int:
        """As many as there are where something was erased."""
        return sum(map(self._at_most, self._parts))

    def _at_most(self, part: CountedPart) -> int:
        up_to_us = self._up_to.get(part.part.shard, -1)
        return sum(part.total(number)[1] for number, cell in enumerate(part.cells) if cell.lo_us <= up_to_us)

    def count(self) -> Iterator[int | None]:
        """Count the messages that each erasure hides; None for a pause, the number last. Requires: `can_be_counted`.

        One that two erasures hide is counted twice. What was left out when an edition was made has a serial and no
        message, so of an edition that is counted by serials everything counts that may be concerned.
        """
        found = 0
        for part in self._parts:
            if part.may_lack_messages:
                found += self._at_most(part)
                continue
            for erasure in self._concerned:
                for one in self._count(erasure, part):
                    found += one
                    yield None
        yield found

    @staticmethod
    def _count(erasure: Erasure, part: CountedPart) -> Iterator[int]:
        lo_us, hi_us = part.part.lo_us, min(part.part.hi_us, erasure.up_to.get(part.part.shard, -1) + 1)
        if lo_us < hi_us:
            wanted = Wanted(erasure.levels, client=erasure.client)
            for positions in part.counter.positions(wanted, lo_us, hi_us):
                yield len(positions)
