"""`holdfast demo --cluster`: three nodes as one broker; with `--kill-it` one of them is killed again and again.

    publisher, subscriber ──▶ one port ──▶ any node that runs
                                           ↑ kill -9 of one, with its NATS server; it starts again and joins

Each connection goes to a node that is chosen by chance, so sessions move from node to node.
"""

import asyncio
import random
import secrets
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.cli.demo import LOG_TAIL, PROGRAM, REST_S, Demo
from holdfast.client.errors import LostError
from holdfast.cluster.administration import init_cluster
from holdfast.model.errors import TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.system_clock import SystemClock

_NODES: Final = 3
_LOOK_S: Final = 0.2
#: Seconds that three nodes may take from their start to the first connection.
_FOUND_S: Final = 60.0


class _DemoNode:
    """One node: its settings, its port, its process."""

    def __init__(self, folder: Path, number: int, ports: list[int], routes: list[int], password: Path) -> None:
        self.port, client_port, monitor_port = ports
        self.log: Final = folder / f"node-{number}.log"
        cluster = ClusterSettings(
            name="demo",
            node=number,
            vnodes=2,
            peers=",".join(f"127.0.0.1:{port}" for port in routes),
            client_port=client_port,
            cluster_port=routes[number - 1],
            monitor_port=monitor_port,
            password_file=password,
            stream_bytes=256 << 20,
        )
        data = folder / f"node-{number}"
        self.settings: Final = Settings(cluster=cluster, storage=Storage(data=data))
        keys = ("name", "node", "vnodes", "peers", "client_port", "cluster_port", "monitor_port", "password_file")
        values = {f"cluster.{key}": getattr(cluster, key) for key in (*keys, "stream_bytes")}
        values["console.enabled"] = "false"
        sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        self._command: Final = ("serve", "--port", str(self.port), "--data", str(data), *sets)
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", PROGRAM, *self._command), stdout=log, stderr=log, start_new_session=True
            )

    async def end(self, number: int) -> None:
        process, self.process = self.process, None
        if process is not None:
            if process.returncode is None:
                process.send_signal(number)
            async with asyncio.timeout(REST_S):
                await process.wait()


class ClusterDemo(Demo):
    """Three nodes behind one port."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        password = folder / "cluster.password"
        password.write_text(secrets.token_hex(16) + "\n")
        ports = _free_ports(4 * _NODES)
        routes, rest = ports[:_NODES], ports[_NODES:]
        self._nodes: Final = [
            _DemoNode(folder, number + 1, rest[3 * number : 3 * number + 3], routes, password)
            for number in range(_NODES)
        ]
        self._proxy: asyncio.Server | None = None
        self._dice: Final = random.Random()
        self._joined: Final[set[asyncio.Task[None]]] = set()

    def describe(self) -> str:
        return f"A cluster of {_NODES} nodes, on 127.0.0.1:{self.port} through a port that leads to any of them"

    async def _start(self) -> None:
        for node in self._nodes:
            if node.process is None:
                await node.start()
        if self._proxy is None:
            self.state = "the nodes start, and the cluster is founded"
            await self._found()
            self._proxy = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.state = f"{_NODES} nodes run"

    async def _found(self) -> None:
        async with asyncio.timeout(_FOUND_S):
            while True:
                self._check_nodes()
                try:
                    await init_cluster(cluster_options(self._nodes[0].settings), SystemClock())
                except TransientError:
                    await asyncio.sleep(_LOOK_S)
                else:
                    return

    async def _end(self, number: int) -> None:
        if number == signal.SIGKILL:
            node = self._dice.choice(self._nodes)
            await node.end(number)
            self.state = f"node {self._nodes.index(node) + 1} was killed"
            return
        if self._proxy is not None:
            self._proxy.close()
        for task in self._joined:
            task.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)
        await asyncio.gather(*[node.end(number) for node in self._nodes])

    async def _wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Wait for an event, at most so long; LostError if a node ends by itself meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not event.is_set():
                    self._check_nodes()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(event.wait(), _LOOK_S)

    def _check_nodes(self) -> None:
        for number, node in enumerate(self._nodes, 1):
            if node.process is not None and node.process.returncode is not None:
                log = node.log.read_text(encoding="utf-8", errors="replace")
                raise LostError(
                    f"node {number} ended by itself, with status {node.process.returncode}:\n{log[-LOG_TAIL:]}"
                )

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports = [node.port for node in self._nodes]
        task = asyncio.create_task(join_to_any(ports, self._dice, reader, writer))
        self._joined.add(task)
        task.add_done_callback(self._joined.discard)


async def join_to_any(
    ports: list[int], dice: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Join a connection to one of these ports on loopback, chosen by chance among those that answer."""
    writers = [writer]
    try:
        for port in dice.sample(ports, len(ports)):
            try:
                there, back = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            writers.append(back)
            await asyncio.gather(_pipe(reader, back), _pipe(there, writer))
            break
    finally:
        for one in writers:
            one.close()
        for one in writers:
            with suppress(OSError):
                await one.wait_closed()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, all different."""
    probes = [socket.socket() for _port in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
