"""Ingests shipments in a running broker: one after the other, a small step at a time.

    look ─▶ a family a step ─▶ the tables of a family a step ─▶ rewritten by RocksDB, in a thread ─▶ records, synced
                                                                                                   ─▶ readers see it

No step holds up the loop for longer than it takes to make a family, or to link its tables: a few milliseconds each.

1. A shipment that does not fit is refused, with the reason beside it, and never tried again.
2. Readers find what was ingested only when its records are synced.
3. Old editions go after that, when no reader of the broker holds on to them.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from holdfast.durable.positions import ShardClock
from holdfast.durable.ring import Ring
from holdfast.durable.shard import Shard
from holdfast.durable.zones import Zone
from holdfast.model.errors import HoldfastError, PermanentError, TransientError
from holdfast.records.generations import Generation, ZoneRecord
from holdfast.records.lanes import zone_of_lane
from holdfast.storage.rocks.log.commit_log import RocksLog
from holdfast.storage.rocks.log.startup import lane_zone
from holdfast.storage.rocks.log.zone_log import FILTERS, ZoneLog
from holdfast.storage.rocks.shipments.ingestion import Ingestion
from holdfast.storage.rocks.shipments.shipment import Shipment, ShipmentEntry, read_shipment, waiting_shipments

_log = structlog.get_logger()


class IngestionWorker:
    """Requires: `step` now and then; `close` before the engine is closed."""

    def __init__(self, log: RocksLog, came: Callable[[ZoneLog], None]) -> None:
        """`came` is told of a lane that is new, or goes on."""
        self._log: Final = log
        self._came: Final = came
        self._work: Iterator[None] | None = None
        #: What a step of the present shipment held up the loop for, at most.
        self._longest_s = 0.0
        self._stopping = False
        self._thread: threading.Thread | None = None

    def step(self) -> bool:
        """Do a little; whether there is more to be done soon."""
        if self._work is None:
            names = waiting_shipments(self._log.engine.folder)
            if not names or not self._log.idle():
                return False
            self._work = self._take(names[0])
            self._longest_s = 0.0
        began_s = time.perf_counter()
        try:
            next(self._work)
            self._longest_s = max(self._longest_s, time.perf_counter() - began_s)
        except StopIteration:
            self._work = None
        except TransientError:
            self._work = None  # no room now: it begins again later
            raise
        return self._work is not None

    def close(self) -> None:
        """Ensures: nothing of it uses the engine any more. What was begun begins again at the next start."""
        self._stopping = True
        self._work = None
        if self._thread is not None:
            self._thread.join()

    def _take(self, name: str) -> Iterator[None]:
        shipment: Shipment | None = None
        try:
            shipment = read_shipment(self._log.engine.folder, name)
            work = Ingestion(self._log.engine, shipment)
            if work.check():
                shipment.note_seen()
                yield from self._bring(work)
                longest_ms = round(self._longest_s * 1e3, 1)
                _log.info("messages were taken in", shipment=name, zones=_zones(shipment), longest_step_ms=longest_ms)
            shipment.remove()
        except PermanentError as error:
            _log.error("a shipment does not fit and is refused", shipment=name, why=str(error))
            (shipment or Shipment(self._log.engine.folder / "incoming" / name, name, ())).refuse(str(error))

    def _bring(self, work: Ingestion) -> Iterator[None]:
        log = self._log
        try:
            while work.make_family():
                yield
            while work.ingest():
                yield
            yield from self._rewrite(work)
            while not log.idle():
                yield
            changes = work.changes()
        except HoldfastError:
            work.undo()
            raise
        log.write_own(changes)
        mark = log.mark
        log.engine.request_sync()
        while not log.idle() or log.engine.synced < mark:
            yield
        log.reader.revoke()
        for entry in work.entries:
            self._adopt(entry)
        for name in work.replaced():
            log.engine.drop_family(name)
            yield

    def _rewrite(self, work: Ingestion) -> Iterator[None]:
        failed: list[Exception] = []

        def run() -> None:
            try:
                work.rewrite(lambda: self._stopping)
            except Exception as error:
                failed.append(error)

        thread = self._thread = threading.Thread(target=run, name="holdfast-rewrite", daemon=True)
        thread.start()
        while thread.is_alive():
            yield
        self._thread = None
        for error in failed:
            if isinstance(error, HoldfastError):
                raise error
            raise TransientError(f"RocksDB could not rewrite what came in: {error}") from error

    # ---- the log that is open

    def _adopt(self, entry: ShipmentEntry) -> None:
        if entry.replaces is not None:
            self._take_edition(entry.record)
        elif entry.zone is not None:
            self._take_lane(entry, entry.zone)

    def _take_edition(self, record: Generation) -> None:
        zone_log = self._log.zone_logs[record.zone]
        live = zone_log.readable(record)
        zone_log.pending_indexes[:] = [
            one for one in zone_log.pending_indexes if one.generation.record.number != record.number
        ]
        zone_log.dropped[:] = [gone for gone in zone_log.dropped if gone.number != record.number]
        zone_log.live[:] = [other for other in zone_log.live if other.record.number != record.number]
        zone_log.live.append(live)
        zone_log.live.sort(key=lambda other: other.record.number)

    def _take_lane(self, entry: ShipmentEntry, zone: ZoneRecord) -> None:
        log = self._log
        zone_log = log.zone_logs.get(zone.name)
        if zone_log is None:
            owner = next((one for one in log.zones.all if one.name == zone_of_lane(zone.name)), log.zones.default)
            zone_log = self._open_lane(lane_zone(zone, owner), entry)
        for shard, head in (entry.heads or {}).items():
            known = zone_log.shards[shard]
            known.position_us = known.head_us = known.clock.last_us = head.position_us
            known.serial = known.head_serial = head.serial
            # Nothing of a lane is in memory.
            known.ring.evicted_us = head.position_us
        zone_log.live.append(zone_log.readable(entry.record))
        self._log.publish_heads(zone_log)
        self._came(zone_log)

    def _open_lane(self, zone: Zone, entry: ShipmentEntry) -> ZoneLog:
        shards = {
            shard: Shard(shard, ShardClock(0, 0), position_us=0, serial=0, commits=0, ring=Ring(0, 0))
            for shard in entry.record.shards
        }
        filters = str(entry.record.parameters.get(FILTERS, ""))
        zone_log = ZoneLog(zone, shards, self._log.engine, self._log.segments, filters)
        self._log.add_zone(zone_log)
        return zone_log


def _zones(shipment: Shipment) -> list[str]:
    return sorted({entry.record.zone for entry in shipment.entries})
