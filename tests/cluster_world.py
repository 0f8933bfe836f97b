"""Nodes of a cluster without sockets, disks and time: brokers, state machines and appliers are the real ones, the
ordered logs are in memory.

A `ClusterWorld` owns the event loop, the clock and the logs; a `ClusterNode` is a world for its own peers
(`tests/world.py`). Everything that the logs can do to a node can be asked of `world.logs`.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.broker import Broker
from holdfast.broker.client_log import ClientLog
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.cluster.cluster_log import ClusterLog, VnodeListener
from holdfast.cluster.groups.node_groups import GroupStores, NodeGroups
from holdfast.cluster.membership.record_clock import RecordClock
from holdfast.cluster.registry.gossip_registry import NodeRegistries
from holdfast.cluster.registry.log_registry import LogRegistry, load_newest_version
from holdfast.cluster.registry.takeover_begin import TakeoverBegin
from holdfast.cluster.vnodes.applier import ApplierStop, VnodeApplier
from holdfast.cluster.vnodes.retained_compaction import Places, RetainedCompaction
from holdfast.cluster.vnodes.vnode_leader import VnodeLeader, leader_of, registration_of
from holdfast.cluster.vnodes.writer import VnodeWriter
from holdfast.durable.log import LostRange
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.durable.takeover.registry import NodeLife
from holdfast.durable.takeover.takeover import TakeoverCounts
from holdfast.model.clock import ManualClock
from holdfast.model.protocol import V5
from holdfast.records.cluster.control import BOTH, EVENTUAL, LINEAR
from holdfast.records.cluster.items import ChangeSettings, Closed, Tick
from holdfast.records.cluster.record import MAX_RECORD_BYTES, ClusterRecord, encode_record
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.topics.subscription import SubscriptionRecord
from holdfast.wire.packets import Connack, Connect
from tests.cluster_stores import MemoryMessages, VnodesInMemory
from tests.memory_requests import MemoryNetwork
from tests.still_loop import StillLoop
from tests.unit.cluster.node_world import FakeTimers
from tests.unit.durable.state_machine.vnode import CLUSTER_ID
from tests.vnodes_retained import VnodesRetained
from tests.world import ORIGIN, Peer

MODES = {"linear": LINEAR, "both": BOTH, "eventual": EVENTUAL}


class NodeClock:
    """A `Clock` by shape, of one node: that of the world, and by how much it is wrong."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._offset_us = 0

    def wall_us(self) -> int:
        return self._clock.wall_us() + self._offset_us

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()

    def advance(self, us: int) -> None:
        """From now on it is ahead of the others."""
        self._offset_us += us

    def be_ahead(self, us: int) -> None:
        """By how much it is ahead of the true time; 0: it is right."""
        self._offset_us = us


class _Timed:
    """An `OutcomeListener` by shape: tells the clock of a broker the time of records, and the registry of replaced
    channels, as a node does. `watch` is told first.
    """

    def __init__(
        self,
        listener: VnodeListener,
        clock: RecordClock,
        replaced: Callable[[str, tuple[int, int, int]], None],
        watch: Callable[[Outcome], None],
    ) -> None:
        self._listener = listener
        self._clock = clock
        self._replaced = replaced
        self._watch = watch

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        self._watch(outcome)
        self._clock.applied(outcome.time_us, outcome.writer, outcome.written_us)
        for session_id, row in outcome.replaced.items():
            self._replaced(session_id, (row.node, row.epoch, row.connection_id))
        self._listener.applied(entry, outcome)

    def stopped(self, stop: ApplierStop) -> None:
        self._listener.stopped(stop)


def make_loud(log: ClientLog, failed: Callable[[Exception], None], *, may_be_damaged: bool = False) -> None:
    """Tell of every error that a broker writes into its log: in a world without damage each is a bug.

    Where disks may be damaged, only exceptions are.
    """

    def error(event: str, per: str, *, error: Exception | None = None, **fields: str) -> None:
        written(event, per, error=error, **fields)
        if error is not None or not may_be_damaged:
            failed(error or AssertionError(f"{event}: {fields}"))

    written = log.error
    log.error = error  # type: ignore[method-assign, assignment]


