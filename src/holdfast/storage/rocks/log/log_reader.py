"""The log of a broker as its readers see it (`durable/log.py`)."""

from collections.abc import Iterator
from typing import Final
from weakref import WeakSet

from holdfast.durable.erasures import Erasures, no_erasures
from holdfast.durable.log import NO_END
from holdfast.durable.shard import Shard
from holdfast.durable.zones import Zones
from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.records.lanes import is_lane
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.log.page_cache import PageCache
from holdfast.storage.rocks.log.shard_scan import RocksShardScan
from holdfast.storage.rocks.log.zone_generations import ZoneGenerations
from holdfast.storage.rocks.log.zone_log import ZoneLog


class RocksLogReader:
    """The reading side of the log; a `MessageLog` by shape."""

    def __init__(self, families: ColumnFamilies, zones: Zones, zone_logs: list[ZoneLog]) -> None:
        self._families: Final = families
        self._zones: Final = zones
        self._zone_logs: Final = list(zone_logs)
        #: The same without lanes: what was loaded is owed to no session.
        self.published: Final = PublishedLog(self)
        self._scans: Final[WeakSet[RocksShardScan]] = WeakSet()
        self.pages = PageCache()
        #: What no reader is shown any more.
        self.erasures = no_erasures()

    def hide(self, erasures: Erasures) -> None:
        """From now on no reader is shown what was erased: what was read ahead is forgotten."""
        self.erasures = erasures
        self.revoke()

    def at(self, shard: int, levels: tuple[bytes, ...], position_us: int) -> Message | None:
        """The message at a place, if the filter matches it and it is still there."""
        for zone_log in self._zone_logs:
            if shard in zone_log.shards:
                for found in self.messages(zone_log, shard, levels, position_us, position_us + 1):
                    for message in found:
                        hidden = self.erasures.hides(shard, position_us, message.topic, message.publisher)
                        return None if hidden else message
        return None

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        return [shard.id for _zone_log, shard in self.shards_of(levels)]

    def heads(self) -> dict[int, int]:
        return {shard.id: shard.head_us for zone_log in self._zone_logs for shard in zone_log.shards.values()}

    def missing_before(self, shard: int, from_us: int) -> int:
        """Where a stretch ends that begins at a position and that retention dropped, or damage took; 0 if none does."""
        for zone_log in self._zone_logs:
            if shard in zone_log.shards:
                lost = zone_log.lost(shard, from_us, zone_log.shards[shard].head_us + 1)
                return 0 if lost is None else lost.to_us
        return 0

    def scan(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> RocksShardScan:
        for zone_log in self._zone_logs:
            if shard in zone_log.shards:
                scan = RocksShardScan(self, zone_log, zone_log.shards[shard], levels, from_us)
                self._scans.add(scan)
                return scan
        raise MisuseError(f"there is no shard {shard}")

    def shards_of(self, levels: tuple[bytes, ...]) -> list[tuple[ZoneLog, Shard]]:
        """The shards that may hold a match."""
        return [
            (zone_log, shard)
            for zone_log in self._zone_logs
            if not levels or not zone_log.has_one_filter_set() or self._zones.may_hold(zone_log.zone, levels)
            for shard in zone_log.shards.values()
        ]

    def boundary_after(self, position_us: int) -> int:
        found_us = NO_END
        for zone_log in self._zone_logs:
            for generation in zone_log.live:
                record = generation.record
                if position_us < record.start_us < found_us:
                    found_us = record.start_us
                elif position_us < record.end_us < found_us:
                    found_us = record.end_us
        return found_us

    def messages(
        self, zone_log: ZoneGenerations, shard: int, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[list[Message]]:
        """Messages in order, some at a time; none now and then while nothing matches."""
        for piece, from_us, before_us in zone_log.pieces(shard, lo_us, hi_us):
            family = self._families.family(piece.family)
            yield from piece.layout.read_messages(family, levels, from_us, before_us, shard)

    def add_zone(self, zone_log: ZoneLog) -> None:
        self._zone_logs.append(zone_log)

    def revoke(self) -> None:
        """A generation goes: no reader may hold on to it, or its disk space stays."""
        self.pages.clear()
        for scan in self._scans:
            scan.let_go()


class PublishedLog:
    """The log without what was loaded into it, as sessions follow it; a `MessageLog` by shape."""

    def __init__(self, log: RocksLogReader) -> None:
        self._log: Final = log

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        return [shard.id for zone_log, shard in self._log.shards_of(levels) if not is_lane(zone_log.zone.name)]

    def heads(self) -> dict[int, int]:
        return self._log.heads()

    def boundary_after(self, position_us: int) -> int:
        return self._log.boundary_after(position_us)

    def scan(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> RocksShardScan:
        return self._log.scan(shard, levels, from_us)
