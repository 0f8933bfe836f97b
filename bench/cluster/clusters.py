"""Brokers of three nodes on this machine: Holdfast with its NATS servers, and MQTT of three NATS servers."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.brokers import peers
from bench.brokers.processes import listens
from bench.cluster.nats_servers import PASSWORD, USER, NatsServers
from bench.ports import free_port
from bench.queues.processes import DEADLINE_S, Server
from holdfast.cluster.administration import init_cluster, read_status
from holdfast.cluster.membership.cluster_status import ClusterStatus
from holdfast.cluster.nats.server import find_server
from holdfast.cluster.node_cluster import ClusterOptions
from holdfast.model.errors import TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.settings.cluster_section import EMBEDDED, ClusterSettings
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.system_clock import SystemClock

SIZE: Final = 3
VNODES: Final = 4
_LOOK_S: Final = 0.1
#: Five logs fit into what servers apart from their nodes may store.
_STREAM_BYTES: Final = 512 << 20
#: Longer than a node may take to send its clients away.
_STOP_S: Final = 20.0


class HoldfastNode(Server):
    """One node: `holdfast serve` as the other benchmarks run it, with the settings of a cluster."""

    def __init__(
        self, number: int, routes: Sequence[int], registry_mode: str, nats: str = "", monitors: str = ""
    ) -> None:
        """`nats` and `monitors` are addresses of servers; without them the node runs a server of its own."""
        super().__init__(f"node-{number}")
        self.port: Final = free_port()
        password = self.folder / "password"
        password.write_text(f"{PASSWORD}\n", encoding="utf-8")
        self._cluster: Final = ClusterSettings(
            name="bench",
            node=number,
            vnodes=VNODES,
            client_port=free_port(),
            cluster_port=routes[(number - 1) % len(routes)],
            monitor_port=free_port(),
            user=USER,
            password_file=password,
            stream_bytes=_STREAM_BYTES,
            nats=nats or EMBEDDED,
            monitors=monitors,
            peers="" if nats else ",".join(f"127.0.0.1:{port}" for port in routes),
        )
        self._registry_mode: Final = registry_mode

    @property
    def addresses(self) -> tuple[str, str]:
        """Of its server, for nodes without one: that of clients, and that of its monitoring endpoint."""
        return f"nats://127.0.0.1:{self._cluster.client_port}", f"127.0.0.1:{self._cluster.monitor_port}"

    def options(self) -> ClusterOptions:
        data = self.folder / "data"
        return cluster_options(Settings(cluster=self._cluster, storage=Storage(data=data)))

    def launch(self) -> None:
        """Requires: the main thread. A process ends with the thread that started it."""
        keys = ("name", "node", "vnodes", "nats", "monitors", "peers", "client_port", "cluster_port", "monitor_port")
        given = {key: getattr(self._cluster, key) for key in (*keys, "user", "password_file", "stream_bytes")}
        settings = [f"cluster.{key}={value}" for key, value in given.items() if value]
        settings += ["sys.interval_s=0", f"registry.mode={self._registry_mode}"]
        peer = peers.holdfast("holdfast", "Holdfast", settings)
        self._launch(peer.command(self.folder, self.port), environment=peer.environment)

    def is_serving(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended by itself:\n{self.lines()[-2000:]}")
        return listens(self.pid, self.port)

    def stop(self) -> None:
        """In peace."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(_STOP_S)
            self.process = None


class HoldfastCluster:
    """Three nodes that serve as one broker, each with an embedded server, or on servers apart from them.

    Replicants are further nodes, on the embedded servers of the three.
    """

    def __init__(self, registry_mode: str = "linear", *, servers_apart: bool = False, replicants: int = 0) -> None:
        self.servers: Final = NatsServers() if servers_apart else None
        routes = [free_port() for _node in range(SIZE)]
        processes = () if self.servers is None else self.servers.processes
        nats = ",".join(f"nats://127.0.0.1:{process.client_port}" for process in processes)
        monitors = ",".join(f"127.0.0.1:{process.monitor_port}" for process in processes)
        self.nodes: Final = [HoldfastNode(number + 1, routes, registry_mode, nats, monitors) for number in range(SIZE)]
        addresses = [node.addresses for node in self.nodes]
        nats, monitors = (",".join(column) for column in zip(*addresses, strict=True))
        for number in range(SIZE, SIZE + replicants):
            self.nodes.append(HoldfastNode(number + 1, routes, registry_mode, nats, monitors))

    def __enter__(self) -> HoldfastCluster:
        try:
            if self.servers is not None:
                self.servers.start()
            for node in self.nodes:
                node.launch()
            asyncio.run(self._found())
            self.wait_until_serving()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes:
            node.close()
        if self.servers is not None:
            self.servers.close()

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.nodes]

    @property
    def pids(self) -> list[int]:
        """Of the nodes; embedded servers are their children."""
        return [node.pid for node in self.nodes]

    async def _found(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    await init_cluster(self.nodes[0].options(), SystemClock())
                except TransientError:
                    await asyncio.sleep(_LOOK_S)
                else:
                    return

    def wait_until_serving(self) -> None:
        """Until all nodes that run accept clients."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not all(node.is_serving() for node in self.nodes if node.process is not None):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the nodes do not serve within {DEADLINE_S:g} s")
            time.sleep(_LOOK_S)

    def status(self, node: int = 0) -> ClusterStatus:
        """By the servers of a node."""
        return asyncio.run(read_status(self.nodes[node].options(), SystemClock()))


class NatsMqttServer(Server):
    """A NATS server with MQTT whose streams have three copies, each record synced before it is acknowledged."""

    def __init__(self, number: int, routes: Sequence[int]) -> None:
        super().__init__(f"mqtt-{number}")
        self.port: Final = free_port()
        self._config: Final = {
            "server_name": f"bench-{number}",
            "host": "127.0.0.1",
            "port": -1,
            "cluster": {
                "name": "bench",
                "listen": f"127.0.0.1:{routes[number - 1]}",
                "routes": [f"nats-route://127.0.0.1:{port}" for port in routes],
            },
            "jetstream": {"store_dir": str(self.folder / "store"), "sync_interval": "always"},
            "mqtt": {
                "host": "127.0.0.1",
                "port": self.port,
                "max_ack_pending": peers.IN_FLIGHT,
                "stream_replicas": SIZE,
                "consumer_replicas": SIZE,
            },
        }

    def launch(self) -> None:
        path: Path = self.folder / "nats.conf"
        path.write_text(json.dumps(self._config), encoding="utf-8")
        self._launch([find_server(), "--config", str(path)])

    def is_serving(self) -> bool:
        return listens(self.pid, self.port)


class NatsMqttCluster:
    """Three of them."""

    def __init__(self) -> None:
        routes = [free_port() for _server in range(SIZE)]
        self._servers: Final = [NatsMqttServer(number + 1, routes) for number in range(SIZE)]

    def __enter__(self) -> NatsMqttCluster:
        for server in self._servers:
            server.launch()
        deadline_s = time.monotonic() + DEADLINE_S
        while not all(server.is_serving() for server in self._servers):
            if time.monotonic() > deadline_s:
                self.__exit__()
                raise RuntimeError(f"the NATS servers do not serve MQTT within {DEADLINE_S:g} s")
            time.sleep(_LOOK_S)
        return self

    def __exit__(self, *_unused: object) -> None:
        for server in self._servers:
            server.close()

    @property
    def ports(self) -> list[int]:
        return [server.port for server in self._servers]

    @property
    def pids(self) -> list[int]:
        return [server.pid for server in self._servers]
