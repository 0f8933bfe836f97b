"""Streams of Spark over the history of a real broker, with checkpoints, restarts and rotations."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.publishers import Broker, Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=["path", "endpoint"])
def rotating(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker that begins a generation whenever there are some messages."""
    toml = "shards = 2\ngeneration_bytes = 1048576\n"
    with Broker(tmp_path, toml, served=request.param == "endpoint") as broker:
        yield broker


class Sink:
    """What came out of a stream: files of each batch, in a folder."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path, **options: str) -> None:
        self._spark = spark
        self._broker = broker
        self.folder = folder
        self._options = options

    def run(self, **options: str) -> StreamingQuery:
        """Take all that is there now, from where the last run ended."""
        query = self._writer(self._frame(**options)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def start(self) -> StreamingQuery:
        """Follow the log until it is stopped."""
        return self._writer(self._frame()).trigger(processingTime="100 milliseconds").start()

    def payloads(self) -> list[bytes]:
        rows = self._spark.read.parquet(str(self.folder / "out")).select("payload").collect()
        return sorted(bytes(row.payload) for row in rows)

    def sizes(self, query: StreamingQuery) -> list[int]:
        return [int(progress.numInputRows) for progress in query.recentProgress if progress.numInputRows]

    def _frame(self, **options: str) -> DataFrame:
        reader = self._spark.readStream.format("holdfast").options(**self._broker.where)
        return reader.options(columns="topic,payload,serial", **{**self._options, **options}).load()

    def _writer(self, frame: DataFrame) -> DataStreamWriter:
        checkpoint = str(self.folder / "checkpoint")
        return (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", checkpoint)
            .option("path", str(self.folder / "out"))
        )


def numbered(first: int, count: int, size: int = 0) -> Iterator[Sent]:
    for number in range(first, first + count):
        yield Sent(f"plant/{number % 7}/temp", b"%d " % number + b"x" * size, client_id=f"device-{number // 50 % 4}")


def test_a_stream_goes_on_where_its_checkpoint_ended(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    sink = Sink(spark, broker, tmp_path / "sink")
    broker.publish(numbered(0, 100))
    sink.run()
    assert sink.payloads() == sorted(message.payload for message in broker.sent)

    broker.publish(numbered(100, 50))
    broker.stop()
    broker.start()
    broker.publish(numbered(150, 50))
    sink.run()

    assert sink.payloads() == sorted(message.payload for message in broker.sent)


def test_a_limit_cuts_what_is_available_into_batches(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    sink = Sink(spark, broker, tmp_path / "sink", maxRowsPerTrigger="30")
    broker.publish(numbered(0, 100))

    sizes = sink.sizes(sink.run())

    assert sum(sizes) == 100
    assert max(sizes) == 30
    assert sink.payloads() == sorted(message.payload for message in broker.sent)


def test_a_stream_follows_the_log_from_generation_to_generation(
    spark: SparkSession, rotating: Broker, tmp_path: Path
) -> None:
    sink = Sink(spark, rotating, tmp_path / "sink")
    query = sink.start()
    for burst in range(3):
        rotating.publish(numbered(100 * burst, 100, size=8_000))
        query.processAllAvailable()
    query.stop()

    assert query.exception() is None
    assert sink.payloads() == sorted(message.payload for message in rotating.sent)


def test_a_filter_and_a_start_go_with_a_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    sink = Sink(spark, broker, tmp_path / "sink", topicFilter="plant/3/+", startingOffsets="latest")
    broker.publish(numbered(0, 50))
    sink.run()
    broker.publish(numbered(50, 50))
    sink.run()

    right = [message.payload for message in broker.sent[50:] if message.topic == "plant/3/temp"]
    assert sink.payloads() == sorted(right)


def test_a_checkpoint_holds_position_and_serial_of_each_shard(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    sink = Sink(spark, broker, tmp_path / "sink")
    broker.publish(numbered(0, 20))
    sink.run()

    lines = (tmp_path / "sink" / "checkpoint" / "offsets" / "0").read_text(encoding="utf-8").splitlines()
    offsets = json.loads(lines[-1])

    assert list(offsets) == ["0"]
    assert offsets["0"][1] == 20
