"""A network to be harmed: a TCP proxy in front of every client port and every route port of the servers.

    broker 1 ──▶ proxy of (broker 1, server A) ──▶ client port of A
    server B ──▶ proxy of A's routes ──▶ route port of A         B is known by what it says first

During a cut nothing comes through; what was sent arrives when it has ended. It is silent, as if packets were lost, or
breaks the connections that there are.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress

from bench.cluster.nats_servers import NatsProcess
from bench.ports import free_port
from holdfast.cluster.nats.server import find_server, server_config, server_name
from tests.cluster.fault_cluster import NODES, FaultCluster
from tests.cluster.nats_world import NatsWorld

#: The names of the servers of the tests: see `NatsProcess`.
_SERVER = re.compile(rb'"n(\d)-[0-9a-f]{8}"')
_CHUNK = 1 << 16


class _Joined:
    """A connection through a proxy."""

    def __init__(self, peer: int) -> None:
        #: Who has made it: the index of a server, or -1.
        self.peer = peer
        self.writers: list[asyncio.StreamWriter] = []

    def break_off(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class TcpProxy:
    """One port in front of another one. `is_cut` tells whether a server, or anybody (-1), is cut off now."""

    def __init__(self, target: int, is_cut: Callable[[int], bool]) -> None:
        self.port = free_port()
        self._target = target
        self._is_cut = is_cut
        #: Changed whenever a cut begins or ends.
        self._changed = asyncio.Condition()
        self._joined: set[_Joined] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def changed(self, *, silent: bool) -> None:
        """A cut has begun or ended."""
        if not silent:
            for joined in list(self._joined):
                if self._is_cut(joined.peer):
                    joined.break_off()
        async with self._changed:
            self._changed.notify_all()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        joined = _Joined(-1)
        joined.writers.append(writer)
        self._joined.add(joined)
        try:
            with suppress(OSError):
                behind, there = await asyncio.open_connection("127.0.0.1", self._target)
                joined.writers.append(there)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._pump(joined, reader, there, is_first=True))
                    tasks.create_task(self._pump(joined, behind, writer, is_first=False))
        finally:
            self._joined.discard(joined)
            joined.break_off()

    async def _pump(
        self, joined: _Joined, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_first: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if is_first and joined.peer < 0:
                    named = _SERVER.search(data)
                    joined.peer = -1 if named is None else int(named[1])
                if self._is_cut(joined.peer):
                    async with self._changed:
                        await self._changed.wait_for(lambda: not self._is_cut(joined.peer))
                writer.write(data)
                await writer.drain()
        joined.break_off()


class _RoutedProcess(NatsProcess):
    """A server that other servers reach by a proxy."""

    advertised: list[int]

    def start(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.server_name = server_name(self.options)
            config = server_config(self.options, self.server_name)
            routes = config["cluster"]
            assert isinstance(routes, dict)
            number = int(self.name[-1])
            routes["advertise"] = f"127.0.0.1:{self.advertised[number]}"
            user = f"{self.options.user}:{self.options.password}"
            routes["routes"] = [f"nats://{user}@127.0.0.1:{port}" for port in self.advertised]
            path = self.folder / "nats.conf"
            path.write_text(json.dumps(config), encoding="utf-8")
            self._launch([find_server(), "--config", str(path)])


class CutCluster(FaultCluster):
    """A cluster whose brokers and servers can be cut off."""

    def _new_servers(self) -> NatsWorld:
        servers = NatsWorld()
        ports = [free_port() for _server in range(NODES)]
        servers.processes[:] = [_RoutedProcess(number, ports) for number in range(NODES)]
        self._cut_brokers: set[int] = set()
        self._cut_servers: set[int] = set()
        self._routes = [
            TcpProxy(process.options.cluster_port, self._route_rule(number))
            for number, process in enumerate(servers.processes)
        ]
        for process in servers.processes:
            assert isinstance(process, _RoutedProcess)
            process.advertised = [proxy.port for proxy in self._routes]
        self._clients = {
            number: [TcpProxy(process.client_port, self._client_rule(number)) for process in servers.processes]
            for number in range(1, NODES + 1)
        }
        return servers

    def _route_rule(self, server: int) -> Callable[[int], bool]:
        return lambda peer: server in self._cut_servers or peer in self._cut_servers

    def _client_rule(self, broker: int) -> Callable[[int], bool]:
        return lambda _peer: broker in self._cut_brokers

    def _urls(self, number: int) -> str:
        return ",".join(f"nats://127.0.0.1:{proxy.port}" for proxy in self._clients[number])

    def _proxies(self) -> list[TcpProxy]:
        return [*self._routes, *(proxy for proxies in self._clients.values() for proxy in proxies)]

    async def start(self) -> None:
        for proxy in self._proxies():
            await proxy.start()
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        for proxy in self._proxies():
            await proxy.close()

    async def cut(self, *, broker: int = 0, server: str = "", silent: bool = True) -> None:
        """Cut a broker off from all servers, or a server off from the other servers."""
        if broker:
            self._cut_brokers.add(broker)
        if server:
            self._cut_servers.add(self.servers.processes.index(self.servers.named(server)))
        for proxy in self._proxies():
            await proxy.changed(silent=silent)

    async def heal(self) -> None:
        self._cut_brokers.clear()
        self._cut_servers.clear()
        for proxy in self._proxies():
            await proxy.changed(silent=True)
