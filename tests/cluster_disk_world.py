"""A cluster of three nodes on disks, as one world for clients: nodes, stores and brokers are those of the product.

    tests ──▶ ClusterDiskWorld ──▶ DiskNode 1, 2, 3 ──▶ RocksDB, a folder each
                                       │
                                       └──▶ Servers: ordered logs and core NATS, both in memory, which outlive the nodes

Only the network, the servers of the logs and time are not real. The loop has the time of the world's clock, so nothing
waits. Clients that publish (`PUBLISHERS`) are at node 3. All others are at nodes 1 and 2, and each of their
connections is at another node than the one before: a publisher and its subscriber never share a node.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.broker import Broker
from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Policy, RegistryMode, RegistrySettings
from holdfast.broker.stores import Stores
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.exchange.client import BrokerClient
from holdfast.model.clock import ManualClock
from holdfast.model.errors import TransientError
from holdfast.model.protocol import V5
from holdfast.node.cluster.cluster_embedding import answer_nodes, open_groups, relay_qos0
from holdfast.node.cluster.cluster_options import vnode_settings
from holdfast.node.cluster.cluster_storage import ClusterStorage
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage, ZoneSettings
from holdfast.records.cluster import vnode_keys
from holdfast.records.cluster.control import ControlRecord, Found, encode_control
from holdfast.records.cluster.control_rows import FoundedRow
from holdfast.records.session.session_keys import session_range
from holdfast.storage.rocks.engine.column_families import CLUSTER
from holdfast.storage.rocks.engine.family_slice import FamilySlice
from holdfast.wire.packets import Connack, Connect, Packet
from tests.cluster_world import make_loud
from tests.unit.durable.state_machine.vnode import CLUSTER_ID
from tests.world import ORIGIN, Peer

NODES = 3
VNODES = 2
#: Client ids that publish: they are at the last node, and nobody else is.
PUBLISHERS = frozenset({"writer", "w", "zero"})
#: How long nodes need until they serve and lead.
START_S = 6
#: How long the others need until they have taken the place of one that is gone.
LOST_S = 30
#: A second of the nodes' work, in which nothing is missed.
STEP_S = 1.0
_PATIENCE = 20_000


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes when a test says so."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        super().__init__()

    def time(self) -> float:
        return self._clock.monotonic_us() / 1_000_000

    def is_idle(self) -> bool:
        """Whether nothing is left to do without time passing."""
        return not self._ready  # type: ignore[attr-defined]


class Servers:
    """What the servers of a cluster keep and carry: the ordered logs, and packets between nodes."""

    def __init__(self, clock: ManualClock, settings: Settings) -> None:
        self.clock = clock
        self.control = MemoryOrderedLog(clock, "control")
        self.vnodes = [MemoryOrderedLog(clock, f"vnode-{number}") for number in range(settings.cluster.vnodes)]
        found = Found(settings.cluster.name, vnode_settings(settings))
        record = encode_control(ControlRecord(CLUSTER_ID, 0, 0, 0, clock.wall_us(), found))
        self.control.append(record, lambda _result: None)
        self.founded = FoundedRow(1, CLUSTER_ID, found)
        self.heard: dict[str, list[Callable[[bytes], None]]] = {}
        self.answers: dict[str, tuple[Connection, Callable[[bytes], Awaitable[bytes]]]] = {}


class Connection:
    """A `ClusterConnection`, and its `NatsConnection`, by shape: one node's."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.founded = servers.founded
        self.control = servers.control
        self.vnodes = servers.vnodes
        self.connection = self
        self.is_open = True

    def step_down(self, vnode: int | None, why: str) -> None:
        """There is one server."""

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        for received in self._servers.heard.get(subject, []):
            asyncio.get_running_loop().call_soon(received, payload)

    def close(self) -> None:
        """The node is gone: nothing reaches it."""
        self.is_open = False

    async def listen(self, subject: str, received: Callable[[bytes], None]) -> None:
        self._servers.heard.setdefault(subject, []).append(lambda payload: received(payload) if self.is_open else None)

    async def request(self, subject: str, payload: bytes, timeout_s: float = 0.0) -> bytes:
        connection, answer = self._servers.answers.get(subject, (self, None))
        if answer is None or not connection.is_open:
            raise TransientError(f"nobody answers {subject}")
        try:
            return await asyncio.wait_for(answer(payload), timeout_s)
        except TimeoutError:
            raise TransientError(f"no answer from {subject}") from None

    async def answer(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._servers.answers[subject] = (self, answer)

    def on_connected(self, connected: Callable[[], None]) -> None:
        """There is one connection, from the beginning."""


class DiskNode:
    """One life of one node. A `World` for its peers by shape."""

    def __init__(self, world: "ClusterDiskWorld", number: int, settings: Settings) -> None:
        self.world = world
        self.number = number
        self.settings = settings
        self.clock = world.clock
        self.storage = ClusterStorage(settings, world.policy, world.clock)
        self.storage.on_failure = world.note_failure

    async def start(self) -> None:
        """As a process of a node does, up to its listeners."""
        self.connection = Connection(self.world.servers)
        connection: Any = self.connection
        storage, settings, policy = self.storage, self.settings, self.world.policy
        self.member = storage.open_node(connection)
        await open_groups(settings, connection, self.member, storage)
        await self.member.start(storage.spawn)
        self.stores = storage.stores(self.member)
        self.broker = Broker(policy, self.member.clock, Authenticator(), self.stores)
        make_loud(self.broker._client_log, self.world.note_failure, may_be_damaged=True)
        await relay_qos0(settings, connection, self.member, self.broker, storage)
        await answer_nodes(self.member, self.broker, storage)
        self.broker.connections.admission = self.member
        await self.broker.__aenter__()
        storage.spawn(storage.maintain(self.broker, self.member))

    async def stop(self) -> None:
        """It writes nothing more, and says nothing."""
        self.connection.close()
        self.member.close()
        await self.broker.__aexit__()
        await self.storage.end_tasks()

    def do(self, action: Callable[[], object]) -> None:
        self.world.do(action)


class ClusterPeer(Peer):
    """A connection to the node that the world chooses when it sees CONNECT."""

    def __init__(self, world: "ClusterDiskWorld", version: int, origin: Origin) -> None:
        self._cluster = world
        self._origin = origin
        self._version = version
        self._is_open = False
        self.inbox: list[Packet] = []
        self.version = version

    def send(self, *packets: Packet) -> None:
        first = packets[0]
        if not self._is_open:
            client_id = first.client_id if isinstance(first, Connect) else ""
            super().__init__(self._cluster.node_for(client_id), self._version, self._origin)  # type: ignore[arg-type]
            self._is_open = True
        super().send(*packets)


class ClusterDiskWorld:
    """A `DiskWorld` by shape: `ClusterDiskWorld(folder, servers)` again is a restart of all nodes."""

    #: `registry.mode` of all nodes.
    mode: RegistryMode = "linear"

    def __init__(
        self,
        folder: Path,
        servers: Servers,
        policy: Policy | None = None,
        *,
        storage: dict[str, Any] | None = None,
        zones: dict[str, ZoneSettings] | None = None,
    ) -> None:
        self.servers = servers
        self.clock = servers.clock
        self.policy = policy or Policy()
        self._loop = ManualLoop(self.clock)
        self._loop.set_exception_handler(self._failed)
        self._failures: list[BaseException] = []
        self._last_node: dict[str, int] = {}
        servers.heard.clear()
        servers.answers.clear()
        settings = [settings_of(folder, number, storage, zones) for number in range(1, NODES + 1)]
        self.nodes = [DiskNode(self, number, one) for number, one in enumerate(settings, 1)]
        starting = [self._loop.create_task(node.start()) for node in self.nodes]
        self.advance(START_S, 0.25)
        assert all(task.done() and task.result() is None for task in starting), "nodes do not start"
        assert all(self.leads(vnode) for vnode in range(VNODES)), "nodes do not lead"

    @property
    def stores(self) -> Stores:
        """Those of a node that has applied what all have."""
        return self.nodes[0].stores

    def leads(self, vnode: int) -> bool:
        return any(node.member.leads(vnode) for node in self.nodes)

    def client_of(self, session_id: str) -> BrokerClient | None:
        """A session that the broker of a node has in memory."""
        found = [node.broker.sessions.clients.get(session_id) for node in self.nodes]
        return next((client for client in found if client is not None), None)

    def drops(self) -> dict[str, int]:
        """How many messages were dropped, by reason, at all nodes."""
        found = Counter[str]()
        for node in self.nodes:
            found.update(node.broker.exchange.counters.drops)
        return dict(found)

    def count_keys(self, session_id: str) -> int:
        """How many keys each node has stored of a session, or of a group."""
        prefix = vnode_keys.table_prefix(vnode_keys.vnode_of(session_id, VNODES), vnode_keys.SESSIONS)
        tables = [FamilySlice(node.storage.engine, CLUSTER, prefix) for node in self.nodes]
        counts = {len(list(table.items(*session_range(session_id)))) for table in tables}
        assert len(counts) == 1, "nodes differ"
        return counts.pop()

    # ---- clients

    def node_for(self, client_id: str) -> DiskNode:
        if client_id in PUBLISHERS:
            return self.nodes[-1]
        before = self._last_node.get(client_id)
        number = len(self._last_node) if before is None else before + 1
        self._last_node[client_id] = number
        others = self.nodes[:-1]
        return others[number % len(others)]

    def peer(self, version: int = V5, origin: Origin = ORIGIN) -> Peer:
        return ClusterPeer(self, version, origin)

    def connect(self, client_id: str, version: int = V5, **options: object) -> Peer:
        peer = self.peer(version)
        peer.send(Connect(version, client_id, **options))  # type: ignore[arg-type]
        peer.connack = peer.take(Connack)
        return peer

    # ---- time

    def iterate(self) -> None:
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def settle(self) -> None:
        """Let everything happen that can happen without time passing; what went wrong is raised here."""
        for _turn in range(_PATIENCE):
            self.iterate()
            if self._loop.is_idle():
                break
        else:
            raise AssertionError("the nodes do not come to rest")
        if self._failures:
            raise self._failures.pop(0)

    def do(self, action: Callable[[], object]) -> None:
        self._loop.call_soon(action)
        self.settle()

    def advance(self, seconds: float, step_s: float = STEP_S) -> None:
        """Let time pass, with all that nodes do in it."""
        while seconds > 0:
            passed_s = min(step_s, seconds)
            self.clock.advance(round(passed_s * 1_000_000))
            self.settle()
            seconds -= passed_s

    def tick(self, seconds: float = 1.0) -> None:
        self.advance(seconds)

    # ---- faults

    def hold(self) -> None:
        """What is written from now on is on its way to the logs."""
        for log in self.servers.vnodes:
            log.hold_appends = True

    def receipts(self) -> None:
        """What is on its way arrives, and is applied; what it leads to is on its way then."""
        for arrive in [log.arrive for log in self.servers.vnodes for _append in log.held]:
            self.do(arrive)

    def release(self) -> None:
        for log in self.servers.vnodes:
            log.hold_appends = False
            while log.held:
                self.do(log.arrive)

    def lose(self, index: int) -> None:
        """A node is gone for ever, with its disk; the others notice."""
        node = self.nodes.pop(index)
        self._loop.run_until_complete(node.stop())
        node.storage.close()
        shutil.rmtree(node.settings.storage.data)
        self.advance(LOST_S)
        assert all(self.leads(vnode) for vnode in range(VNODES)), "nobody leads in its place"

    def crash(self) -> None:
        """The processes are gone: nothing is said, nothing is saved."""
        self.__exit__(None, None, None)

    def note_failure(self, error: BaseException) -> None:
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
            self._loop.run_until_complete(node.stop())
        self._loop.close()
        for node in self.nodes:
            node.storage.close()


def settings_of(
    folder: Path,
    node: int,
    storage: dict[str, Any] | None = None,
    zones: dict[str, ZoneSettings] | None = None,
) -> Settings:
    """Those of one node; they differ in its number and its folder."""
    return Settings(
        zones=zones or {},
        storage=Storage(data=folder / f"node-{node}", min_free_bytes=0, **(storage or {})),
        cluster=ClusterSettings(name="test", node=node, vnodes=VNODES),
        registry=RegistrySettings(mode=ClusterDiskWorld.mode),
    )