class ClusterNode:
    """One life of one node. A `World` for its peers by shape."""

    def __init__(
        self,
        world: "ClusterWorld",
        number: int,
        epoch: int,
        policy: Policy,
        tables: list[MemoryTables] | None = None,
        mode: str = "",
    ) -> None:
        """`tables` are those of its earlier life; without them it comes back with nothing. `mode` is that of its
        registry, if not that of the world.
        """
        self.world = world
        self.life = NodeLife(number, epoch)
        self.clock = NodeClock(world.clock)
        logs = world.logs
        self.tables = tables or [MemoryTables() for _log in logs]
        self.messages = MemoryMessages(self.tables)
        sessions = VnodesInMemory(self.tables, self.messages)
        heads = {shard: head_us for shard, head_us in self.messages.heads().items() if head_us}
        delivered = dict(heads)
        self.retained = VnodesRetained(self.tables)
        self.writers = [
            VnodeWriter(
                log,
                CLUSTER_ID,
                number,
                epoch,
                self.clock,
                world.timers,
                self.retained.newest,
                limit_bytes=world.record_bytes,
                longest_pause_us=0,  # the logs of a world hold records back as they are told
            )
            for log in logs
        ]
        newest = max(map(load_newest_version, self.tables))
        self.log = ClusterLog(len(logs), sessions.positions, heads, delivered, world.timers, newest)
        self.log.begin(self.writers)
        self.requests = world.network.of(number)
        self.counts = TakeoverCounts()
        linear = LogRegistry(self.log, self._registration, world.timers)
        self.registries = NodeRegistries(
            MODES[mode or world.mode],
            linear,
            self.life,
            self.requests,
            world.lives,
            self._leader_of,
            self.clock,
            world.timers,
        )
        self.begin = TakeoverBegin(self.life, self.requests, self.log.held_revision, world.lives, self.counts)
        self.record_clock = RecordClock(self.clock, number)
        self.appliers = [
            VnodeApplier(
                log,
                CLUSTER_ID,
                tables,
                _Timed(self.log.listener(vnode), self.record_clock, self.registries.replaced, self._watched),
                world.wait,
            )
            for vnode, (log, tables) in enumerate(zip(logs, self.tables, strict=True))
        ]
        self.leaders = [
            VnodeLeader(
                self.life,
                tables,
                tables.sessions,
                writer,
                self.clock,
                world.timers,
                compaction=RetainedCompaction(vnode, self.tables, self._have_passed),
            )
            for vnode, (tables, writer) in enumerate(zip(self.tables, self.writers, strict=True))
        ]
        #: What its last beat says to the others: the applied place of each vnode.
        self.beat: dict[int, int] = {}
        self.fenced = False
        limits = policy.sessions

        def new_unlogged() -> MemoryQueue:
            return MemoryQueue(limits.max_queued_messages, limits.max_queued_bytes)

        def new_queue(session_id: str, subscriptions: dict[bytes, SubscriptionRecord]) -> LogQueue:
            rule = OwedRule(session_id, subscriptions, upgrade_qos=False)
            return LogQueue(self.messages, delivered, rule, new_unlogged, self._lost)

        def new_replay(session_id: str, record: SubscriptionRecord, until_us: int) -> LogQueue:
            rule = OwedRule(session_id, {record.filter.raw: record}, upgrade_qos=False, with_qos0=True)
            queue = LogQueue(self.messages, delivered, rule, new_unlogged, self._lost, until_us)
            queue.continue_from({}, set(), {})
            return queue

        self.groups = NodeGroups(
            self.life,
            self.log,
            GroupStores(
                self.tables,
                sessions,
                sessions.shares,
                self.messages,
                heads,
                new_queue,
                new_replay,
                self._registration,
                lambda vnode: self.appliers[vnode].place.sequence,
            ),
            self.clock,
            world.timers,
            self._send_to,
            limits.share_strategy,
        )
        self.stores = Stores(
            self.log,
            self.retained,
            sessions,
            self.registries.registry,
            new_queue,
            versioned_retained=self.retained,
            deciding_log=self.log,
            begin_elsewhere=self.begin.begin,
            cluster_lock=self.registries.lock,
            takeover_counts=self.counts,
            life=self.life,
            shared=self.groups.attach,
            new_replay=new_replay,
            attach=self.log.attach_receipts,
            stores_all=True,
            delivered=delivered,
        )
        self.broker = Broker(policy, self.record_clock, Authenticator(), self.stores)
        make_loud(self.broker._client_log, world.note_failure)
        self._tasks: list[asyncio.Task[object]] = []
        self.dead = False

    def _lost(self, session_id: str, lost: LostRange) -> None:
        raise AssertionError(f"{session_id} has lost {lost}")

    def _watched(self, outcome: Outcome) -> None:
        if self.world.watch is not None:
            self.world.watch(self, outcome)

    def _leader_of(self, session_id: str) -> int:
        row = leader_of(self.tables[vnode_of(session_id, len(self.tables))])
        return row.node if row is not None and self.world.lives(row.node, row.epoch) else 0

    def _registration(self, session_id: str) -> Any:
        return registration_of(self.tables[vnode_of(session_id, len(self.tables))], session_id)

    def _send_to(self, node: int, packet: bytes) -> None:
        self.world.packets.append((self, node, packet))
        if not self.world.hold_packets:
            asyncio.get_running_loop().call_soon(self.world.carry_packet)

    async def start(self) -> None:
        """As a node does: it has applied what there is before it has a broker."""
        self._tasks = [asyncio.get_running_loop().create_task(applier.run()) for applier in self.appliers]
        for _turn in range(20):
            await asyncio.sleep(0)
        await self.begin.start(self.broker.freeze.freeze)
        run = await self.registries.start()
        if run is not None:
            self._tasks.append(asyncio.get_running_loop().create_task(run()))
        await self.broker.__aenter__()
        # Only the world lets time pass: timers of the loop would make a slow run another one.
        self.broker.deadlines._loop = None
        self.broker.deadlines._arm()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.broker.__aexit__()

    def kill(self) -> None:
        """The process is gone: it writes, reads and sends nothing any more, and its clients lose their connections."""
        self.dead = True
        self.world.network.leave(self.life.node)
        self.world.network.silent.add(self.life.node)
        for task in self._tasks:
            task.cancel()
        for writer in self.writers:
            self.world.do(writer.close)
        self.world.run(self.stop())

    def fence(self, before: int | None = None) -> None:
        """The node's epoch is closed in every vnode, by a record of another one."""
        self.fenced = True
        for log in self.world.logs:
            self.world.foreign(log, Closed(self.life.node, before or self.life.epoch + 1))
        if self.world.mode == "eventual" and not self.world.holds():
            self.world.lead(2)  # the locks of takeovers need another leader

    def _have_passed(self, places: Places) -> bool:
        """By the last beats of all other nodes that live, or may do so as far as is known."""
        others = [node for node in self.world.nodes if node is not self and not node.fenced]
        return all(node.beat.get(vnode, 0) >= place for node in others for vnode, place in places.items())

    def lead(self) -> None:
        """A second has passed for the leaders, and for the beats."""
        self.beat = {vnode: applier.place.sequence for vnode, applier in enumerate(self.appliers)}
        for leader in self.leaders:
            self.world.do(lambda leader=leader: leader.tick(self.life.node))  # type: ignore[misc]
        self.world.do(self.groups.tick)

    # ---- a world for peers

    def do(self, action: Callable[[], object]) -> None:
        self.world.do(action)

    def peer(self, version: int = V5) -> Peer:
        return Peer(self, version, ORIGIN)  # type: ignore[arg-type]

    def connect(self, client_id: str, version: int = V5, **options: object) -> Peer:
        peer = self.peer(version)
        peer.send(Connect(version, client_id, **options))  # type: ignore[arg-type]
        peer.connack = peer.take(Connack)
        return peer


