"""What a node has on disk: opened before the first client connects, closed after the last has left."""

from collections.abc import Mapping
from typing import Final

import structlog

from holdfast import __version__
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.commit import CommitCounts, SegmentCounts
from holdfast.durable.erasures import Erasure
from holdfast.durable.lake_log import LakeHistory, LakeSource
from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.durable.takeover.registry import MemoryRegistry
from holdfast.exchange.drops import DAMAGED, DROP_RETENTION, ERASED, Drops
from holdfast.model.clock import Clock
from holdfast.model.errors import PoisonedError, TransientError
from holdfast.node.control.stored_log import StoredShard
from holdfast.node.settings.tree import Settings
from holdfast.node.settings.zones import zones_of
from holdfast.records.events import Event
from holdfast.records.lanes import is_lane
from holdfast.storage.event_files import EventFiles
from holdfast.storage.rocks.engine.disk_space import DiskState
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.loop_sync import LoopSyncRule
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.commit_log import Companion
from holdfast.storage.rocks.log.erasure_worker import ErasureWorker
from holdfast.storage.rocks.log.head_marks import open_marks
from holdfast.storage.rocks.log.leases import Leases
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.segment_writer import SegmentWriter, WrittenLog
from holdfast.storage.rocks.log.startup import open_log
from holdfast.storage.rocks.log.zone_log import ZoneLog
from holdfast.storage.rocks.retained.retained_store import RocksRetained
from holdfast.storage.rocks.sessions.outbox_store import RocksOutbox
from holdfast.storage.rocks.sessions.publisher_numbers import RocksPublisherNumbers
from holdfast.storage.rocks.sessions.session_store import RocksSessions
from holdfast.storage.rocks.shipments.ingestion_worker import IngestionWorker
from holdfast.topics.subscription import SubscriptionRecord

_log = structlog.get_logger()


