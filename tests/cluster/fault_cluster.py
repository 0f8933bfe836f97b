"""A cluster to be harmed: three NATS servers and three brokers, each a process of its own, each to be killed by itself.

The brokers use servers that they did not start, so that a broker can die without its server, and a server without its
broker. A failpoint is armed by a file of its broker (`holdfast/cluster/failpoints.py`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

from bench.cluster.nats_servers import PASSWORD, USER
from holdfast.cluster.administration import init_cluster
from holdfast.cluster.failpoints import FILE
from holdfast.cluster.nats.streams import log_streams, stream_info
from holdfast.cluster.node_cluster import ClusterOptions
from holdfast.model.errors import TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage, ZoneSettings
from holdfast.node.system_clock import SystemClock
from tests.cluster.nats_world import NatsWorld, until_current
from tests.crash.broker_process import DEADLINE_S, BrokerProcess

NODES = 3
VNODES = 2
NAME = "faults"
_LOOK_S = 0.02
#: A zone whose generations begin and go within seconds. Nobody subscribes to it.
ROTATING = ZoneSettings(filter="rotate/#", generation_s=1, retention_s=1)


class FaultNode(BrokerProcess):
    """One broker."""

    def __init__(
        self, folder: Path, number: int, nats: str, monitors: str, password: Path, extra: tuple[str, ...]
    ) -> None:
        """`nats` and `monitors` are the addresses of the servers."""
        self.number = number
        cluster = ClusterSettings(
            name=NAME,
            node=number,
            vnodes=VNODES,
            nats=nats,
            monitors=monitors,
            user=USER,
            password_file=password,
            stream_bytes=64 << 20,
        )
        self.data = folder / f"node-{number}"
        zones = {"rotate": ROTATING}
        self.settings = Settings(cluster=cluster, storage=Storage(data=self.data), zones=zones)
        keys = ("name", "node", "vnodes", "nats", "monitors", "user", "password_file", "stream_bytes")
        own = [f"cluster.{key}={getattr(cluster, key)}" for key in keys]
        zone = [f"zones.rotate.{key}={getattr(ROTATING, key)}" for key in ("filter", "generation_s", "retention_s")]
        super().__init__(self.data, folder / f"node-{number}.log", (*own, *zone, "sys.interval_s=0", *extra))
        self._points = folder / f"node-{number}.points"
        self._environment[FILE] = str(self._points)

    # ---- failpoints

    def arm(self, action: str, point: str) -> None:
        """`kill` or `stop` this broker at the next time that it comes to a point."""
        written = self._points.with_suffix(".new")
        written.write_text(f"{action} {point}", encoding="utf-8")
        written.replace(self._points)

    def disarm(self) -> None:
        self._points.unlink(missing_ok=True)

    def has_reached(self) -> bool:
        """Whether it has come to the point for which it was armed, and is dead or stopped by now."""
        return not self._points.exists() and (not self.alive() or self.is_stopped())

    def given(self, key: str) -> str:
        """The setting that it is started with; empty for the default."""
        return next((word.partition("=")[2] for word in self._command if word.startswith(f"{key}=")), "")

    def change(self, key: str, value: str) -> None:
        """Start with another setting from the next time on."""
        words = [f"{key}={value}" if word.startswith(f"{key}=") else word for word in self._command]
        self._command = tuple(words) if self.given(key) else (*words, "--set", f"{key}={value}")

    # ---- signals

    def is_stopped(self) -> bool:
        stat = Path(f"/proc/{self.pid()}/stat")
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "T"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def stop_now(self) -> None:
        os.kill(self.pid(), signal.SIGSTOP)

    def go_on(self) -> None:
        if self.alive():
            os.kill(self.pid(), signal.SIGCONT)

    def check_was_killed(self) -> None:
        """AssertionError: it ended by itself."""
        assert self._process is None, f"node {self.number} ended by itself:\n{self.log_text()[-3000:]}"

    async def reap(self) -> None:
        """Take note of a death by itself."""
        await self.end(signal.SIGKILL)


class FaultCluster:
    """Servers and brokers. `extra` are further settings of every broker."""

    def __init__(self, folder: Path, extra: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.servers = self._new_servers()
        self._password = folder / "cluster.password"
        self._password.write_text(f"{PASSWORD}\n", encoding="utf-8")
        monitors = ",".join(f"127.0.0.1:{process.monitor_port}" for process in self.servers.processes)
        self.nodes = [
            FaultNode(folder, number, self._urls(number), monitors, self._password, extra)
            for number in range(1, NODES + 1)
        ]
        self.streams = log_streams(NAME, VNODES, 64 << 20)

    def _new_servers(self) -> NatsWorld:
        return NatsWorld()

    def _urls(self, number: int) -> str:
        """The servers as a node reaches them."""
        return ",".join(f"nats://127.0.0.1:{process.client_port}" for process in self.servers.processes)

    def options(self) -> ClusterOptions:
        return cluster_options(self.nodes[0].settings)

    async def start(self) -> None:
        """Start everything, and found the cluster."""
        for node in self.nodes:
            await node.start()
        await self.servers.started()
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    await init_cluster(self.options(), SystemClock())
                except TransientError:
                    await asyncio.sleep(_LOOK_S)
                else:
                    break
        await self.all_listening()

    async def all_listening(self) -> None:
        for node in self.nodes:
            await node.listening()

    async def stop(self) -> None:
        for node in self.nodes:
            node.go_on()
            if node.alive():
                await node.kill()
        self.servers.close()

    # ---- harm

    async def kill_brokers(self, numbers: list[int]) -> None:
        """kill -9, all in one instant; those that died by themselves are dead enough."""
        for number in numbers:
            node = self.nodes[number - 1]
            if node.alive():
                os.kill(node.pid(), signal.SIGKILL)
        for number in numbers:
            await self.nodes[number - 1].reap()

    async def wipe(self, number: int) -> None:
        """kill -9 of a broker, which loses its folder and starts again."""
        await self.kill_brokers([number])
        shutil.rmtree(self.nodes[number - 1].data)
        await self.nodes[number - 1].start()

    def kill_servers(self, names: list[str]) -> None:
        processes = [self.servers.named(name) for name in names]
        for process in processes:
            assert process.process is not None
            process.process.kill()
        for process in processes:
            process.kill()

    async def start_missing(self) -> None:
        """Start what does not run. Servers need no wait: brokers try until they are there."""
        for process in self.servers.processes:
            process.start()
        for node in self.nodes:
            if node.alive():
                node.go_on()
            else:
                node.check_was_killed()
                await node.start()

    # ---- who is who

    async def stream_servers(self, vnode: int) -> tuple[str, list[str]]:
        """The server that leads the log of a vnode, and its followers, when all of them have all of it."""
        stream = self.streams[vnode + 1]
        async with asyncio.timeout(DEADLINE_S), self.servers.connected() as connection:
            await until_current(connection, stream)
            leader = str((await stream_info(connection, stream))["cluster"]["leader"])
        return leader, [process.server_name for process in self.servers.processes if process.server_name != leader]

    async def all_current(self) -> None:
        """Wait until every log is on all servers."""
        async with asyncio.timeout(DEADLINE_S), self.servers.connected() as connection:
            for stream in self.streams:
                await until_current(connection, stream)
