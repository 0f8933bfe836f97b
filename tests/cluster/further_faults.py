"""Faults of the suite that are no kill at a step: nodes that hang, networks that are cut, disks and logs that are full.

Each is a function that harms a cluster under load and returns when the fault has ended. The verdict is that of every
run (`fault_run.py`); what a fault promises beyond that, it looks at itself.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from holdfast.cluster.nats.connection import ApiError, NatsConnection
from holdfast.cluster.nats.streams import LogStream, stream_info
from holdfast.cluster.session_administration import read_claims
from holdfast.model.errors import TransientError
from holdfast.model.protocol import SERVER, V5
from holdfast.node.system_clock import SystemClock
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Connect, Disconnect
from holdfast.wire.properties import Properties
from tests.cluster.fault_cluster import NODES, FaultCluster
from tests.cluster.fault_load import BLOCKED_S, FaultLoad
from tests.cluster.fault_network import CutCluster
from tests.cluster.fault_steps import Roles
from tests.crash.disks import SmallDisk

Harm = Callable[[FaultCluster, FaultLoad, Roles], Awaitable[None]]

_MB = 1 << 20
#: Seconds of a cut: longer than an election of servers, and than it takes to be fenced.
_CUT_S = 20.0
_FLAPS = 30
_FULL_S = 5.0
_MODE = "registry.mode"


# ---- brokers that hang


def _hang(seconds: float) -> Harm:
    async def harm(cluster: FaultCluster, _load: FaultLoad, roles: Roles) -> None:
        node = cluster.nodes[roles.publisher - 1]
        node.stop_now()
        await asyncio.sleep(seconds)
        node.go_on()

    return harm


# ---- cuts


async def _cut_broker(cluster: FaultCluster, _load: FaultLoad, roles: Roles) -> None:
    assert isinstance(cluster, CutCluster)
    await cluster.cut(broker=roles.subscriber)
    await asyncio.sleep(_CUT_S)
    await cluster.heal()


async def _cut_server(cluster: FaultCluster, _load: FaultLoad, roles: Roles) -> None:
    assert isinstance(cluster, CutCluster)
    await cluster.cut(server=roles.stream_leader)
    await asyncio.sleep(_CUT_S)
    await cluster.heal()


async def _flap(cluster: FaultCluster, _load: FaultLoad, roles: Roles) -> None:
    """The server that leads is cut off and back, once a second; every other time its connections break."""
    assert isinstance(cluster, CutCluster)
    for number in range(_FLAPS):
        await cluster.cut(server=roles.stream_leader, silent=number % 2 == 0)
        await asyncio.sleep(0.5)
        await cluster.heal()
        await asyncio.sleep(0.5)


# ---- disks


async def _wipe_broker(cluster: FaultCluster, _load: FaultLoad, roles: Roles) -> None:
    """A broker comes back with an empty folder."""
    await cluster.wipe(roles.subscriber)
    # It may join when its earlier life is fenced.
    await cluster.all_listening()


async def _wipe_server(cluster: FaultCluster, _load: FaultLoad, roles: Roles) -> None:
    """A server comes back with an empty store, under a new name, and gets the copies of the old one."""
    old = roles.followers[0]
    process = cluster.servers.named(old)
    cluster.kill_servers([old])
    shutil.rmtree(process.store)
    process.start()
    assert process.server_name != old
    async with asyncio.timeout(60), cluster.servers.connected() as connection:
        for stream in cluster.streams:
            await _move_copy(connection, stream, old)
    await cluster.all_current()


async def _move_copy(connection: NatsConnection, stream: LogStream, old: str) -> None:
    """Have a copy of a log made on another server than this one, which is gone."""
    while True:
        try:
            if (await connection.ask(f"STREAM.PEER.REMOVE.{stream.name}", {"peer": old})).get("success"):
                return
        except (TransientError, ApiError):
            await asyncio.sleep(0.2)


async def _fill_disk(cluster: FaultCluster, load: FaultLoad, roles: Roles) -> None:
    """Another program fills the disk of the node that has no publisher."""
    assert isinstance(cluster, SmallDiskCluster)
    node = cluster.nodes[roles.subscriber - 1]
    said = len(node.log_text())
    ballast = cluster.disks[node.number].fill(leave_bytes=8 * _MB)
    await load.until(lambda: '"free disk space"' in node.log_text()[said:], "the node notices that its disk is full")
    await asyncio.sleep(_FULL_S)
    ballast.unlink()


class SmallDiskCluster(FaultCluster):
    """Every broker has a small disk of its own."""

    def __init__(self, folder: Path, extra: tuple[str, ...] = ()) -> None:
        super().__init__(folder, extra)
        self.disks = {node.number: SmallDisk(node.data, 300 * _MB) for node in self.nodes}

    async def stop(self) -> None:
        await super().stop()
        for disk in self.disks.values():
            disk.close()


# ---- a full log


async def _fill_stream(cluster: FaultCluster, load: FaultLoad, roles: Roles) -> None:
    """A log keeps what fewer than a majority have synced: it fills up while two of three nodes are away, and is trimmed
    when they are back."""
    await cluster.kill_brokers([roles.subscriber, roles.leader])
    for pump in load.pumps:
        pump.sizes = (60_000,)
        pump.going.set()
    stream = cluster.streams[1]
    async with asyncio.timeout(120), cluster.servers.connected() as connection:
        before, taken = -1, 0
        while taken < stream.limit_bytes - _MB or taken != before:
            await asyncio.sleep(1)
            before, taken = taken, (await stream_info(connection, stream))["state"]["bytes"]
    for pump in load.pumps:
        pump.going.clear()
        pump.sizes = (0,)
    await cluster.start_missing()


# ---- connections of one client id


class OneConnection:
    """CONNECT once, and see how long it stays."""

    def __init__(self, node: int, port: int, name: str) -> None:
        self.node = node
        #: When its transport began to connect, by the wall clock, in ms.
        self.began_ms = 0
        self.asked_s = self.answered_s = 0.0
        #: The reason of CONNACK; -1 without one.
        self.reason = -1
        self.present = False
        self.open = False
        self._port = port
        self._name = name

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        framer = Framer()
        framer.speak(V5)
        self.began_ms = time.time_ns() // 1_000_000
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                properties = Properties(session_expiry_interval=3600)
                writer.write(encode(Connect(V5, self._name, clean_start=False, properties=properties), V5))
                self.asked_s, self.open = loop.time(), True
                while data := await reader.read(1 << 16):
                    for packet in decode_all(framer, data, V5, SERVER):
                        if isinstance(packet, Connack):
                            self.reason, self.present = packet.reason, packet.session_present
                            self.answered_s = loop.time()
                        elif isinstance(packet, Disconnect):
                            return
            finally:
                self.open = False
                writer.close()


def judge_connections(connections: list[OneConnection], version_ms: int) -> list[str]:
    """What is wrong with connections of one client id that have all been answered, oldest first.

    `version_ms` is when the transport of the registered one connected, by its node. Connections that were made within a
    few ms may come to their nodes in any order, so the newest is not always the one that was begun last. One that was
    begun later than the registered one had connected is newer for certain.
    """
    found: list[str] = []
    left = [at for at, one in enumerate(connections) if one.open and one.reason == 0]
    if len(left) != 1:
        found.append(f"connections that stay: {left}, of {len(connections)}")
    began = [one.answered_s for one in connections if one.reason == 0]
    for at, one in enumerate(connections):
        if one.reason not in (0, 0x88, 0x89, -1):
            found.append(f"connection {at} is answered with 0x{one.reason:02X}")
        if one.reason == 0 and not one.present and any(before < one.asked_s for before in began):
            found.append(f"connection {at}: the session is gone")
    newer = [at for at, one in enumerate(connections) if one.reason == 0 and one.began_ms > version_ms]
    if left and newer:
        found.append(f"connection {left[0]} stays, which connected at {version_ms} ms, and {newer} are newer")
    return found


async def _registered_ms(cluster: FaultCluster, name: str) -> int:
    """When the transport of the registered channel of a client id connected: the version of its claim, in ms."""
    async with asyncio.timeout(BLOCKED_S):
        while True:
            with suppress(TransientError):
                found = await read_claims(cluster.options(), SystemClock(), name)
                if found.claims:
                    last = max(found.claims, key=lambda claim: claim.revision)
                    return int(last.version.partition(".")[0], 16)
            await asyncio.sleep(0.1)


def _connect_at_once(gap_s: float, count: int = 50) -> Harm:
    async def harm(cluster: FaultCluster, load: FaultLoad, _roles: Roles) -> None:
        name = f"crowd-{load.ledger.tick()}"
        connections: list[OneConnection] = []
        async with asyncio.TaskGroup() as tasks:
            running: list[asyncio.Task[None]] = []
            for number in range(count):
                node = cluster.nodes[number % NODES]
                connections.append(OneConnection(node.number, node.port, name))
                running.append(tasks.create_task(connections[-1].run()))
                await asyncio.sleep(gap_s)

            def settled() -> bool:
                return all(one.answered_s or not one.open for one in connections) and (
                    sum(one.open for one in connections) <= 1
                )

            with suppress(TimeoutError):
                await load.until(settled, "one connection stays", 30)
            for wrong in judge_connections(connections, await _registered_ms(cluster, name)):
                load.ledger.wrong(f"{name}: {wrong}")
            for task in running:
                task.cancel()

    return harm


# ---- another registry


class EventualCluster(FaultCluster):
    """A cluster whose nodes find channels by a map that they gossip."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, (f"{_MODE}=eventual",))