class DiskStorage:
    """All stores of a node that are on disk."""

    def __init__(self, settings: Settings, policy: Policy, clock: Clock) -> None:
        """SettingsError if the folder is in use or cannot be made; PermanentError if its content cannot be read."""
        zones, default, mounts = zones_of(settings)
        self.clock: Final = clock
        storage = settings.storage
        loop_sync = LoopSyncRule(enabled=storage.sync_on_loop == "auto")
        self.engine: Final = Engine.open(storage.data, loop_sync=loop_sync)
        self.drops: Final = Drops()
        self._event_files: Final = EventFiles(settings.storage.data)
        for damage in self.engine.damage:
            _log.error("the data was damaged", what=str(damage))
            self.drops.note(DAMAGED, "", b"", clock.wall_us(), detail=str(damage))
        self.retained: Final = RocksRetained(self.engine, clock)
        self.sessions: Final = RocksSessions(
            self.engine,
            lambda *place: self.log.reader.at(*place),
            self.retained.at,
            self._gone,
            hides=lambda *place: self.log.reader.erasures.hides(*place),
            is_written=lambda: self.log.idle(),
        )
        self.numbers: Final = RocksPublisherNumbers(self.engine, clock)
        self.outbox: Final = RocksOutbox(self.engine)
        companions: list[Companion] = [self.sessions, self.retained, self.numbers, self.outbox]
        self.log: Final = open_log(self.engine, zones, default, mounts, clock, __version__, companions)
        self.marks: Final = open_marks(self.log, clock.monotonic_us)
        self._write_marks()
        #: Kept by those who have segments made.
        self.segment_counts: Final = SegmentCounts()
        #: As it was looked at last; `DiskMaintenance` looks.
        self.disk_state = DiskState.OK
        self.leases: Final = Leases(storage.data, settings.history.lease_max_age_s)
        self.maintenance: Final = Maintenance(self.log, leases=self.leases)
        self.erasures: Final = ErasureWorker(storage.data, self.log, self.retained, self._note_erasure)
        self.incoming: Final = IngestionWorker(self.log, self._came)
        self._policy: Final = policy
        self._delivered: Final = {
            number: shard.head_us
            for zone_log in self.log.zone_logs.values()
            for number, shard in zone_log.shards.items()
        }
        #: Bound once, because every queue holds it.
        self._tell_lost: Final = self._lost
        self._new_unlogged: Final = self._memory_queue
        #: Retained messages that could not be read, as far as the log names them.
        self._unreadable = 0

    def stores(self, backends: Mapping[str, QueueStore] | None = None, lake: LakeSource | None = None) -> Stores:
        """The stores as the broker takes them, with the queue backends outside the log, and the lake behind it."""
        zones = self.log.zones.all
        return Stores(
            log=self.log,
            retained=self.retained,
            sessions=self.sessions,
            registry=MemoryRegistry(),
            new_queue=self._new_queue,
            numbers=self.numbers,
            queue_backends=backends or {},
            outbox=self.outbox,
            attach=self.log.attach,
            new_replay=self._new_replay,
            lake=None if lake is None else LakeHistory(self.log.reader, lake),
            stores_all=all(zone.store for zone in zones),
            keeps_qos0=any(zone.store and zone.store_qos0 for zone in zones),
            goes_early=self._goes_early if any(zone.deliver_early for zone in zones) else None,
            delivered=self._delivered,
            drops=self.drops,
            sync_counts=self.engine.sync_counts,
            segment_counts=self.segment_counts if "paged" in {zone.layout for zone in zones} else None,
        )

    @property
    def segmented_log(self) -> WrittenLog:
        return self.log

    @property
    def commit_counts(self) -> CommitCounts | None:
        return self.log.counts

    @property
    def clock_leap_us(self) -> int:
        """By how much the clock leapt ahead and is not followed."""
        return self.log.time.leap_us

    def stored_shards(self) -> list[StoredShard]:
        """The log's shards, in numbers."""
        return [
            StoredShard(
                zone_log.zone.name,
                number,
                shard.head_us,
                shard.head_serial,
                [generation.record for generation in zone_log.live],
                zone_log.dropped,
            )
            for zone_log in self.log.zone_logs.values()
            for number, shard in zone_log.shards.items()
        ]

    def segment_writer(self, size: SegmentSize) -> SegmentWriter:
        return SegmentWriter(self.log, size)

    @property
    def unreadable_parts(self) -> int:
        """Parts of the log and retained messages that could not be read, since the start."""
        return self.retained.unreadable + self.segment_counts.unreadable

    def is_short_of_space(self) -> bool:
        return self.leases.short_of_space

    def _goes_early(self, topic: bytes) -> bool:
        return self.log.zones.of(topic).deliver_early

    def _new_queue(self, session_id: str, subscriptions: dict[bytes, SubscriptionRecord]) -> LogQueue:
        return self._queue(session_id, subscriptions, NO_END, history=False)

    def _new_replay(self, session_id: str, record: SubscriptionRecord, until_us: int) -> LogQueue:
        queue = self._queue(session_id, {record.filter.raw: record}, until_us, history=True)
        queue.continue_from({}, set(), {})
        if any(is_lane(name) for name in self.log.zone_logs):
            # Loaded messages are stored apart from published ones; a replay in the order of time merges both.
            queue.merge_by_time()
        return queue

    def _came(self, lane: ZoneLog) -> None:
        """A replay finds loaded messages; no session is owed them."""
        for number, shard in lane.shards.items():
            self._delivered[number] = shard.head_us

    def _queue(
        self, session_id: str, subscriptions: dict[bytes, SubscriptionRecord], until_us: int, *, history: bool
    ) -> LogQueue:
        upgrade_qos = self._policy.mqtt.upgrade_outgoing_qos
        return LogQueue(
            self.log.reader if history else self.log.reader.published,
            self._delivered,
            OwedRule(session_id, subscriptions, upgrade_qos=upgrade_qos, with_qos0=history),
            self._new_unlogged,
            self._tell_lost,
            until_us,
        )

    def _memory_queue(self) -> MemoryQueue:
        limits = self._policy.sessions
        return MemoryQueue(limits.max_queued_messages, limits.max_queued_bytes)

    def _lost(self, session_id: str, lost: LostRange) -> None:
        """Retention removed messages before a session read them, or they are lost because pages are damaged."""
        reason = DAMAGED if lost.damaged else DROP_RETENTION
        self.drops.counters.drop(reason, lost.at_most)
        detail = "at most so many, of all topics"
        event = self._note_lost(session_id, lost.at_most, lost.shard, lost.from_us, detail, reason)
        event.to_us = max(event.to_us, lost.to_us - 1)
        _log.warning("messages were removed before their session came", session=session_id, lost=str(lost))

    def _gone(self, session_id: str, shard: int, position_us: int) -> None:
        """Retention removed a message that was in flight, and has to be sent again."""
        self.drops.counters.drop(DROP_RETENTION)
        self._note_lost(session_id, 1, shard, position_us, "it was in flight")

    def _note_lost(
        self, session_id: str, count: int, shard: int, from_us: int, detail: str, reason: str = DROP_RETENTION
    ) -> Event:
        return self.drops.note(reason, session_id, b"", self.clock.wall_us(), count, shard, max(1, from_us), detail)

    def _note_erasure(self, erasure: Erasure) -> None:
        topic = b"/".join(erasure.levels)
        self.drops.note(ERASED, erasure.client, topic, self.clock.wall_us(), detail=f"by {erasure.made_by}")

    def store_events(self) -> None:
        """Not synced, and apart from the batches: events are stored also when the log cannot be written."""
        if self.retained.unreadable > self._unreadable:
            count = self.retained.unreadable - self._unreadable
            self.drops.note(
                DAMAGED, "", b"", self.clock.wall_us(), count, detail="retained messages that cannot be read"
            )
            self._unreadable = self.retained.unreadable
        self._event_files.write(self.drops.take())

    def flush(self) -> None:
        """Sync what was written, unless the store is poisoned."""
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
                self.maintenance.write_whole_index()
        except TransientError as error:
            _log.warning("index entries were not written; the next start makes them", why=str(error))
        finally:
            self.store_events()
            self._write_marks()
            self.log.close()

    def _write_marks(self) -> None:
        """At the beginning and at the end: what lies between two lives is seen by these marks."""
        try:
            self.marks.write()
        except OSError as error:
            _log.warning("marks of heads cannot be written", why=str(error))
