"""Maintenance of what a node has on disk: free space, the clock, expiry, retention, erasures, marks of heads, events.

One round a second, and slices of long work (index entries, ingested messages) between the rounds. A step that fails is
logged and tried again in the next round; the other steps go on.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.broker.broker import Broker
from holdfast.durable.changes import Changes
from holdfast.exchange.drops import NOT_STORED
from holdfast.exchange.exchange import Exchange
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.model.time import SECOND_US
from holdfast.node.settings.tree import Storage
from holdfast.node.storage import DiskStorage
from holdfast.storage.rocks.engine.disk_space import DiskState, DiskWatch, Watermarks

_log = structlog.get_logger()

#: Between two rounds of maintenance.
_TICK_S: Final = 1.0
#: Between two slices of index entries, while more are left.
_BEHIND_S: Final = 0.02
#: Expired retained messages removed per round.
_SWEEP: Final = 500


def watch_disk(settings: Storage) -> DiskWatch:
    """The free space of the data folder, by the bounds of the settings; it is low at twice of what is full."""
    marks = Watermarks(
        full_bytes=settings.min_free_bytes,
        low_bytes=2 * settings.min_free_bytes,
        full_percent=settings.min_free_percent,
        low_percent=min(100.0, 2 * settings.min_free_percent),
    )
    return DiskWatch(settings.data, marks)


class DiskMaintenance:
    """Requires: the event loop of the broker."""

    def __init__(self, storage: DiskStorage, settings: Storage) -> None:
        self._storage: Final = storage
        self._disk: Final = watch_disk(settings)
        self._warns: Final = settings.on_write_error == "warn"
        self._full = False
        #: The count of messages that were not stored, when that state last began or ended.
        self._not_stored = 0
        self._sync_interval_us: Final = int(settings.sync_interval_s * SECOND_US)
        self._asked_us = storage.clock.monotonic_us()
        self._leap_us = 0

    async def run(self, broker: Broker, failed: Callable[[Exception], None]) -> None:
        """Maintain the disk until cancelled. Calls `failed` when nothing can be written any more."""
        loop = asyncio.get_running_loop()

        def poisoned(error: Exception) -> None:
            loop.call_soon_threadsafe(failed, error)

        self._storage.engine.on_poisoned(poisoned)
        while True:
            self.run_once(broker)
            for _slice in range(int(_TICK_S / _BEHIND_S)):
                written = self._try(self._storage.maintenance.write_index_slice, "index entries could not be written")
                taken = self._try(self._storage.incoming.step, "what came in could not be taken; it is tried again")
                more = written or taken
                await asyncio.sleep(_BEHIND_S if more else _TICK_S)
                if not more:
                    break

    def run_once(self, broker: Broker) -> None:
        """One round of maintenance, once a second. A step that fails is logged and tried again; the others go on."""
        for step in (
            lambda: self._check_disk_space(broker),
            self._check_clock,
            broker.sessions.sweep,
            self._storage.maintenance.tick,
            self._storage.erasures.look,
            self._sweep,
            self._sync,
            self._storage.marks.look,
            self._storage.store_events,
        ):
            self._try(step, "maintenance of the disk failed")

    @staticmethod
    def _try(step: Callable[[], object], failure: str) -> object:
        try:
            return step()
        except Exception:
            _log.exception(failure)
            return None

    def _check_disk_space(self, broker: Broker) -> None:
        """Refuse messages before the disk is full, and accept them again when there is room."""
        before = self._disk.state
        state = self._disk.check()
        if state is not before:
            _log.warning("free disk space", state=state.name.lower(), free_bytes=self._disk.free_bytes)
        self._storage.disk_state = state
        self._storage.leases.short_of_space = state is not DiskState.OK
        self._full = state is DiskState.FULL
        broker.exchange.intake.refusing = QUOTA_EXCEEDED if self._full and not self._warns else SUCCESS
        if self._warns:
            self._storage.log.on_full = lambda full: self._write_fails(broker.exchange, fails=full)
            self._choose_storing(broker.exchange)

    def _write_fails(self, exchange: Exchange, *, fails: bool) -> None:
        """A write has found no room, or succeeds again. Known at once, not with the next round."""
        exchange.write_fails(fails=fails)
        self._choose_storing(exchange)

    def _choose_storing(self, exchange: Exchange) -> None:
        """With `on_write_error = "warn"`, deliver messages unstored while there is no room, and log that."""
        storing = not self._full and not exchange.unstored.active
        if exchange.intake.storing == storing:
            return
        exchange.intake.storing = storing
        count = exchange.counters.not_stored
        if storing:
            _log.warning("messages are stored again", not_stored=count)
            since = count - self._not_stored
            self._storage.drops.note(
                NOT_STORED, "", b"", self._storage.clock.wall_us(), since, detail="so many; stored again from now on"
            )
        else:
            _log.warning("messages are delivered and not stored", not_stored=count)
            self._storage.drops.note(NOT_STORED, "", b"", self._storage.clock.wall_us(), 0, detail="from now on")
        self._not_stored = count

    def _check_clock(self) -> None:
        """Log that a clock which leapt ahead is not followed, once, and that it is right again."""
        leap_us = self._storage.log.time.leap_us
        if bool(leap_us) != bool(self._leap_us):
            _log.warning("the clock leapt ahead and is not followed" if leap_us else "the clock is followed again")
        self._leap_us = leap_us

    def _sync(self) -> None:
        """Sync, now and then, writes that no acknowledgement waits for."""
        now_us = self._storage.clock.monotonic_us()
        if now_us - self._asked_us >= self._sync_interval_us:
            self._asked_us = now_us
            self._storage.engine.request_sync()

    def _sweep(self) -> None:
        if self._storage.log.idle():
            changes = Changes()
            self._storage.retained.sweep(self._storage.clock.wall_us(), _SWEEP, changes)
            self._storage.numbers.sweep(self._storage.clock.wall_us(), _SWEEP, changes)
            self._storage.log.write_own(changes)
