"""Three nodes as processes, each with a NATS server of its own, behind one port that leads to any of them.

To the crash harness (`tests/crash/broker_run.py`) they are one broker: a kill takes one node, a start brings it back.
"""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.ports import free_port
from holdfast.cli.demo_cluster import join_to_any
from holdfast.cluster.administration import init_cluster
from holdfast.cluster.node_cluster import ClusterOptions
from holdfast.model.errors import TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.system_clock import SystemClock
from tests.crash.broker_process import DEADLINE_S, BrokerProcess

NODES = 3


class ClusterProcesses(BrokerProcess):
    """A `BrokerProcess` by shape."""

    def __init__(
        self,
        folder: Path,
        dice: random.Random,
        vnodes: int = 2,
        assignments: tuple[str, ...] = (),
        folders: dict[int, Path] | None = None,
        tls: Mapping[str, Path] | None = None,
    ) -> None:
        """`assignments` are further settings of every node; `folders` data folders of some, by number; `tls` the
        settings of `[cluster]` that name certificates."""
        certificates: dict[str, Any] = dict(tls or {})
        self.port = free_port()
        self.starts = 0
        self._dice = dice
        password = folder / "cluster.password"
        password.write_text("a-secret-of-nodes\n")
        routes = [free_port() for _node in range(NODES)]
        self.settings: list[Settings] = []
        self.nodes: list[BrokerProcess] = []
        for at in range(NODES):
            cluster = ClusterSettings(
                name="crash",
                node=at + 1,
                vnodes=vnodes,
                peers=",".join(f"127.0.0.1:{port}" for port in routes),
                client_port=free_port(),
                cluster_port=routes[at],
                monitor_port=free_port(),
                password_file=password,
                stream_bytes=256 << 20,
                **certificates,
            )
            data = (folders or {}).get(at + 1, folder / f"node-{at + 1}")
            self.settings.append(Settings(cluster=cluster, storage=Storage(data=data)))
            keys = ("name", "node", "vnodes", "peers", "client_port", "cluster_port", "monitor_port", "password_file")
            own = [f"cluster.{key}={getattr(cluster, key)}" for key in (*keys, "stream_bytes", *certificates)]
            given = (*own, "sys.interval_s=0", *assignments)
            self.nodes.append(BrokerProcess(data, folder / f"node-{at + 1}.log", given))
        self._proxy: asyncio.Server | None = None
        self._joined: set[asyncio.Task[None]] = set()

    def options(self) -> ClusterOptions:
        """The cluster, as a command reaches it."""
        return cluster_options(self.settings[0])

    async def start(self) -> None:
        """Start the nodes that do not run; the first time, found the cluster."""
        self.starts += 1
        for node in self.nodes:
            if not node.alive():
                await node.start()
        if self._proxy is None:
            await self._found()
            for node in self.nodes:
                await node.listening()
            self._proxy = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _found(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    await init_cluster(cluster_options(self.settings[0]), SystemClock())
                except TransientError:
                    await asyncio.sleep(0.2)
                else:
                    return

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(join_to_any([node.port for node in self.nodes], self._dice, reader, writer))
        self._joined.add(task)
        task.add_done_callback(self._joined.discard)

    def alive(self) -> bool:
        return any(node.alive() for node in self.nodes)

    async def kill(self, *, dead_or_alive: bool = False) -> None:
        """kill -9 of one node, whose server ends with it."""
        node = self._dice.choice(self.nodes)
        await node.kill(dead_or_alive=dead_or_alive)

    def folders(self) -> list[Path]:
        """The data folders, by node."""
        return [settings.storage.data for settings in self.settings]

    async def all_listening(self) -> None:
        for node in self.nodes:
            await node.listening()

    async def stop(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
        for task in self._joined:
            task.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)
        await asyncio.gather(*[node.stop() for node in self.nodes if node.alive()])

    def log_text(self) -> str:
        return "\n".join(f"node {at + 1}: {node.log_text()[-2000:]}" for at, node in enumerate(self.nodes))

    def complaints(self) -> list[str]:
        return [line for node in self.nodes for line in node.complaints()]
