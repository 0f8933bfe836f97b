"""The archive on Spark, of a broker that works meanwhile; and hot and cold history as one table."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline import history
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.upkeep import compact
from holdfast.pipeline.lake.writer import lock_folder
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.runner import SparkRunner
from holdfast.storage.rocks.log.leases import remove_lease
from holdfast.topics.filters import parse_filter
from tests.spark.lakes import archive, check_whole, payloads, sent
from tests.spark.publishers import Broker, Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Two shards and a zone; a generation is begun whenever there are some messages."""
    storage = 'shards = 2\ngeneration_bytes = 1048576\n[zones.press]\nfilter = "press/#"\n'
    with Broker(tmp_path, storage) as running:
        yield running


def numbered(first: int, count: int, size: int = 0) -> list[Sent]:
    return [
        Sent(
            f"{'press' if number % 5 == 0 else 'plant'}/{number % 17}/{'temp' if number % 2 else 'flow'}",
            b'{"number": %d}' % number + Random(number).randbytes(size),
            client_id=f"device-{number // 50 % 4}",
            user_properties=(("unit", "C"), ("unit", "K")) if number % 9 == 0 else (),
        )
        for number in range(first, first + count)
    ]


def found_without_lake(spark: SparkSession, broker: Broker) -> list[bytes]:
    """What the log has. Retention may go on meanwhile; then a reader is told so, and reads again."""
    while True:
        try:
            return found(history(spark, path=broker.data))
        except PySparkException as dropped:
            if "dropped by retention" not in str(dropped):
                raise


def found(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.payload) for row in frame.select("payload").collect())


def test_the_archive_keeps_up_with_publishers_through_rotations(
    spark: SparkSession, broker: Broker, lake: Path
) -> None:
    ended = threading.Event()

    def publish() -> None:
        for burst in range(4):
            broker.publish(numbered(100 * burst, 100, size=8_000))
        ended.set()

    broker.publish(numbered(1_000, 50))
    publisher = threading.Thread(target=publish)
    publisher.start()
    job = ArchiveJob(parse_read_options({"path": str(broker.data)}), lake, "main", every_s=0.05, batch_rows=60)
    last = []

    def pause(_seconds: float) -> bool:
        # Once more when all are acknowledged.
        last.append(ended.is_set())
        return not all(last[-2:]) or len(last) < 2

    outcome = run_archive(job, lambda: SparkRunner(spark), pause=pause)
    publisher.join()

    assert outcome.rows == len(broker.sent) == 450
    assert payloads(lake) == sent(broker.sent)
    check_whole(lake)


def test_a_broker_that_is_killed_and_started_again_is_archived_further(
    spark: SparkSession, broker: Broker, lake: Path
) -> None:
    for start in range(3):
        broker.publish(numbered(100 * start, 100))
        archive(spark, broker, lake, batch_rows=30)
        broker.publish(numbered(1_000 + 100 * start, 50))
        broker.kill()
        archive(spark, broker, lake)
        check_whole(lake)
        broker.start()

    archive(spark, broker, lake)
    assert payloads(lake) == sent(broker.sent)


def test_hot_and_cold_are_one_table(spark: SparkSession, broker: Broker, lake: Path) -> None:
    def all_of(*names: str) -> DataFrame:
        return history(spark, path=broker.data, lake=lake, columns=names or None)

    broker.publish(numbered(0, 200))
    archive(spark, broker, lake, batch_rows=30)
    assert found(all_of()) == sent(broker.sent), "all is cold"
    broker.publish(numbered(200, 100))
    both = all_of()
    assert found(both) == sent(broker.sent)

    # The frame stays right, whatever is archived and compacted before it is read.
    archive(spark, broker, lake)
    with lock_folder(lake):
        assert compact(Lake.open(lake), SparkRunner(spark), today=datetime.now(UTC) + timedelta(days=2)) > 0
    assert found(both) == sent(broker.sent)
    assert found(all_of()) == sent(broker.sent)
    broker.publish(numbered(300, 50))
    assert found(all_of()) == sent(broker.sent)

    # One frame, several queries with conditions of their own.
    table = all_of()
    for level in (3, 5):
        some = sent(message for message in broker.sent if message.topic.split("/")[1] == str(level))
        assert found(table.where(f"topic LIKE '%/{level}/%'")) == some
    assert found(table) == sent(broker.sent)

    # Every column is the same from both.
    columns = [name for name in both.columns if name != "user_properties"]
    cold = all_of().withColumn("pairs", col("user_properties").cast("string")).select(*columns, "pairs")
    hot = history(spark, path=broker.data).withColumn("pairs", col("user_properties").cast("string"))
    assert cold.exceptAll(hot.select(*columns, "pairs")).count() == 0
    assert hot.count() == cold.count()
    assert all_of().dtypes == history(spark, path=broker.data).dtypes


