"""One zone of the log: which generations are live, which one is written to, and which were dropped.

    dropped          sealed           current            next
    [1) [2)          [3)  [4)         [5 …               6
    records only     read             read and written   families are made ahead, no record

1. Generation g of all shards of the zone ends before generation g + 1 begins.
2. Layout and shards of a generation never change. New settings take effect with the next one.
3. The record of a dropped generation stays for a while: it tells how much a reader lost.
4. A zone that nothing is written to any more has no open generation.
5. A generation says by which filters its topics were chosen: a zone whose filters changed still finds what it has.
6. What a generation begins with, inherited or given (`next_patterns.py`), is stored together with its record.
"""

from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.positions import generation_start
from holdfast.durable.shard import Shard
from holdfast.durable.zones import Zone
from holdfast.records.generations import Generation, Parameter, encode_generation, family_name
from holdfast.records.meta_keys import generation_key
from holdfast.records.pages.lost_pages import LOST
from holdfast.storage.rocks.engine.column_families import META, ColumnFamilies
from holdfast.storage.rocks.layouts.build import LEARNING
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.layouts.streams import keep_structure
from holdfast.storage.rocks.log.next_patterns import NextPatterns, Patterns, mark_of
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ShardGeneration, ZoneGenerations
from holdfast.topics.learned import LearnedTopics

#: Records of dropped generations that are kept, to tell readers what they lost.
_KEPT_RECORDS: Final = 200
#: The parameter of a generation that tells by which filters its topics were chosen. Never change.
FILTERS: Final = "filters"
#: The parameter of a generation that tells which patterns it was given. Never change.
PATTERNS: Final = "patterns"


class PendingIndex:
    """A sealed slice whose last index entries are being written."""

    def __init__(self, generation: LiveGeneration, piece: ShardGeneration, *, loaded: bool) -> None:
        self.generation: Final = generation
        self.piece: Final = piece
        #: Whether its layout knows what is not indexed yet.
        self.loaded = loaded
        #: How often in a row there was nothing to write: twice means that it is done.
        self.idle_rounds = 0


