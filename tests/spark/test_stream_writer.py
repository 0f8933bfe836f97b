"""Rows of a stream reach a broker exactly once, whoever is killed, and whatever is repeated."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Subscription
from tests.spark.written_log import WrittenBroker, wait_for_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).with_name("writer_program.py")
ROWS = 6_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WrittenBroker]:
    running = WrittenBroker(tmp_path)
    yield running
    running.stop()


class Query:
    """A stream of files into a broker, batch by batch, with its checkpoint."""

    def __init__(self, spark: SparkSession, broker: WrittenBroker, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self.folder = folder
        (folder / "in").mkdir()

    def add(self, first: int, count: int) -> None:
        """Rows of one more batch."""
        lines = [json.dumps({"n": number}) for number in range(first, first + count)]
        (self.folder / "in" / f"{first}.json").write_text("\n".join(lines))

    def read(self) -> DataFrame:
        return self._spark.readStream.schema("n long").json(str(self.folder / "in"))

    def run(self, rows: DataFrame, **options: Any) -> None:
        chosen = {"broker": self._broker.url, "orderBy": "n", "checkpointLocation": str(self.folder / "checkpoint")}
        writer = rows.writeStream.format("holdfast").options(**{**chosen, **options})
        writer.trigger(availableNow=True).start().awaitTermination()

    def forget_commit(self, batch: int) -> None:
        """As if Spark had died when the batch was published, before it noted that."""
        (self.folder / "checkpoint" / "commits" / str(batch)).unlink()
        (self.folder / "checkpoint" / "commits" / f".{batch}.crc").unlink(missing_ok=True)


@pytest.fixture
def query(spark: SparkSession, broker: WrittenBroker, tmp_path: Path) -> Query:
    return Query(spark, broker, tmp_path)


def plain(frame: DataFrame, partitions: int = 2) -> DataFrame:
    return frame.repartition(partitions, "n").selectExpr("n", "'out' topic", "cast(n as string) payload")


def counts(frame: DataFrame) -> DataFrame:
    """How many rows there are of each hundred, when the next one has come."""
    timed = frame.selectExpr("timestamp_seconds(n) ts").withWatermark("ts", "0 seconds")
    return (
        timed.groupBy(window("ts", "100 seconds"))
        .count()
        .selectExpr("cast(window.start as long) n", "'counts' topic", "cast(count as string) payload")
    )


def test_a_batch_that_is_repeated_is_published_once(query: Query, broker: WrittenBroker, tmp_path: Path) -> None:
    summary = str(tmp_path / "summary.jsonl")
    query.add(0, 300)
    query.run(plain(query.read()), summaryFile=summary)
    query.add(300, 200)
    query.run(plain(query.read()), summaryFile=summary)
    query.forget_commit(1)
    query.run(plain(query.read()), summaryFile=summary)

    assert sorted(int(payload) for payload in broker.payloads()) == list(range(500))
    lines = [json.loads(line) for line in Path(summary).read_text().splitlines()]
    assert [(line["batch"], line["rows"]) for line in lines] == [(0, 300), (1, 200), (1, 200)]
    clients = {client for (client,) in broker.rows("client_id")}
    assert {client.rsplit("-", 1)[1] for client in clients} == {"0", "1"}
    assert len({client.rsplit("-", 1)[0] for client in clients}) == 1


def test_aggregates_are_published_once_for_each_batch(query: Query, broker: WrittenBroker) -> None:
    query.add(0, 250)
    query.run(counts(query.read()))
    assert broker.payloads() == [b"100", b"100"]
    query.add(250, 110)
    query.run(counts(query.read()))
    last = max(int(file.name) for file in (query.folder / "checkpoint" / "commits").glob("[0-9]*"))
    query.forget_commit(last)
    query.run(counts(query.read()))

    assert broker.payloads() == [b"100", b"100", b"100"]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_batch_that_is_planned_in_another_way_is_refused(
    query: Query, broker: WrittenBroker, partitions: int
) -> None:
    query.add(0, 300)
    query.run(plain(query.read()))
    query.forget_commit(0)
    with pytest.raises(PySparkException, match=r"batch 0 had .* when it was first written"):
        query.run(plain(query.read(), partitions))
    query.run(plain(query.read()))

    assert sorted(int(payload) for payload in broker.payloads()) == list(range(300))


def test_a_new_checkpoint_is_a_new_query(query: Query, broker: WrittenBroker) -> None:
    query.add(0, 10)
    query.run(plain(query.read()))
    query.run(plain(query.read()), checkpointLocation=str(query.folder / "another"))

    assert sorted(int(payload) for payload in broker.payloads()) == sorted([*range(10), *range(10)])


def test_what_cannot_be_exactly_once_is_refused_at_once(query: Query, broker: WrittenBroker) -> None:
    query.add(0, 10)
    rows = plain(query.read())
    for options, words in (
        ({"qos": "0"}, "takes QoS 1 or 2"),
        ({"orderBy": "m"}, "option orderBy: there is no column 'm'"),
    ):
        with pytest.raises(PySparkException, match=words):
            query.run(rows, **options)
    with pytest.raises(PySparkException, match="option orderBy: name the columns"):
        rows.writeStream.format("holdfast").options(
            broker=broker.url, checkpointLocation=str(query.folder / "none")
        ).trigger(availableNow=True).start().awaitTermination()
    assert broker.payloads() == []


async def publish(port: int) -> None:
    """What the query reads; and a subscriber with a session, whose messages wait for it."""
    subscriber = ConnectionOptions(port=port, client_id="reader", clean_start=False, session_expiry_s=3600)
    async with Client(subscriber) as client:
        await client.subscribe([Subscription(parse_filter(b"out/#"), 2)])
    async with Client(ConnectionOptions(port=port, client_id="device")) as client:
        for number in range(ROWS):
            await client.publish(f"in/{number % 7}", b"%d" % number, 1)
        await client.settle()


async def receive(port: int) -> list[bytes]:
    """All that the subscriber gets, up to a message that is sent now."""
    got: list[bytes] = []
    subscriber = ConnectionOptions(port=port, client_id="reader", clean_start=False, session_expiry_s=3600)
    async with Client(subscriber) as client, Client(ConnectionOptions(port=port)) as other:
        await other.publish("out/end", b"end", 1)
        while not got or got[-1] != b"end":
            message = await client.receive()
            client.acknowledge(message)
            got.append(message.payload)
    return got[:-1]


def start(broker: WrittenBroker, folder: Path, run: int, gates: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROGRAM), str(broker.folder / "data"), broker.url, str(folder), str(run), gates]
    with (folder / f"log-{run}").open("w") as log:
        return subprocess.Popen(command, start_new_session=True, text=True, stderr=log)


def published(broker: WrittenBroker) -> int:
    return sum(topic.startswith("out/") for (topic,) in broker.rows("topic"))


def test_each_row_is_there_once_though_workers_driver_and_broker_are_killed(
    broker: WrittenBroker, tmp_path: Path
) -> None:
    """In the middle of a batch: first its workers, then the driver with all its processes, then the broker."""
    asyncio.run(publish(broker.port))
    first = start(broker, tmp_path, 1, "500,1000")
    for note in wait_for_files(tmp_path, "reached-1-0-?", 2, first):
        os.kill(int(note.read_text()), signal.SIGKILL)
    wait_for_files(tmp_path, "reached-1-1-?", 2, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert 900 < published(broker) <= 2_000

    second = start(broker, tmp_path, 2, "1500")
    wait_for_files(tmp_path, "reached-2-0-?", 2, second)
    broker.kill()
    broker.start()
    (tmp_path / "open-2-0").touch()
    assert second.wait(600) == 0, (tmp_path / "log-2").read_text()

    right = sorted(b"%d" % number for number in range(ROWS))
    rows = broker.rows("topic", "payload")
    assert sorted(payload for topic, payload in rows if topic.startswith("out/")) == right
    assert sorted(asyncio.run(receive(broker.port))) == right
