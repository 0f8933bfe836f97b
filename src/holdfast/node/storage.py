"""The disk under a node: opened before anybody is let in, tended while it runs, closed when everybody has left."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from holdfast import __version__
from holdfast.broker.broker import Broker
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.changes import Changes
from holdfast.durable.erasures import Erasure
from holdfast.durable.log import FOR_EVER, Lost
from holdfast.durable.log_queue import LogQueue
from holdfast.durable.memory_queue import MemoryQueue
from holdfast.durable.memory_registry import MemoryRegistry
from holdfast.durable.queue_store import QueueStore
from holdfast.exchange.counters import DROP_RETENTION, Counters
from holdfast.exchange.drops import DAMAGED, ERASED, NOT_STORED, Drops
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.errors import PoisonedError, TransientError
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.node.settings import Settings
from holdfast.node.zone_settings import zones_of
from holdfast.records.events import Event
from holdfast.records.lanes import is_lane
from holdfast.storage.event_files import EventFiles
from holdfast.storage.rocks.disk_space import DiskState, DiskWatch, Watermarks
from holdfast.storage.rocks.engine import Engine
from holdfast.storage.rocks.erasing import Erasing
from holdfast.storage.rocks.incoming import Incoming
from holdfast.storage.rocks.leases import Leases
from holdfast.storage.rocks.log import Companion
from holdfast.storage.rocks.maintenance import Maintenance
from holdfast.storage.rocks.numbers import RocksNumbers
from holdfast.storage.rocks.opening import open_log
from holdfast.storage.rocks.outbox import RocksOutbox
from holdfast.storage.rocks.retained import RocksRetained
from holdfast.storage.rocks.sessions import RocksSessions
from holdfast.storage.rocks.zone_log import ZoneLog
from holdfast.topics.subscription import SubscriptionRecord

_log = structlog.get_logger()

#: Between two looks at what time brings about.
_TICK_S: Final = 1.0
#: Between two slices of index entries, while there are more.
_BEHIND_S: Final = 0.02
#: Expired retained messages removed at once.
_SWEEP: Final = 500


class DiskStorage:
    """Everything that a node has on disk."""

    def __init__(self, settings: Settings, policy: Policy, clock: Clock) -> None:
        """SettingsError if the folder is in use or cannot be one; PermanentError if what it holds cannot be read."""
        zones, default, mounts = zones_of(settings)
        self._clock: Final = clock
        self.engine: Final = Engine.open(settings.storage.data)
        self.drops: Final = Drops(Counters())
        self._event_files: Final = EventFiles(settings.storage.data)
        for damage in self.engine.damage:
            _log.error("the data was damaged", what=str(damage))
            self.drops.note(DAMAGED, "", b"", clock.wall_us(), detail=str(damage))
        self.retained: Final = RocksRetained(self.engine, clock)
        self.sessions: Final = RocksSessions(
            self.engine,
            lambda *place: self.log.reading.at(*place),
            self.retained.at,
            self._gone,
            is_written=lambda: self.log.idle(),
        )
        self.numbers: Final = RocksNumbers(self.engine, clock)
        self.outbox: Final = RocksOutbox(self.engine)
        companions: list[Companion] = [self.sessions, self.retained, self.numbers, self.outbox]
        self.log: Final = open_log(self.engine, zones, default, mounts, clock, __version__, companions)
        storage = settings.storage
        self.leases: Final = Leases(storage.data, settings.history.lease_max_age_s)
        self.maintenance: Final = Maintenance(self.log, leases=self.leases)
        self._erasing: Final = Erasing(storage.data, self.log, self.retained, self._note_erasure)
        marks = Watermarks(
            full_bytes=storage.min_free_bytes,
            low_bytes=2 * storage.min_free_bytes,
            full_percent=storage.min_free_percent,
            low_percent=min(100.0, 2 * storage.min_free_percent),
        )
        self.incoming: Final = Incoming(self.log, self._came)
        self._disk: Final = DiskWatch(storage.data, marks)
        self._warns: Final = storage.on_write_error == "warn"
        self._full = False
        #: How many messages were not stored when that began or ended last.
        self._not_stored = 0
        self._sync_interval_us: Final = int(storage.sync_interval_s * 1_000_000)
        self._asked_us = clock.monotonic_us()
        self._policy: Final = policy
        self._delivered: Final = {
            number: shard.head_us
            for zone_log in self.log.zone_logs.values()
            for number, shard in zone_log.shards.items()
        }
        #: Bound once: every queue has it.
        self._tell_lost: Final = self._lost
        self._leap_us = 0
        #: Retained messages that could not be read, as far as that was noted.
        self._unreadable = 0

    def stores(self, homes: Mapping[str, QueueStore] | None = None) -> Stores:
        """As the broker knows them, with the homes of queues outside the log."""
        zones = self.log.zones.all
        return Stores(
            log=self.log,
            retained=self.retained,
            sessions=self.sessions,
            registry=MemoryRegistry(),
            new_queue=self._new_queue,
            numbers=self.numbers,
            queue_homes=homes or {},
            outbox=self.outbox,
            attach=self.log.attach,
            new_replay=self._new_replay,
            stores_all=all(zone.store for zone in zones),
            keeps_qos0=any(zone.store and zone.store_qos0 for zone in zones),
            goes_early=self._goes_early if any(zone.deliver_early for zone in zones) else None,
            delivered=self._delivered,
            drops=self.drops,
        )

    def _goes_early(self, topic: bytes) -> bool:
        return self.log.zones.of(topic).deliver_early

    def _new_queue(self, session_id: str, subscriptions: dict[bytes, SubscriptionRecord]) -> LogQueue:
        return self._queue(session_id, subscriptions, FOR_EVER, history=False)

    def _new_replay(self, session_id: str, record: SubscriptionRecord, until_us: int) -> LogQueue:
        queue = self._queue(session_id, {record.filter.raw: record}, until_us, history=True)
        queue.resume({}, set(), {})
        if any(is_lane(name) for name in self.log.zone_logs):
            # What was loaded lies beside what was published: in the order of time only if both are merged.
            queue.merge_by_time()
        return queue

    def _came(self, lane: ZoneLog) -> None:
        """Replays find what was loaded; nobody is owed it."""
        for number, shard in lane.shards.items():
            self._delivered[number] = shard.head_us

    def _queue(
        self, session_id: str, subscriptions: dict[bytes, SubscriptionRecord], until_us: int, *, history: bool
    ) -> LogQueue:
        limits = self._policy.sessions
        return LogQueue(
            self.log.reading if history else self.log.reading.published,
            self._delivered,
            session_id,
            subscriptions,
            MemoryQueue(limits.max_queued_messages, limits.max_queued_bytes),
            self._tell_lost,
            upgrade_qos=self._policy.mqtt.upgrade_outgoing_qos,
            with_qos0=history,
            until_us=until_us,
        )

    def _lost(self, session_id: str, lost: Lost) -> None:
        """Retention removed messages before a session came to them."""
        self.drops.counters.drop(DROP_RETENTION, lost.at_most)
        event = self._note_lost(session_id, lost.at_most, lost.shard, lost.from_us, "at most so many, of all topics")
        event.to_us = max(event.to_us, lost.to_us - 1)
        _log.warning("messages were removed before their session came", session=session_id, lost=str(lost))

    def _gone(self, session_id: str, shard: int, position_us: int) -> None:
        """Retention removed a message that was in flight, and has to be sent again."""
        self.drops.counters.drop(DROP_RETENTION)
        self._note_lost(session_id, 1, shard, position_us, "it was in flight")

    def _note_lost(self, session_id: str, count: int, shard: int, from_us: int, detail: str) -> Event:
        return self.drops.note(
            DROP_RETENTION, session_id, b"", self._clock.wall_us(), count, shard, max(1, from_us), detail
        )

    def _note_erasure(self, erasure: Erasure) -> None:
        topic = b"/".join(erasure.levels)
        self.drops.note(ERASED, erasure.client, topic, self._clock.wall_us(), detail=f"by {erasure.made_by}")

    async def tend(self, broker: Broker, failed: Callable[[Exception], None]) -> None:
        """Do the disk's own work, until cancelled; `failed` is called when nothing can be written any more."""
        loop = asyncio.get_running_loop()

        def poisoned(error: Exception) -> None:
            loop.call_soon_threadsafe(failed, error)

        self.engine.on_poisoned(poisoned)
        while True:
            self.look_after(broker)
            for _slice in range(int(_TICK_S / _BEHIND_S)):
                more = False
                try:
                    more = self.maintenance.work_behind()
                except Exception:
                    _log.exception("index entries could not be written")
                try:
                    more = self.incoming.step() or more
                except Exception:
                    _log.exception("what came in could not be taken; it is tried again")
                await asyncio.sleep(_BEHIND_S if more else _TICK_S)
                if not more:
                    break

    def look_after(self, broker: Broker) -> None:
        """What is to be done once a second. What fails is said and tried again: the rest must not end with it."""
        for step in (
            lambda: self._look_at_the_disk(broker),
            self._look_at_the_clock,
            broker.sessions.sweep,
            self.maintenance.tick,
            self._erasing.look,
            self._sweep,
            self._sync,
            self.store_events,
        ):
            self._try(step)

    @staticmethod
    def _try(step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            _log.exception("the disk's own work failed")

    def _look_at_the_disk(self, broker: Broker) -> None:
        """Refuse what cannot be stored, before the disk is full; go on by itself when there is room."""
        before = self._disk.state
        state = self._disk.check()
        if state is not before:
            _log.warning("free disk space", state=state.name.lower(), free_bytes=self._disk.free_bytes)
        self.leases.short_of_space = state is not DiskState.OK
        self._full = state is DiskState.FULL
        broker.exchange.refusing = QUOTA_EXCEEDED if self._full and not self._warns else SUCCESS
        if self._warns:
            self.log.on_full = lambda full: self._write_fails(broker.exchange, fails=full)
            self._choose_storing(broker.exchange)

    def _write_fails(self, exchange: Exchange, *, fails: bool) -> None:
        """A write has found no room, or writing goes on after that: known at once, not with the next look."""
        exchange.write_fails(fails=fails)
        self._choose_storing(exchange)

    def _choose_storing(self, exchange: Exchange) -> None:
        """By `on_write_error = "warn"`: without room messages are delivered and not stored, and that is said."""
        storing = not self._full and not exchange.unstored.active
        if exchange.storing == storing:
            return
        exchange.storing = storing
        count = exchange.counters.not_stored
        if storing:
            _log.warning("messages are stored again", not_stored=count)
            since = count - self._not_stored
            self.drops.note(
                NOT_STORED, "", b"", self._clock.wall_us(), since, detail="so many; stored again from now on"
            )
        else:
            _log.warning("messages are delivered and not stored", not_stored=count)
            self.drops.note(NOT_STORED, "", b"", self._clock.wall_us(), 0, detail="from now on")
        self._not_stored = count

    def _look_at_the_clock(self) -> None:
        """A clock that leapt ahead is not followed: say so, once, and when it is right again."""
        leap_us = self.log.time.leap_us
        if bool(leap_us) != bool(self._leap_us):
            _log.warning("the clock leapt ahead and is not followed" if leap_us else "the clock is followed again")
        self._leap_us = leap_us

    def _sync(self) -> None:
        """Sync now and then what nobody waits for."""
        now_us = self._clock.monotonic_us()
        if now_us - self._asked_us >= self._sync_interval_us:
            self._asked_us = now_us
            self.engine.request_sync()

    def store_events(self) -> None:
        """Not synced, and not with the batches: events are told also when nothing can be written to the log."""
        if self.retained.unreadable > self._unreadable:
            count = self.retained.unreadable - self._unreadable
            self.drops.note(
                DAMAGED, "", b"", self._clock.wall_us(), count, detail="retained messages that cannot be read"
            )
            self._unreadable = self.retained.unreadable
        self._event_files.write(self.drops.take())

    def _sweep(self) -> None:
        if self.log.idle():
            changes = Changes()
            self.retained.sweep(self._clock.wall_us(), _SWEEP, changes)
            self.numbers.sweep(self._clock.wall_us(), _SWEEP, changes)
            self.log.write_own(changes)

    def flush(self) -> None:
        """Sync what was written, if anything can be."""
        if self.engine.poison is None and self.log.idle():
            try:
                self.engine.sync_now()
            except (TransientError, PoisonedError) as error:
                _log.error("not everything can be stored", why=str(error))

    def close(self) -> None:
        """Ensures: what was written is synced."""
        try:
            self.incoming.close()
            if self.engine.poison is None:
                self.maintenance.index_everything()
        except TransientError as error:
            _log.warning("index entries were not written; the next start makes them", why=str(error))
        finally:
            self.store_events()
            self.log.close()
