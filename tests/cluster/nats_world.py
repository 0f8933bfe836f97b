"""Three NATS servers that form a cluster, to be killed, paused and started again, and logs on them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

from bench.ports import free_port
from bench.queues.processes import Server
from holdfast.cluster.nats_connection import NatsConnection, NatsOptions
from holdfast.cluster.nats_log import NatsOrderedLog
from holdfast.cluster.nats_server import ServerOptions, find_server, server_config, server_name
from holdfast.cluster.nats_streams import LogStream, describe_absence, make_streams, stream_info
from holdfast.model.clock import Clock
from holdfast.model.errors import TransientError
from holdfast.node.system_clock import SystemClock

USER, PASSWORD = "node", "a-test_password.1"
SIZE: Final = 3


class NatsProcess(Server):
    """One server, configured as a node configures its own."""

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
    """The servers, and what is opened on them."""

    def __init__(self) -> None:
        ports = [free_port() for _ in range(SIZE)]
        self.processes: Final = [NatsProcess(number, ports) for number in range(SIZE)]
        self._numbers: Final = count(1)

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

    # ---- stores, while no server runs

    def save_stores(self, folder: Path) -> None:
        for process in self.processes:
            shutil.copytree(process.store, folder / process.name)

    def restore_stores(self, folder: Path) -> None:
        for process in self.processes:
            shutil.rmtree(process.store)
            shutil.copytree(folder / process.name, process.store)

    # ---- logs

    def new_stream(self, limit_bytes: int = 16 << 20) -> LogStream:
        """A stream that no other test has. Two live at once in few tests, so their bytes are small."""
        return LogStream("test", f"log-{next(self._numbers)}", limit_bytes)

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

    @asynccontextmanager
    async def opened(
        self, stream: LogStream, *, max_bytes: int = 1 << 20, first: int = 0, timeout_s: float = 2.0
    ) -> AsyncIterator[NatsOrderedLog]:
        """A log, whose stream is made if it is missing."""
        async with self.connected(first, timeout_s) as connection:
            await make_streams(connection, [stream])
            async with on_connection(connection, stream, max_bytes=max_bytes) as log:
                yield log


@asynccontextmanager
async def on_connection(
    connection: NatsConnection,
    stream: LogStream,
    clock: Clock | None = None,
    *,
    max_bytes: int = 1 << 20,
    leads: bool = False,
) -> AsyncIterator[NatsOrderedLog]:
    """A log whose stream exists."""
    async with asyncio.TaskGroup() as tasks:
        log = await NatsOrderedLog.open(
            connection, stream, tasks, clock or SystemClock(), max_bytes=max_bytes, is_leader=lambda: leads
        )
        try:
            yield log
        finally:
            await log.close()


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


async def until_current(connection: NatsConnection, stream: LogStream) -> None:
    """Wait until all servers of a stream are there and have all of it."""
    while True:
        try:
            if not describe_absence(stream, await stream_info(connection, stream)):
                return
        except TransientError:
            pass
        await asyncio.sleep(0.05)
