"""What a node of a cluster has on disk, and the node at work over it: the stores that its broker takes."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.cluster.cluster_node import ClusterNode, NodeStores, NodeVnode
from holdfast.cluster.groups.node_groups import GroupStores, NodeGroups
from holdfast.cluster.membership.membership import NodeProfile
from holdfast.cluster.membership.readiness import MQTT, NodeBounds
from holdfast.cluster.node_cluster import ClusterConnection
from holdfast.cluster.node_requests import NatsRequests
from holdfast.cluster.vnodes.generation_rules import GenerationRules, ShardState
from holdfast.cluster.vnodes.trim_rules import TrimLimits
from holdfast.durable.commit import CommitCounts, SegmentCounts
from holdfast.durable.erasures import Erasure, Erasures
from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.exchange.drops import DAMAGED, DROP_NOT_RELAYED, DROP_RETENTION, ERASED, Drops
from holdfast.files.replacement import replace_file
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, PoisonedError, TransientError
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.node.cluster.cluster_jobs import ClusterJobs
from holdfast.node.control.stored_log import StoredShard
from holdfast.node.disk_maintenance import watch_disk
from holdfast.node.embedding import InstallationNeededError
from holdfast.node.settings.tree import Settings
from holdfast.node.settings.zones import zones_of
from holdfast.records.cluster.control import BOTH, EVENTUAL, ID_BYTES, LINEAR
from holdfast.records.cluster.control_rows import CONTROL_VNODE
from holdfast.records.cluster.items import Item
from holdfast.records.generations import Generation
from holdfast.storage.event_files import EventFiles
from holdfast.storage.rocks.checkpoint import want_installation
from holdfast.storage.rocks.engine.disk_space import DiskState
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.head_marks import MAX_AGE_US, MarkFiles, MinuteMarks, ShardEnd, ShardMark
from holdfast.storage.rocks.log.leases import Leases
from holdfast.storage.rocks.log.segment_writer import SegmentWriter, WrittenLog
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
from holdfast.storage.rocks.vnodes.vnode_heads import VnodeHeads
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from holdfast.topics.subscription import SubscriptionRecord

_log = structlog.get_logger()

#: The file with the id of a data folder: a node that comes with another folder is another one.
_FOLDER_ID: Final = "folder-id"
_MODES: Final = {"linear": LINEAR, "both": BOTH, "eventual": EVENTUAL}
_SECOND_S: Final = 1.0
#: Clients that are sent away with one second: they connect elsewhere at that rate.
_AWAY_AT_ONCE: Final = 1000


class ClusterStorage:
    """All stores of a node in a cluster."""

    def __init__(self, settings: Settings, policy: Policy, clock: Clock) -> None:
        """SettingsError if the folder is in use or cannot be made; PermanentError if its content cannot be read."""
        self._settings: Final = settings
        self._policy: Final = policy
        self.clock: Final = clock
        self.engine: Final = Engine.open(settings.storage.data)
        self.drops: Final = Drops()
        self.segment_counts: Final = SegmentCounts()
        self._disk: Final = watch_disk(settings.storage)
        self._leases: Final = Leases(settings.storage.data, settings.history.lease_max_age_s)
        self._event_files: Final = EventFiles(settings.storage.data)
        for damage in self.engine.damage:
            _log.error("the data was damaged", what=str(damage))
            self.drops.note(DAMAGED, "", b"", clock.wall_us(), detail=str(damage))
        self.vnodes: Final = VnodeStores(self.engine, clock, settings.cluster.vnodes, gone=self._gone)
        self._published_heads: Final = VnodeHeads(self.engine.folder, self.vnodes.log)
        self._marks: Final = self._open_marks()
        self.control: Final = RocksVnode(self.engine, CONTROL_VNODE)
        self._heads: Final = self.vnodes.log.heads()
        self._delivered: Final = dict(self._heads)
        self._waiting: Final[list[tuple[int, Callable[[], None]]]] = []
        self._tasks: Final[set[asyncio.Task[object]]] = set()
        #: Why the node cannot go on, and who is told.
        self.failure: Exception | None = None
        self.on_failure: Callable[[Exception], None] = lambda _why: None

    def open_node(self, connection: ClusterConnection) -> ClusterNode:
        """The node at work, over the logs of its cluster. Requires: the event loop."""
        loop = asyncio.get_running_loop()

        def tell_synced(mark: int) -> None:
            loop.call_soon_threadsafe(self._synced, mark)

        self.engine.on_synced(tell_synced)
        stores = self.vnodes
        named, default, _mounts = zones_of(self._settings)
        zones = {zone.name: zone for zone in [default, *named]}
        rules = GenerationRules(zones, len(connection.vnodes), self._is_leased)
        vnodes = [
            NodeVnode(
                log,
                stores.vnodes[number],
                stores.vnodes[number].sessions,
                partial(self._due_generations, rules, number),
            )
            for number, log in enumerate(connection.vnodes)
        ]
        cluster = self._settings.cluster
        address = cluster.mqtt_address
        addresses = ((MQTT, address),) if address else ()
        mode = _MODES[self._settings.registry.mode]
        profile = NodeProfile(cluster.node, f"node-{cluster.node}", self._folder_id(), mode, addresses)
        bounds = NodeBounds(cluster.max_lag_s, cluster.max_skew_s, cluster.patience_s, redirect=cluster.redirect)
        node = ClusterNode(
            connection.founded,
            connection.control,
            self.control,
            vnodes,
            NodeStores(
                self._positions,
                self._heads,
                self._delivered,
                stores.retained.newest,
                self._sync,
                lambda: stores.retained.erasures,
            ),
            profile,
            self.clock,
            loop,
            self._ended,
            NatsRequests(connection.connection, self._settings.cluster.name, profile.node),
            bounds=bounds,
            step_down=connection.step_down,
            trim_limits=TrimLimits(cluster.kept_bytes, cluster.stream_bytes // 2),
            install=self._install,
        )
        jobs = ClusterJobs(
            self._settings.storage.data,
            self.control,
            node.membership.propose,
            self._hide,
            self._note_erasure,
            self.clock,
        )
        self.spawn(jobs.run())
        return node

    def _hide(self, erasures: Erasures) -> None:
        self.vnodes.log.hide(erasures)
        self.vnodes.retained.erasures = erasures

    def _note_erasure(self, erasure: Erasure) -> None:
        topic = b"/".join(erasure.levels)
        self.drops.note(ERASED, erasure.client, topic, self.clock.wall_us(), detail=f"by {erasure.made_by}")

    def _is_leased(self, generation: Generation, head_us: int, now_us: int) -> bool:
        return self._leases.hold(generation, {generation.shards[0]: head_us}, now_us)

    def open_groups(self, node: ClusterNode, send: Callable[[int, bytes], None]) -> None:
        """Shared subscriptions of the node; `send` takes a packet to another node, perhaps."""
        stores = GroupStores(
            [self.vnodes.vnodes[number] for number in range(self._settings.cluster.vnodes)],
            self.vnodes.sessions,
            self.vnodes.sessions.shares,
            self.vnodes.log,
            self._heads,
            self._new_queue,
            self._new_replay,
            node.registration,
            lambda vnode: node.appliers[vnode].place.sequence,
        )
        node.groups = NodeGroups(
            node.life,
            node.log,
            stores,
            self.clock,
            asyncio.get_running_loop(),
            send,
            self._policy.sessions.share_strategy,
            upgrade_qos=self._policy.mqtt.upgrade_outgoing_qos,
        )

    def _due_generations(self, rules: GenerationRules, vnode: int, now_us: int) -> list[Item]:
        shards = [
            ShardState(
                part.zone,
                [live.record for live in part.live],
                [sum(map(self._family_bytes, live.record.families())) for live in part.live],
                part.head_us,
            )
            for part in self.vnodes.log.parts()
            if part.vnode == vnode
        ]
        return rules.due(shards, now_us)

    def _family_bytes(self, name: str) -> int:
        """What a family takes on disk and in RocksDB's memory; 0 if there is none."""
        if name not in self.engine.families():
            return 0
        family = self.engine.family(name)
        sizes = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")
        return sum([family.property_int_value(size) or 0 for size in sizes])

    def stores(self, node: ClusterNode) -> Stores:
        """The stores as the broker takes them."""
        named, default, _mounts = zones_of(self._settings)
        zones = [default, *named]
        return Stores(
            log=node.log,
            retained=self.vnodes.retained,
            versioned_retained=self.vnodes.retained,
            sessions=self.vnodes.sessions,
            registry=node.registries.registry,
            new_queue=self._new_queue,
            deciding_log=node.log,
            begin_elsewhere=node.begin.begin,
            cluster_lock=node.registries.lock,
            takeover_counts=node.takeover_counts,
            life=node.life,
            shared=None if node.groups is None else node.groups.attach,
            numbers=self.vnodes.numbers,
            attach=node.log.attach_receipts,
            new_replay=self._new_replay,
            stores_all=True,
            keeps_qos0=any(zone.store_qos0 for zone in zones),
            delivered=self._delivered,
            drops=self.drops,
            sync_counts=self.engine.sync_counts,
            segment_counts=self.segment_counts,
        )

    @property
    def segmented_log(self) -> WrittenLog:
        return self.vnodes.segments

    @property
    def commit_counts(self) -> CommitCounts | None:
        """The logs of the cluster decide, and their commits are not counted here."""
        return None

    @property
    def clock_leap_us(self) -> int:
        """0: positions come by the logs, and a wrong clock makes the node not ready."""
        return 0

    def stored_shards(self) -> list[StoredShard]:
        """The log's shards, in numbers. Of generations that were dropped there is no record."""
        return [
            StoredShard(part.zone, part.id, part.head_us, part.head_serial, [live.record for live in part.live], [])
            for part in self.vnodes.log.parts()
        ]

    def segment_writer(self, size: SegmentSize) -> SegmentWriter:
        return self.vnodes.segments.writer(size)

    @property
    def disk_state(self) -> DiskState:
        return self._disk.state

    @property
    def unreadable_parts(self) -> int:
        """Parts of the log and retained messages that could not be read, since the start."""
        return self.vnodes.retained.unreadable + self.segment_counts.unreadable

    def is_short_of_space(self) -> bool:
        return self._disk.state is not DiskState.OK

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something for as long as the node does. One that fails ends the node."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a part of the node failed", exc_info=task.exception())
            self._fail(PoisonedError(str(task.exception())))

    async def maintain(self, broker: Broker, node: ClusterNode) -> None:
        """Once a second: free space, clients, sessions' progress, what segments could not write, events."""

        def check_space() -> None:
            self._check_space(broker, node)

        def send_away() -> None:
            if node.readiness.sends_away:
                broker.connections.send_away(_AWAY_AT_ONCE)

        steps: list[Callable[[], None]] = [
            check_space,
            send_away,
            broker.sessions.sweep,
            self.vnodes.segments.retry,
            self._marks.look,
            self.store_events,
        ]
        while True:
            for step in steps:
                try:
                    step()
                except Exception:
                    _log.exception("maintenance of the disk failed")
            await asyncio.sleep(_SECOND_S)

    def _open_marks(self) -> MinuteMarks:
        """Of the shards of this node. Positions come from the log of a vnode, so a mark names a head, not the present:
        while nothing is published there is none.
        """
        ends = {part.id: ShardEnd(part.head_serial, part.head_us + 1) for part in self.vnodes.log.parts()}
        files = MarkFiles(self.engine.folder, ends)
        return MinuteMarks(files, self._present_marks, self.clock.monotonic_us)

    def _present_marks(self) -> list[ShardMark]:
        heads = self._published_heads.published()
        oldest_us = self.clock.wall_us() - MAX_AGE_US
        return [
            ShardMark(part.id, *heads[part.id], max(oldest_us, part.live[0].record.start_us))
            for part in self.vnodes.log.parts()
            if part.id in heads and part.live and heads[part.id].position_us > 0
        ]

    def _check_space(self, broker: Broker, node: ClusterNode) -> None:
        """Refuse messages before the disk is full, and accept them again when there is room. Other nodes go on."""
        before = self._disk.state
        state = self._disk.check()
        if state is not before:
            _log.warning("free disk space", state=state.name.lower(), free_bytes=self._disk.free_bytes)
        self._leases.short_of_space = state is not DiskState.OK
        node.readiness.disk_full = state is DiskState.FULL
        broker.exchange.intake.refusing = QUOTA_EXCEEDED if node.readiness.disk_full else SUCCESS

    def _ended(self, why: str) -> None:
        self._fail(PermanentError(f"this node is no member of its cluster any more: {why}"))

    def _install(self, why: str, differs: bool) -> None:
        """The node has to be installed from another one: by the next start of it, in this process or in another."""
        want_installation(self.engine.folder, why, keep_replaced=differs)
        self._fail(InstallationNeededError(why))

    def _fail(self, failure: Exception) -> None:
        if self.failure is None:
            self.failure = failure
            self.on_failure(failure)

    def _positions(self, session_id: str) -> dict[int, int]:
        return self.vnodes.sessions.positions(session_id)

    def _folder_id(self) -> bytes:
        path = self._settings.storage.data / _FOLDER_ID
        if path.is_file():
            found = bytes.fromhex(path.read_text().strip())
            if len(found) == ID_BYTES:
                return found
            raise PermanentError(f"{path} does not hold the id of a folder; it has {ID_BYTES * 2} hexadecimal digits")
        made = secrets.token_bytes(ID_BYTES)
        replace_file(path, made.hex().encode() + b"\n")
        return made

    # ---- syncs

    def _sync(self, synced: Callable[[], None]) -> None:
        """Have everything synced that is written by now, and let readers beside the node see it then."""
        publish = self._published_heads.note()

        def tell() -> None:
            publish()
            synced()

        if self.engine.written <= self.engine.synced:
            tell()
            return
        self._waiting.append((self.engine.written, tell))
        self.engine.request_sync()

    def _synced(self, mark: int) -> None:
        ready = [told for written, told in self._waiting if written <= mark]
        self._waiting[:] = [(written, told) for written, told in self._waiting if written > mark]
        for told in ready:
            told()

    # ---- queues

    def _new_queue(self, session_id: str, subscriptions: dict[bytes, SubscriptionRecord]) -> LogQueue:
        return self._queue(session_id, subscriptions, NO_END, history=False)

    def _new_replay(self, session_id: str, record: SubscriptionRecord, until_us: int) -> LogQueue:
        queue = self._queue(session_id, {record.filter.raw: record}, until_us, history=True)
        queue.continue_from({}, set(), {})
        return queue

    def _queue(
        self, session_id: str, subscriptions: dict[bytes, SubscriptionRecord], until_us: int, *, history: bool
    ) -> LogQueue:
        upgrade_qos = self._policy.mqtt.upgrade_outgoing_qos
        rule = OwedRule(session_id, subscriptions, upgrade_qos=upgrade_qos, with_qos0=history)
        return LogQueue(self.vnodes.log, self._delivered, rule, self._memory_queue, self._lost, until_us)

    def _memory_queue(self) -> MemoryQueue:
        limits = self._policy.sessions
        return MemoryQueue(limits.max_queued_messages, limits.max_queued_bytes)

    def _lost(self, session_id: str, lost: LostRange) -> None:
        reason = DAMAGED if lost.damaged else DROP_RETENTION
        self.drops.counters.drop(reason, lost.at_most)
        self.drops.note(
            reason, session_id, b"", self.clock.wall_us(), lost.at_most, lost.shard, max(1, lost.from_us), "at most"
        )
        _log.warning("messages were removed before their session came", session=session_id, lost=str(lost))

    def _gone(self, session_id: str, shard: int, position_us: int) -> None:
        self.drops.counters.drop(DROP_RETENTION)
        self.drops.note(
            DROP_RETENTION, session_id, b"", self.clock.wall_us(), 1, shard, max(1, position_us), "it was in flight"
        )

    def drop_qos0(self, count: int, why: str) -> None:
        """QoS 0 messages that did not reach the other nodes."""
        self.drops.counters.drop(DROP_NOT_RELAYED, count)
        self.drops.note(DROP_NOT_RELAYED, "", b"", self.clock.wall_us(), count, detail=why)

    def store_events(self) -> None:
        self._event_files.write(self.drops.take())

    def flush(self) -> None:
        """Sync what was written, unless the store is poisoned."""
        if self.engine.poison is None:
            try:
                self.engine.sync_now()
            except (TransientError, PoisonedError) as error:
                _log.error("not everything can be stored", why=str(error))

    async def end_tasks(self) -> None:
        """Ensures: nothing that was spawned runs any more."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """Ensures: what was written is synced."""
        self.store_events()
        publish = self._published_heads.note()
        self.flush()
        if self.engine.poison is None and self.engine.written <= self.engine.synced:
            publish()
        self._waiting.clear()
        self._published_heads.close()
        self.engine.close()
