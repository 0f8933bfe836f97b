"""Groups of shared subscriptions over real servers and databases: members at three nodes, one of which is killed."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from holdfast.client.asyncio_client import Client
from holdfast.client.errors import RefusedError
from tests.cluster.cluster_processes import ClusterProcesses
from tests.cluster.test_node_processes import PATIENCE_S, client, with_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FILTER = "$share/workers/jobs/#"
JOBS = [b"%d" % number for number in range(80)]


async def subscribe(member: Client, qos: int) -> None:
    """Until there is a leader that answers: it is elected with the first seconds of a cluster."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await member.subscribe(FILTER, qos=qos)
            except RefusedError:
                continue
            return


async def work(member: Client, qos: int, done: "asyncio.Queue[bytes]", subscribed: asyncio.Event) -> None:
    """A member from its connection to its end. It has a task of its own, which ends with the connection."""
    async with member:
        await subscribe(member, qos)
        subscribed.set()
        while True:
            message = await member.receive()
            member.acknowledge(message)
            done.put_nowait(message.payload)


@pytest.mark.parametrize("qos", [1, 2])
def test_each_message_reaches_one_member_though_a_node_is_killed(tmp_path: Path, qos: int) -> None:
    """A14, L15: what the members of the killed node had goes to others with QoS 1, and comes back to it with QoS 2."""
    found: list[bytes] = []

    async def story(cluster: ClusterProcesses) -> None:
        done: asyncio.Queue[bytes] = asyncio.Queue()
        tasks: list[asyncio.Task[None]] = []

        async def join(node: int, name: str) -> None:
            """A connection may be refused while a log has no leader: again, then."""
            subscribed = asyncio.Event()
            waiting = asyncio.create_task(subscribed.wait())
            async with asyncio.timeout(PATIENCE_S):
                while not subscribed.is_set():
                    member = client(cluster, node, name, kept=True)
                    tasks.append(asyncio.create_task(work(member, qos, done, subscribed)))
                    await asyncio.wait([waiting, tasks[-1]], return_when=asyncio.FIRST_COMPLETED)

        async def finish(jobs: list[bytes]) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not set(jobs) <= set(found):
                    found.append(await done.get())

        try:
            async with client(cluster, 0, "writer") as writer:
                for node in (0, 1, 2):
                    await join(node, f"member-{node}")
                for number, job in enumerate(JOBS[:60]):
                    await writer.publish(f"jobs/{number}", job, qos)
                    if number == 30:
                        await cluster.nodes[2].kill()
                await join(0, "member-2")
                await finish(JOBS[:60])
                # What is repeated now comes before these.
                for number, job in enumerate(JOBS[60:]):
                    await writer.publish(f"jobs/{number}", job, qos)
                await finish(JOBS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    with_cluster(tmp_path, story)
    assert set(found) == set(JOBS)
    if qos == 2:
        assert Counter(found) == Counter(JOBS)