async def _change_registry(cluster: FaultCluster, load: FaultLoad, _roles: Roles) -> None:
    """Restart nodes one by one, first with both, then with linear, or the way back; clients go on meanwhile."""
    wanted = "eventual" if cluster.nodes[0].given(_MODE) == "linear" else "linear"
    for mode in ("both", wanted):
        for node in cluster.nodes:
            await node.stop()
            node.change(_MODE, mode)
            await node.start()
            await node.listening()
            mark = load.ledger.tick()
            for publisher in load.publishers:
                await load.until(partial(publisher.has_progress, mark), f"{publisher.name} publishes", BLOCKED_S)


#: By name: the kind of cluster, and the fault.
FURTHER: dict[str, tuple[type[FaultCluster], Harm]] = {
    "broker hangs for 5 s": (FaultCluster, _hang(5)),
    "broker hangs for 30 s": (FaultCluster, _hang(30)),
    "broker is cut off from all servers": (CutCluster, _cut_broker),
    "server is cut off from the others": (CutCluster, _cut_server),
    "routes of a server flap for 30 s": (CutCluster, _flap),
    "broker is wiped": (FaultCluster, _wipe_broker),
    "server is wiped, under a new name": (FaultCluster, _wipe_server),
    "disk of a broker is full": (SmallDiskCluster, _fill_disk),
    "log of a vnode is full": (FaultCluster, _fill_stream),
    "registry eventual, both, linear under load": (EventualCluster, _change_registry),
    "50 connects of one client id at 0 ms": (FaultCluster, _connect_at_once(0)),
    "50 connects of one client id at 10 ms": (FaultCluster, _connect_at_once(0.01)),
    "50 connects of one client id at 100 ms": (FaultCluster, _connect_at_once(0.1)),
}