class ClusterWorld:
    """Nodes over V logs; use it as a context manager."""

    #: `registry.mode` of all nodes.
    mode = "linear"

    def __init__(
        self, nodes: int = 3, vnodes: int = 2, policy: Policy | None = None, record_bytes: int = MAX_RECORD_BYTES
    ) -> None:
        self.clock = ManualClock()
        #: Is told what a node has applied, with every record.
        self.watch: Callable[[ClusterNode, Outcome], None] | None = None
        self.record_bytes = record_bytes
        self.policy = policy or Policy()
        self.timers = FakeTimers()
        self.network = MemoryNetwork(self.timers)
        self._numbers: dict[int, int] = {}
        self.logs = [MemoryOrderedLog(self.clock, f"memory-{vnode}") for vnode in range(vnodes)]
        for vnode, log in enumerate(self.logs):
            zone = VnodeZone("default", vnode, "paged", {})
            self.foreign(log, ChangeSettings(1, VnodeSettings((zone,))))
        self._loop = StillLoop()
        self._loop.set_exception_handler(self._failed)
        self._failures: list[BaseException] = []
        self._epoch = 0
        self.nodes: list[ClusterNode] = []
        #: Packets between nodes, apart from the logs: who has sent them, to which node.
        self.packets: list[tuple[ClusterNode, int, bytes]] = []
        self.hold_packets = False
        for number in range(1, nodes + 1):
            self.start(number)
        if self.mode == "eventual":
            self.lead(2)  # the lock of a takeover is at the leader of its vnode

    def start(self, number: int, tables: list[MemoryTables] | None = None, mode: str = "") -> ClusterNode:
        """A node joins, or comes back: with the tables of its earlier life, or with nothing."""
        self._epoch += 1
        self.network.silent.discard(number)
        node = ClusterNode(self, number, self._epoch, self.policy, tables, mode)
        self.nodes = [*[other for other in self.nodes if other.life.node != number], node]
        self.nodes.sort(key=lambda one: one.life.node)
        self.run(node.start())
        for writer in node.writers:  # it closes the node's earlier epoch
            writer.add(Tick())
            writer.flush()
        self.settle()
        return node

    def lives(self, number: int, epoch: int) -> bool:
        """Whether this is the last epoch of a node, and the node is there."""
        return any((node.life.node, node.life.epoch) == (number, epoch) and not node.dead for node in self.nodes)

    def foreign(self, log: MemoryOrderedLog, item: ChangeSettings | Closed) -> None:
        """A record of a node that is none of these."""
        number = self._numbers[id(log)] = self._numbers.get(id(log), 0) + 1
        record = ClusterRecord(CLUSTER_ID, 99, 1, number, self.clock.wall_us(), 0, [], [item])
        log.append(encode_record(record), lambda _result: None)

    async def wait(self, _delay_s: float) -> None:
        await asyncio.sleep(0)

    def run(self, work: Any) -> Any:
        result = self._loop.run_until_complete(work)
        self.settle()
        return result

    def do(self, action: Callable[[], object]) -> None:
        self._loop.call_soon(action)
        self.settle()

    def settle(self) -> None:
        self._loop.settle()
        if self._failures:
            raise self._failures.pop(0)

    def advance(self, seconds: float) -> None:
        """Let time pass, for clocks, deadlines and timers."""
        self.clock.advance(int(seconds * 1_000_000))
        self.do(lambda: self.timers.advance(seconds))
        for node in self.nodes:
            if not node.dead:
                self.do(node.broker.deadlines.fire)

    def lead(self, seconds: int = 1) -> None:
        """Let seconds pass, with what leaders do in each."""
        for _second in range(seconds):
            self.advance(1)
            for node in self.nodes:
                if not node.dead:
                    node.lead()

    def carry_packet(self, index: int = 0, *, lose: bool = False) -> None:
        """Bring a packet between nodes to where it goes, if its nodes live."""
        if index < len(self.packets):
            sender, number, packet = self.packets.pop(index)
            for node in self.nodes:
                if node.life.node == number and not node.dead and not sender.dead and not lose:
                    node.groups.received(packet)

    # ---- what the logs do

    def holds(self) -> bool:
        """Whether records are held back."""
        return any(log.hold_appends for log in self.logs)

    def log_of(self, session_id: str) -> MemoryOrderedLog:
        return self.logs[vnode_of(session_id, len(self.logs))]

    def hold_appends(self) -> None:
        """From here on records are on their way until they are let through."""
        for log in self.logs:
            log.hold_appends = True

    def let_appends_through(self) -> None:
        for log in self.logs:
            log.hold_appends = False
            while log.held:
                self.do(log.arrive)

    def stored(self) -> list[bytes]:
        """The payloads of all messages in the logs, vnode by vnode."""
        shards = range(len(self.logs))
        return [message.payload for shard in shards for message in self.nodes[0].messages.of(shard)]

    def digests(self) -> list[Mapping[int, bytes]]:
        """By node: the digest of each vnode."""
        return [
            {vnode: applier.place.digest for vnode, applier in enumerate(node.appliers)}
            for node in self.nodes
            if not node.dead
        ]

    def note_failure(self, error: BaseException) -> None:
        """It is raised when the world has settled."""
        self._failures.append(error)

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._failures.append(error if isinstance(error, BaseException) else AssertionError(context["message"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            if not node.dead:
                self._loop.run_until_complete(node.stop())
        self._loop.close()
