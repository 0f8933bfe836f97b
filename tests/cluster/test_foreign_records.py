"""What bad input gets: records that are not ours, or that no node can read, on the subjects of real nodes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cluster.administration import read_status
from holdfast.cluster.nats_connection import NatsConnection
from holdfast.node.cluster_options import cluster_options
from holdfast.node.system_clock import SystemClock
from holdfast.records.cluster.items import Tick
from holdfast.records.cluster.record import LEVEL, ClusterRecord, encode_record
from tests.cluster.cluster_processes import ClusterProcesses
from tests.cluster.test_node_processes import PATIENCE_S, client, with_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def events(cluster: ClusterProcesses, node: int) -> list[dict[str, Any]]:
    lines = cluster.nodes[node].log_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_a_foreign_record_is_passed_over_and_one_that_cannot_be_read_stops_the_vnode(tmp_path: Path) -> None:
    """A11. Of ours with an unknown level: the applier stops, the node is not ready, `status` says where and why."""

    async def story(cluster: ClusterProcesses) -> None:
        options = cluster_options(cluster.settings[0])
        clock = SystemClock()

        async def until(holds: Any) -> Any:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    status = await read_status(options, clock)
                    if holds(status):
                        return status
                    await asyncio.sleep(0.2)

        async with asyncio.TaskGroup() as tasks:
            connection = await NatsConnection.open(options.nats, tasks)
            subject = options.streams()[1].subject
            await connection.request(subject, b"not ours")
            await connection.request(subject, b"nor this")
            status = await until(
                lambda found: [one.counts.get("records/foreign") for one in found.members] == [2, 2, 2]
            )
            assert status.problems() == []
            async with client(cluster, 1, "writer") as writer:
                await writer.publish("t", b"still accepted", 1)
                await writer.settle()
            cluster_id = bytes.fromhex(status.cluster_id)
            later = ClusterRecord(cluster_id, 1, 1, 1, clock.wall_us(), 0, [], [Tick()], level=LEVEL + 1)
            answer = json.loads(await connection.request(subject, encode_record(later)))
            status = await until(lambda found: not any(one.ready for one in found.members))
            for problem in status.problems():
                assert f"record {answer['seq']} cannot be applied" in problem
                assert f"level {LEVEL + 1}" in problem
            await connection.close()
        for node in range(3):
            passed = [line for line in events(cluster, node) if "passed over" in line["event"]]
            assert [line["log"] for line in passed] == ["vnode 0"], "one warning"
            assert [line["reason"] for line in events(cluster, node) if "applied no further" in line["event"]] == [
                "unreadable"
            ]

    complaints = with_cluster(tmp_path, story)
    assert all("applied no further" in line for line in complaints)
