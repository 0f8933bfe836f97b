"""What bad input gets: records that are not ours, or that no node can read, on the subjects of real nodes."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError
from holdfast.cluster.administration import read_status
from holdfast.cluster.membership.cluster_status import ClusterStatus
from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.nats.streams import make_streams
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.system_clock import SystemClock
from holdfast.records.cluster.items import Tick
from holdfast.records.cluster.record import LEVEL, ClusterRecord, encode_record
from holdfast.records.cluster.vnode_keys import vnode_of
from tests.cluster.cluster_processes import ClusterProcesses
from tests.cluster.test_node_processes import PATIENCE_S, client, with_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def events(cluster: ClusterProcesses, node: int) -> list[dict[str, Any]]:
    lines = cluster.nodes[node].log_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


async def until(cluster: ClusterProcesses, holds: Callable[[ClusterStatus], bool]) -> ClusterStatus:
    """The status, once something holds."""
    options = cluster_options(cluster.settings[0])
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status = await read_status(options, SystemClock())
            if holds(status):
                return status
            await asyncio.sleep(0.2)


def said_by_all(status: ClusterStatus, why: str) -> bool:
    """A node that has stopped is not ready at once, and says why with its next beat."""
    return [why in problem for problem in status.problems()] == [True] * len(status.members)


def test_a_foreign_record_is_passed_over_and_one_that_cannot_be_read_stops_the_vnode(tmp_path: Path) -> None:
    """A11. Of ours with an unknown level: the applier stops, the node is not ready, `status` says where and why."""

    async def story(cluster: ClusterProcesses) -> None:
        options = cluster_options(cluster.settings[0])
        clock = SystemClock()

        async with asyncio.TaskGroup() as tasks:
            connection = await NatsConnection.open(options.nats, tasks)
            subject = options.streams()[1].subject
            await connection.request(subject, b"not ours")
            await connection.request(subject, b"nor this")
            status = await until(
                cluster, lambda found: [one.counts.get("records/foreign") for one in found.members] == [2, 2, 2]
            )
            assert status.problems() == []
            async with client(cluster, 1, "writer") as writer:
                await writer.publish("t", b"still accepted", 1)
                await writer.settle()
            cluster_id = bytes.fromhex(status.cluster_id)
            later = ClusterRecord(cluster_id, 1, 1, 1, clock.wall_us(), 0, [], [Tick()], level=LEVEL + 1)
            answer = json.loads(await connection.request(subject, encode_record(later)))
            why = f"record {answer['seq']} cannot be applied"
            status = await until(cluster, lambda found: said_by_all(found, why))
            assert not any(member.ready for member in status.members)
            assert all(f"level {LEVEL + 1}" in problem for problem in status.problems())
            await connection.close()
        for node in range(3):
            passed = [line for line in events(cluster, node) if "passed over" in line["event"]]
            assert [line["log"] for line in passed] == ["vnode 0"], "one warning"
            assert [line["reason"] for line in events(cluster, node) if "applied no further" in line["event"]] == [
                "unreadable"
            ]

    complaints = with_cluster(tmp_path, story)
    assert all("applied no further" in line for line in complaints)


async def accepts(publisher: Client) -> bool:
    """Whether a client is served, and its message acknowledged."""
    try:
        async with publisher:
            await publisher.publish("t", b"the other vnode goes on", 1)
            await publisher.settle()
    except LostError:
        return False
    return True


def test_a_log_that_was_made_again_stops_its_vnode_and_nothing_is_acknowledged_there(tmp_path: Path) -> None:
    """A10, A19: what was applied is above the end of the log. `status` says so, and what to read."""

    async def story(cluster: ClusterProcesses) -> None:
        options = cluster_options(cluster.settings[0])
        stream = options.streams()[1]
        async with asyncio.TaskGroup() as tasks:
            connection = await NatsConnection.open(options.nats, tasks)
            await connection.ask(f"STREAM.DELETE.{stream.name}")
            await make_streams(connection, [stream])
            await connection.close()
        why = "vnode 0 is applied no further: applied here is"
        status = await until(cluster, lambda found: said_by_all(found, why))
        assert not any(member.ready for member in status.members)
        assert all("docs/runbook.md" in problem for problem in status.problems())
        ids = (f"c{number}" for number in range(99))
        stopped, other = (next(one for one in ids if vnode_of(one, 2) == vnode) for vnode in (0, 1))
        with pytest.raises(LostError, match="0x88"):
            await client(cluster, 0, stopped).__aenter__()
        async with asyncio.timeout(PATIENCE_S):
            while not await accepts(client(cluster, 0, other)):
                pass  # as long as this node takes another one for ready

    complaints = with_cluster(tmp_path, story)
    assert all("applied no further" in line for line in complaints)
