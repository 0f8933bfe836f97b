"""Rotation, retention, indexing and the next generations of a log, in small steps between commits.

No step takes longer than a loop iteration may: families are made ahead, one at a time, and index entries are
written in slices.
"""

from collections.abc import Callable
from typing import Final

import structlog

from holdfast.durable.changes import Changes
from holdfast.model.errors import MisuseError
from holdfast.model.time import SECOND_US
from holdfast.records.lanes import is_lane
from holdfast.storage.rocks.layouts.build import PLACING
from holdfast.storage.rocks.log.commit_log import RocksLog
from holdfast.storage.rocks.log.leases import Leases
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ShardGeneration
from holdfast.storage.rocks.log.zone_log import PendingIndex, ZoneLog

_log = structlog.get_logger()

#: Live column families of messages per node: making and dropping one costs 40 to 80 ms when there are 500.
MAX_FAMILIES: Final = 64
#: Generations of a zone that its retention is divided into, if the families suffice: what goes at once is a twelfth.
_GENERATIONS: Final = 12
_MIN_GENERATION_S: Final = 60
#: A zone without a retention starts a new generation after this long, to learn its topics again.
_LONGEST_GENERATION_S: Final = 30 * 24 * 3600
#: Index entries written at once: more would hold up the loop.
_SLICE_ENTRIES: Final = 500
#: At the end no client waits, but it should end within a second or two.
_MAX_SLICES_AT_THE_END: Final = 2_000
_IDLE_ROUNDS: Final = 4