def test_the_border_may_move_between_the_plan_of_a_query_and_its_tasks(
    spark: SparkSession, tmp_path: Path, lake: Path
) -> None:
    """The tasks are planned, and held back while the archive takes the rest and retention drops what it took."""
    with Broker(tmp_path, "generation_bytes = 2097152\nretention_bytes = 5000000\n") as broker:
        fill(broker, 1)
        archive(spark, broker, lake, batch_rows=100)
        broker.publish(numbered(5_000, 50))
        query = planned(history(spark, path=broker.data, lake=lake))
        archive(spark, broker, lake)
        assert payloads(lake) == sent(broker.sent), "what the query has planned to read from the log is in the lake"
        assert collected(query) == sent(broker.sent)

        # The log's part of the plan goes: that is said, and a new query has each message once.
        broker.publish(numbered(6_000, 50))
        query = planned(history(spark, path=broker.data, lake=lake))
        fill(broker, 2, 3, 4, 5)
        archive(spark, broker, lake)
        broker.process.wait_for("generation dropped", 3)
        with pytest.raises(PySparkException, match=r"retention dropped up to|dropped by retention"):
            collected(query)
        assert found(history(spark, path=broker.data, lake=lake)) == sent(broker.sent)


def planned(frame: DataFrame) -> DataFrame:
    """A query whose tasks are made, and not run."""
    query = frame.select("payload")
    query._jdf.queryExecution().executedPlan().execute()
    return query


def collected(query: DataFrame) -> list[bytes]:
    return sorted(bytes(row.payload) for row in query.collect())


def test_filters_times_and_zones_mean_the_same_on_both_sides(spark: SparkSession, broker: Broker, lake: Path) -> None:
    broker.publish(numbered(0, 150))
    broker.publish([Sent("$own/1", b"dollar"), Sent("plant", b"parent"), Sent("a.b/(x)/c", b"odd")])
    archive(spark, broker, lake, batch_rows=60)
    broker.publish(numbered(150, 100))
    broker.publish([Sent("$own/2", b"dollar 2"), Sent("plant/9/deep/er", b"deep")])
    border = max(offset.position_us for offset in Lake.open(lake).offsets.values())

    for topic_filter in ("#", "plant/#", "plant/+/temp", "+/3/flow", "press/5/temp", "$own/#", "a.b/(x)/+", "no/+"):
        wanted = parse_filter(topic_filter.encode())
        right = sent(message for message in broker.sent if wanted.matches(message.topic.encode()))
        assert found(history(spark, topic_filter, path=broker.data, lake=lake)) == right, topic_filter
    for at_us in (border - 1, border, border + 1):
        at = str(at_us)
        before = history(spark, until=at, path=broker.data, lake=lake)
        after = history(spark, since=EPOCH + timedelta(microseconds=at_us), path=broker.data, lake=lake)
        both = [*found(before), *found(after)]
        assert sorted(both) == sent(broker.sent), at_us - border
        assert before.where(col("offset") >= at_us).union(after.where(col("offset") < at_us)).isEmpty()
    pressed = history(spark, path=broker.data, lake=lake, zone="press", columns=["payload", "json"])
    assert found(pressed) == sent(message for message in broker.sent if message.topic.startswith("press/"))
    numbers = pressed.selectExpr("variant_get(json, '$.number', 'int') AS number").collect()
    assert sorted(row.number for row in numbers) == [number for number in range(250) if number % 5 == 0]


def test_a_lake_that_is_none_is_refused(spark: SparkSession, broker: Broker, lake: Path) -> None:
    with pytest.raises(SettingsError, match="is no lake"):
        history(spark, path=broker.data, lake=lake)


def fill(broker: Broker, *generations: int) -> None:
    for number in generations:
        broker.publish(numbered(1_000 * number, 400, size=8_000))
        broker.process.wait_for("generation begins", number)


def test_retention_waits_for_the_archive_and_history_stays_whole(
    spark: SparkSession, tmp_path: Path, lake: Path
) -> None:
    # RocksDB takes memory for a family in blocks of 1 MiB: a generation of that size would end behind a few messages.
    with Broker(tmp_path, "generation_bytes = 2097152\nretention_bytes = 5000000\n") as broker:
        broker.publish(numbered(0, 20))
        archive(spark, broker, lake)
        fill(broker, 1, 2, 3)
        broker.process.wait_for("a lease holds up retention")
        assert broker.process.events("generation dropped") == []
        early = history(spark, path=broker.data, lake=lake)
        assert found(early) == sent(broker.sent)

        archive(spark, broker, lake)
        broker.process.wait_for("generation dropped")

        assert found(history(spark, path=broker.data, lake=lake)) == sent(broker.sent)
        assert len(found_without_lake(spark, broker)) < len(broker.sent)
        # Its border lies in what is gone by now: that is said, and not skipped.
        with pytest.raises(PySparkException, match=r"retention dropped up to|dropped by retention"):
            early.collect()

        # As if it had not come for too long.
        remove_lease(broker.data, "archive-main")
        fill(broker, 4, 5, 6)
        broker.process.wait_for("generation dropped", 4)
        with pytest.raises(PermanentError, match="retention dropped up to"):
            archive(spark, broker, lake)
        outcome = archive(spark, broker, lake, failOnDataLoss="false")
        assert outcome.lost >= 400
        assert outcome.lost + len(payloads(lake)) == len(broker.sent)