class ZoneLog(ZoneGenerations):
    """A zone as the log writes and reads it."""

    def __init__(
        self,
        zone: Zone,
        shards: dict[int, Shard],
        families: ColumnFamilies,
        segments: SegmentFamilies,
        filters: str = "",
        patterns: NextPatterns | None = None,
    ) -> None:
        """`filters` stands for the zone's filters behind all mount points; it differs when they do."""
        super().__init__()
        self.zone: Final = zone
        self._filters: Final = filters
        self._patterns: Final = patterns
        #: Those that are written to, and those of earlier settings, which may have something to read, or to tell a
        #: reader who comes too late for it. Fixed as long as the log is open.
        self.shards: Final = shards
        self._families: Final = families
        self._segments: Final = segments
        #: Sealed, with index entries still to be written.
        self.pending_indexes: Final[list[PendingIndex]] = []

    def readable(self, record: Generation) -> LiveGeneration:
        """A generation that is stored, for reading."""
        return LiveGeneration(record, segments=self._segments)

    # ---- generations come

    def prepared(self) -> list[str]:
        """Families of the next generation, made or not, whichever shards it will have."""
        return [family_name(shard, self._next_number()) for shard in self.shards]

    def prepare(self, shard_ids: tuple[int, ...]) -> bool:
        """Make one column family of the next generation; whether one was missing."""
        there = self._families.families()
        for shard in shard_ids:
            name = family_name(shard, self._next_number())
            if name not in there:
                self._families.create_family(name)
                return True
        return False

    def _next_number(self) -> int:
        last = [generation.record.number for generation in self.live[-1:]]
        return max([0, *last, *[record.number for record in self.dropped[-1:]]]) + 1

    def can_continue(self, shard_ids: tuple[int, ...]) -> bool:
        """Whether the settings are those of the generation that is open."""
        if not self.live or self.live[-1].record.end_us:
            return False
        record = self.live[-1].record
        parameters = {name: value for name, value in record.parameters.items() if name not in (PATTERNS, LOST)}
        same_layout = record.layout == self.zone.layout and parameters == self._parameters(())
        return same_layout and record.shards == shard_ids and not self.has_new_patterns()

    def has_new_patterns(self) -> bool:
        """Whether the zone was given patterns that its last generation does not begin with."""
        given = self._given()
        return bool(given) and self.live[-1].record.parameters.get(PATTERNS) != mark_of(given)

    def _given(self) -> Patterns:
        return () if self._patterns is None or self.zone.layout not in LEARNING else self._patterns.of(self.zone.name)

    def begin(self, shard_ids: tuple[int, ...], now_us: int, changes: Changes) -> None:
        """Seal the current generation, if there is one, and begin the next, from the changes that come next on.

        Requires: the current one is loaded.
        """
        number = self._next_number()
        old = self.live[-1] if self.live else None
        shards = {*shard_ids, *(() if old is None else old.record.shards)}
        clocks = [self.shards[shard].clock for shard in sorted(shards)]
        start_us = generation_start(clocks, now_us)
        given = self._given()
        record = Generation(
            self.zone.name,
            number,
            self.zone.layout,
            self._parameters(given),
            start_us,
            shard_ids,
            now_us,
            inherits=0 if old is None else old.record.number,
        )
        following = LiveGeneration(record, {} if old is None else _learnt(old), given, self._segments)
        while self.prepare(shard_ids):
            pass
        for clock in clocks:
            clock.raise_floor(start_us)
        if old is not None and not old.record.end_us:
            self._seal(old, changes, loaded=True)
        self.live.append(following)
        changes.into(META).put(generation_key(self.zone.name, number), encode_generation(record))
        for piece in following.by_shard.values():
            # At once: in memory alone it would not survive until the first message.
            keep_structure(piece.layout, changes.into(piece.family))

    def end(self, changes: Changes) -> None:
        """Nothing is written to the zone any more: seal the generation that is open.

        Requires: it is not loaded.
        """
        if self.live and not self.live[-1].record.end_us:
            self._seal(self.live[-1], changes, loaded=False)

    def _parameters(self, given: Patterns) -> dict[str, Parameter]:
        parameters: dict[str, Parameter] = {}
        if self.zone.thresholds:
            parameters["thresholds"] = self.zone.thresholds
        if self._filters:
            parameters[FILTERS] = self._filters
        if given:
            parameters[PATTERNS] = mark_of(given)
        return parameters

    def _seal(self, old: LiveGeneration, changes: Changes, *, loaded: bool) -> None:
        """It ends behind its last message: its age is that of the message, and who has read that has lost nothing."""
        shards = [self.shards[shard] for shard in old.record.shards]
        end_us = max([old.record.start_us, *[shard.position_us + 1 for shard in shards]])
        old.record = old.record.sealed(end_us, tuple(shard.serial for shard in shards))
        changes.into(META).put(generation_key(self.zone.name, old.record.number), encode_generation(old.record))
        for piece in old.by_shard.values():
            if loaded:
                piece.layout.finish()
            self.pending_indexes.append(PendingIndex(old, piece, loaded=loaded))

    def load_last(self) -> None:
        """Become the writer of the last generation, or know at least what it learnt."""
        if not self.live:
            return
        given = self._given()
        has_them = self.live[-1].record.parameters.get(PATTERNS) == mark_of(given)
        for piece in self.live[-1].by_shard.values():
            piece.layout.load(self._families.family(piece.family))
            topics = piece.layout.learned()
            if topics is not None and has_them:
                topics.keep(given)
        for entry in self.pending_indexes:
            if entry.generation is self.live[-1]:
                entry.piece.layout.finish()
                entry.loaded = True

    # ---- generations go

    def drop(self, oldest: LiveGeneration, changes: Changes) -> None:
        """Take a sealed generation out of reading. The caller drops its families when `changes` are written."""
        self.live.remove(oldest)
        self.pending_indexes[:] = [entry for entry in self.pending_indexes if entry.generation is not oldest]
        self.dropped.append(oldest.record)
        # One that was brought back goes again, and is not the newest of those that went.
        self.dropped.sort(key=lambda record: record.number)
        while len(self.dropped) > _KEPT_RECORDS:
            gone = self.dropped.pop(0)
            changes.into(META).delete(generation_key(self.zone.name, gone.number))

    # ---- reading

    def has_one_filter_set(self) -> bool:
        """Whether all that it holds was chosen by the filters that it has now."""
        return all(generation.record.parameters.get(FILTERS, "") == self._filters for generation in self.live)


def _learnt(generation: LiveGeneration) -> dict[int, LearnedTopics]:
    """What the shards of a generation learnt about topics, as the next one may have it."""
    found: dict[int, LearnedTopics] = {}
    for shard, piece in generation.by_shard.items():
        topics = piece.layout.learned()
        if topics is not None:
            found[shard] = topics.inherit()
    return found
