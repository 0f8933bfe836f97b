"""Three NATS servers on loopback that form a cluster, configured as a node configures its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.ports import free_port
from bench.queues.processes import Server
from holdfast.cluster.nats.connection import NatsConnection, NatsOptions
from holdfast.cluster.nats.server import ServerOptions, find_server, server_config, server_name
from holdfast.cluster.nats.streams import LogStream, make_streams, stream_info
from holdfast.model.errors import TransientError

USER, PASSWORD = "node", "a-test_password.1"
SIZE: Final = 3


class NatsProcess(Server):
    """One server."""

    def __init__(self, number: int, ports: Sequence[int]) -> None:
        super().__init__(f"nats-{number}")
        self.client_port, self.monitor_port = free_port(), free_port()
        self.options: Final = ServerOptions(
            cluster="test",
            node=f"n{number}",
            folder=self.folder,
            user=USER,
            password=PASSWORD,
            client_port=self.client_port,
            cluster_port=ports[number],
            monitor_port=self.monitor_port,
            routes=tuple(f"127.0.0.1:{port}" for port in ports),
            store_bytes=4 << 30,
        )

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def start(self) -> None:
        """Start it if it does not run. From the main thread: a server ends with the thread that started it."""
        if self.process is None or self.process.poll() is not None:
            self.server_name = server_name(self.options)
            path = self.folder / "nats.conf"
            path.write_text(json.dumps(server_config(self.options, self.server_name)), encoding="utf-8")
            self._launch([find_server(), "--config", str(path)])


class NatsServers:
    """All servers: they are killed and started again together, or one by one."""

    def __init__(self) -> None:
        ports = [free_port() for _ in range(SIZE)]
        self.processes: Final = [NatsProcess(number, ports) for number in range(SIZE)]

    def start(self) -> None:
        """Start those that do not run, and wait until they make streams."""
        asyncio.run(self.started())

    async def started(self) -> None:
        """Start those that do not run, and wait until all of them have the newest of a stream."""
        for process in self.processes:
            process.start()
        async with self.connected() as connection:
            await make_streams(connection, [LogStream("test", "ready", 1 << 20)])

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    def close(self) -> None:
        for process in self.processes:
            process.close()

    def named(self, name: str) -> NatsProcess:
        return next(process for process in self.processes if process.server_name == name)

    # ---- connections

    def nats_options(self, first: int = 0, timeout_s: float = 2.0) -> NatsOptions:
        """Clients that begin with different servers are on different sides of a fault."""
        ports = [process.client_port for process in (*self.processes[first:], *self.processes[:first])]
        urls = tuple(f"nats://127.0.0.1:{port}" for port in ports)
        return NatsOptions(urls, USER, PASSWORD, timeout_s=timeout_s, in_order=True)

    @asynccontextmanager
    async def connected(self, first: int = 0, timeout_s: float = 2.0) -> AsyncIterator[NatsConnection]:
        async with asyncio.TaskGroup() as tasks:
            connection = await self._connect(tasks, first, timeout_s)
            try:
                yield connection
            finally:
                await connection.close()

    async def _connect(self, tasks: asyncio.TaskGroup, first: int, timeout_s: float) -> NatsConnection:
        options = self.nats_options(first, timeout_s)
        while True:
            try:
                return await NatsConnection.open(options, tasks)
            except TransientError:
                await asyncio.sleep(0.05)


async def leader_of(connection: NatsConnection, stream: LogStream) -> str:
    """The name of the server that leads a stream, as soon as there is one."""
    while True:
        try:
            leader = (await stream_info(connection, stream))["cluster"].get("leader")
        except TransientError:
            leader = None
        if leader:
            return str(leader)
        await asyncio.sleep(0.05)