class Maintenance:
    """The log's own work. `tick` once a second, `write_index_slice` as often as it says that there is more."""

    def __init__(
        self,
        log: RocksLog,
        dropped: Callable[[ZoneLog, LiveGeneration], None] | None = None,
        leases: Leases | None = None,
    ) -> None:
        self._log: Final = log
        self._leases: Final = leases
        self._dropped: Final = dropped
        #: When what a zone has learnt was looked at, by its name.
        self._optimized_us: Final = dict.fromkeys(log.zone_logs, log.now_us())

    def tick(self) -> None:
        """Look at everything that time brings about."""
        log = self._log
        log.retry()
        now_us = log.now_us()
        for zone_log in log.zone_logs.values():
            if zone_log.zone.store:
                self._rotate_if_due(zone_log, now_us)
                self._optimize(zone_log, now_us)
            self._apply_retention(zone_log, now_us)  # also while the disk is full: that may be the way out

    def write_index_slice(self) -> bool:
        """Write a slice of the index entries that wait; whether there may be more."""
        log = self._log
        if not log.idle():
            return False
        changes = Changes()
        room = _SLICE_ENTRIES
        loaded = False
        for zone_log in log.zone_logs.values():
            for entry in list(zone_log.pending_indexes):
                if not entry.loaded:
                    if loaded:
                        continue
                    loaded = True
                room -= self._finish(zone_log, entry, changes, room)
            if zone_log.zone.store:
                for piece in zone_log.live[-1].by_shard.values():
                    room -= self._index(piece, changes, room)
        log.write_own(changes)
        return room <= 0

    def write_whole_index(self) -> None:
        """Write all index entries there are, so that the next start need not make them again. Nothing follows."""
        for zone_log in self._log.zone_logs.values():
            if zone_log.zone.store:
                for piece in zone_log.live[-1].by_shard.values():
                    piece.layout.finish()
        idle_rounds = 0
        for _slice in range(_MAX_SLICES_AT_THE_END):
            # A cycle that was under way ends with a slice that is not full, and the rest follows.
            idle_rounds = 0 if self.write_index_slice() else idle_rounds + 1
            if idle_rounds == _IDLE_ROUNDS:
                break

    def _index(self, piece: ShardGeneration, changes: Changes, room: int) -> int:
        """Write index entries of a slice, at most `room`; how many."""
        if room <= 0:
            return 0
        piece.layout.settle(self._log.engine.family(piece.family))
        return piece.layout.write_behind(changes.into(piece.family), room)

    def _finish(self, zone_log: ZoneLog, entry: PendingIndex, changes: Changes, room: int) -> int:
        """The same for a sealed one; when nothing is left, what its writer held is let go."""
        if room <= 0:
            return 0
        if not entry.loaded:
            entry.loaded = True
            entry.piece.layout.load(self._log.engine.family(entry.piece.family))
            entry.piece.layout.finish()
        done = self._index(entry.piece, changes, room)
        entry.idle_rounds = 0 if done else entry.idle_rounds + 1
        if entry.idle_rounds == 2:
            entry.generation.forget_writing(entry.piece)
            zone_log.pending_indexes.remove(entry)
        return done

    # ---- generations

    def rotate(self, zone_log: ZoneLog) -> None:
        """Begin a new generation now."""
        changes = Changes()
        now_us = self._log.now_us()
        zone_log.begin(self._log.zones.shard_ids(zone_log.zone), now_us, changes)
        self._log.write_own(changes)
        record = zone_log.live[-1].record
        _log.info("generation begins", zone=zone_log.zone.name, number=record.number, layout=record.layout)

    def _rotate_if_due(self, zone_log: ZoneLog, now_us: int) -> None:
        current = zone_log.live[-1]
        age_s = (now_us - current.record.start_us) // SECOND_US
        length_s = self.generation_s(zone_log)
        if self._has_room(zone_log):
            if age_s >= length_s - 10:
                zone_log.prepare(self._log.zones.shard_ids(zone_log.zone))
            due = (age_s >= length_s or self._is_large(zone_log, current)) and self._holds_messages(zone_log, current)
            if due or zone_log.has_new_patterns():
                self.rotate(zone_log)

    def generation_s(self, zone_log: ZoneLog) -> int:
        """How long a generation of the zone lasts."""
        zone = zone_log.zone
        if zone.generation_s:
            return zone.generation_s
        if not zone.retention_s:
            return _LONGEST_GENERATION_S
        shards = sum(len(other.live[-1].by_shard) for other in self._published() if other.live)
        parts = min(_GENERATIONS, max(1, MAX_FAMILIES // max(1, shards) - 2))
        return max(_MIN_GENERATION_S, zone.retention_s // parts)

    @staticmethod
    def _holds_messages(zone_log: ZoneLog, generation: LiveGeneration) -> bool:
        """Whether it holds a message: an empty one is not sealed."""
        record = generation.record
        return any(zone_log.shards[shard].position_us >= record.start_us for shard in record.shards)

    def _is_large(self, zone_log: ZoneLog, generation: LiveGeneration) -> bool:
        limit_bytes = zone_log.zone.generation_bytes
        if not limit_bytes and zone_log.zone.retention_bytes:
            limit_bytes = zone_log.zone.retention_bytes // _GENERATIONS
        return bool(limit_bytes) and self.size_bytes(generation) >= limit_bytes

    def size_bytes(self, generation: LiveGeneration) -> int:
        """What a generation takes on disk and in RocksDB's memory."""
        total = 0
        for family_name in self._families_of(generation):
            family = self._log.engine.family(family_name)
            for name in ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables"):
                total += family.property_int_value(name) or 0
        return total

    def _families_of(self, generation: LiveGeneration) -> list[str]:
        there = set(self._log.engine.families())
        return [name for name in generation.record.families() if name in there]

    def _has_room(self, zone_log: ZoneLog) -> bool:
        """Whether one more generation may be. Two always may: without a sealed one retention has nothing to drop."""
        return len(zone_log.live) < 2 or self._families() + zone_log.zone.shards <= MAX_FAMILIES

    def _families(self) -> int:
        return sum(
            len(generation.by_shard) + (generation.record.layout == "paged")
            for zone_log in self._published()
            for generation in zone_log.live
        )

    def _published(self) -> list[ZoneLog]:
        """Without lanes: these have their own bound, and take nothing from zones that are written to."""
        return [zone_log for name, zone_log in self._log.zone_logs.items() if not is_lane(name)]

    # ---- retention

    def _apply_retention(self, zone_log: ZoneLog, now_us: int) -> None:
        """Drop what the retention does not cover, one generation at a time."""
        zone = zone_log.zone
        current = 1 if zone.store else 0
        if len(zone_log.live) <= current:
            return
        sealed = zone_log.live[: len(zone_log.live) - current]
        limit_us = now_us - zone.retention_s * SECOND_US
        old = [generation for generation in sealed if zone.retention_s and _came_us(generation) <= limit_us]
        too_much = zone.retention_bytes and sum(map(self.size_bytes, zone_log.live)) > zone.retention_bytes
        for oldest in old[:1] or sealed[: 1 if too_much else 0]:
            if not self._is_awaited(oldest) and not self._is_leased(zone_log, oldest, now_us):
                self._drop(zone_log, oldest)

    def _is_awaited(self, generation: LiveGeneration) -> bool:
        return any(self._log.waits_for(name) for name in generation.record.families())

    def _is_leased(self, zone_log: ZoneLog, generation: LiveGeneration, now_us: int) -> bool:
        if self._leases is None:
            return False
        heads_us = {number: shard.position_us for number, shard in zone_log.shards.items()}
        return self._leases.hold(generation.record, heads_us, now_us)

    def drop_oldest(self, zone_log: ZoneLog) -> None:
        """Requires: there is a sealed one, and nothing of it waits to be written."""
        self._drop(zone_log, zone_log.live[0])

    def _drop(self, zone_log: ZoneLog, oldest: LiveGeneration) -> None:
        log = self._log
        changes = Changes()
        if not oldest.record.end_us or self._is_awaited(oldest):
            raise MisuseError(f"generation {oldest.record.number} of zone {zone_log.zone.name!r} is still written to")
        log.reader.revoke()
        zone_log.drop(oldest, changes)
        log.write_own(changes)
        # Segments last: a generation without its shards was being dropped, whatever else there is of it.
        for family in self._families_of(oldest):
            log.engine.drop_family(family)
        _log.info("generation dropped", zone=zone_log.zone.name, number=oldest.record.number)
        if self._leases is not None:
            self._leases.forget(oldest.record)
        if self._dropped is not None:
            self._dropped(zone_log, oldest)

    # ---- what was learnt

    def _optimize(self, zone_log: ZoneLog, now_us: int) -> None:
        """Begin a new generation if the topics have turned out to follow other patterns."""
        interval_us = zone_log.zone.optimize_interval_s * SECOND_US
        current = zone_log.live[-1]
        if current.record.layout not in PLACING:
            return
        looked_us = max(self._optimized_us.setdefault(zone_log.zone.name, now_us), current.record.start_us)
        if not interval_us or now_us - looked_us < interval_us:
            return
        self._optimized_us[zone_log.zone.name] = now_us
        if not self._has_room(zone_log) or not self._holds_messages(zone_log, current):
            return
        gain = _gain(current)
        if gain >= zone_log.zone.optimize_gain:
            _log.info("topics follow other patterns", zone=zone_log.zone.name, gain=round(gain, 3))
            self.rotate(zone_log)


def _gain(generation: LiveGeneration) -> float:
    """What a new generation would improve, from 0 to 1: each shard counts as much as it has messages."""
    gained = messages = 0.0
    for piece in generation.by_shard.values():
        topics = piece.layout.learned()
        if topics is not None:
            count = sum(pattern.messages for pattern in topics.patterns())
            messages += count
            gained += count * topics.gain()
    return gained / messages if messages else 0.0


def _came_us(generation: LiveGeneration) -> int:
    """When the last of it came: what was loaded, or brought back, is not as old as its messages."""
    return max(generation.record.end_us, generation.record.created_us)
