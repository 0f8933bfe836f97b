"""Numbers of what a node has on disk: the log by zone, RocksDB, the disk.

Most of them change slowly and cost a look at every column family, so they are refreshed every REFRESH_S while somebody
asks; files are looked at in a thread.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from holdfast.model.errors import HoldfastError
from holdfast.model.time import SECOND_US
from holdfast.node.control.stored_log import StoredLog, StoredShard
from holdfast.records.lanes import zone_of_lane
from holdfast.storage.rocks.engine.disk_space import DiskState
from holdfast.storage.rocks.engine.quarantine import count_reports
from holdfast.storage.rocks.engine.wal_scan import wal_files
from holdfast.storage.rocks.log.leases import BrokenLease, LeaseRow, broken_leases, lease_rows
from holdfast.storage.rocks.log.published_heads import Head

if TYPE_CHECKING:
    from holdfast.durable.commit import CommitCounts
    from holdfast.storage.rocks.engine.engine import Engine

_log = structlog.get_logger()

REFRESH_S: Final = 10.0
_TABLES: Final = "rocksdb.total-sst-files-size"
_MEMTABLES: Final = "rocksdb.cur-size-all-mem-tables"
_COMPACTION: Final = "rocksdb.estimate-pending-compaction-bytes"


class NumberedStorage(Protocol):
    """What a node has on disk, as far as numbers are made of it."""

    @property
    def engine(self) -> "Engine": ...

    @property
    def commit_counts(self) -> "CommitCounts | None": ...

    @property
    def clock_leap_us(self) -> int: ...

    @property
    def disk_state(self) -> DiskState: ...

    @property
    def unreadable_parts(self) -> int:
        """Parts of the log and retained messages that could not be read, since the start."""
        ...

    def stored_shards(self) -> list[StoredShard]: ...


class StorageNumbers:
    """Numbers of one data folder. Requires: the broker's event loop."""

    def __init__(self, storage: NumberedStorage, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._storage: Final = storage
        self._folder: Final = storage.engine.folder
        self._clock_s: Final = clock_s
        self.log: Final = StoredLog(storage.stored_shards)
        #: By metric, and by metric and label, as of the last refresh.
        self.numbers: Final[dict[str, float]] = {}
        self.labelled: Final[dict[str, dict[str, float]]] = {}
        self._refreshed_s = float("-inf")
        self._looking: asyncio.Future[_LookedAt] | None = None
        #: What could not be read at the last look; each is said once.
        self._problems: frozenset[str] = frozenset()

    def refresh(self) -> None:
        """Look at what changes slowly, if the last look is old; at the heads of the log each time."""
        self.log.refresh()
        looking = self._looking
        if looking is not None and looking.done():
            self._looking = None
            self._take_files(looking)
        now_s = self._clock_s()
        if now_s - self._refreshed_s < REFRESH_S:
            return
        self._refreshed_s = now_s
        try:
            self._look_at_zones()
            self._look_at_families()
            self.numbers["unreadable_parts"] = self._storage.unreadable_parts
        except HoldfastError:
            return  # the database is being opened again: the last numbers stay
        if self._looking is None:
            self._looking = asyncio.get_running_loop().run_in_executor(
                None, _look_at_files, self._folder, self._heads()
            )

    def disk(self) -> dict[str, float]:
        """Free space as it is now."""
        disk = os.statvfs(self._folder)
        return {
            "disk_free_bytes": disk.f_bavail * disk.f_frsize,
            "disk_total_bytes": disk.f_blocks * disk.f_frsize,
        }

    def disk_state(self) -> dict[str, float]:
        """By state: 1 for that of the disk, 0 for the others."""
        now = self._storage.disk_state
        return {state.name.lower(): float(state is now) for state in DiskState}

    def clock_leap_s(self) -> float:
        """By how much the clock is ahead of the positions of messages, because it leapt; 0 while it is followed."""
        return self._storage.clock_leap_us / SECOND_US

    def is_poisoned(self) -> bool:
        """Whether nothing can be written any more, whatever the reason was."""
        return self._storage.engine.poison is not None

    def _look_at_zones(self) -> None:
        zones = self.log.zones()
        self.labelled["stored_messages"] = {name: zone.messages for name, zone in zones.items()}
        self.labelled["retention_dropped_messages_total"] = {name: zone.dropped for name, zone in zones.items()}
        self.labelled["generations"] = {name: zone.generations for name, zone in zones.items()}
        self.labelled["oldest_message_timestamp_seconds"] = {
            name: zone.oldest_us / SECOND_US for name, zone in zones.items() if zone.oldest_us
        }

    def _look_at_families(self) -> None:
        engine = self._storage.engine
        sizes: dict[str, int] = {}
        memtables = compaction = 0
        for name in engine.families():
            family = engine.family(name)
            sizes[name] = family.property_int_value(_TABLES) or 0
            memtables += family.property_int_value(_MEMTABLES) or 0
            compaction += family.property_int_value(_COMPACTION) or 0
        self.numbers["rocksdb_memtable_bytes"] = memtables
        self.numbers["rocksdb_pending_compaction_bytes"] = compaction
        by_zone: dict[str, set[str]] = {}
        for shard in self._storage.stored_shards():
            families = by_zone.setdefault(zone_of_lane(shard.zone), set())
            for record in shard.live:
                families.update(record.families())
        self.labelled["stored_bytes"] = {
            zone: sum(sizes.get(name, 0) for name in families) for zone, families in by_zone.items()
        }

    def _heads(self) -> dict[int, Head]:
        return {shard.id: Head(shard.head_us, shard.head_serial) for shard in self._storage.stored_shards()}

    def _take_files(self, looked: "asyncio.Future[_LookedAt]") -> None:
        if looked.cancelled():
            return
        found = looked.result()
        if found.wal_bytes is not None:
            self.numbers["rocksdb_wal_bytes"] = found.wal_bytes
        if found.damage_reports is not None:
            self.numbers["damage_reports"] = found.damage_reports
        # Without leases there are no numbers of them: old ones would look as if they were fresh.
        self.numbers.pop("leases_broken", None)
        for name in _OF_LEASES:
            self.labelled.pop(name, None)
        if found.leases is not None:
            leases, broken = found.leases
            self.numbers["leases_broken"] = len(broken)
            of_leases = (
                {lease.name: lease.broken_us / SECOND_US for lease in broken},
                {lease.name: lease.age_s for lease in leases},
                {lease.name: lease.behind_s for lease in leases},
            )
            self.labelled.update(zip(_OF_LEASES, of_leases, strict=True))
        for problem in sorted(found.problems - self._problems):
            _log.warning("numbers of the disk are missing", why=problem)
        self._problems = found.problems


_OF_LEASES: Final = ("lease_broken_timestamp_seconds", "lease_age_seconds", "lease_lag_seconds")


class _LookedAt(NamedTuple):
    """What the files of a data folder tell; None is what could not be read."""

    leases: tuple[list[LeaseRow], list[BrokenLease]] | None
    #: Of damaged data, in the quarantine.
    damage_reports: int | None
    wal_bytes: int | None
    #: Why something could not be read.
    problems: frozenset[str]


def _look_at_files(folder: Path, heads: Mapping[int, Head]) -> _LookedAt:
    """In a thread."""
    problems: set[str] = set()
    leases = damage_reports = wal_bytes = None
    try:
        leases = lease_rows(folder, heads, time.time_ns() // 1000), broken_leases(folder)
    except HoldfastError as error:
        problems.add(str(error))
    try:
        damage_reports = count_reports(folder)
    except OSError as error:
        problems.add(f"the quarantine of {folder} cannot be read: {error.strerror}")
    # RocksDB may remove a file meanwhile: the next look finds the others.
    with suppress(OSError, HoldfastError):
        wal_bytes = sum(path.stat().st_size for path in wal_files(folder / "rocks"))
    return _LookedAt(leases, damage_reports, wal_bytes, frozenset(problems))
