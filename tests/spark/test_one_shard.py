"""A shard that has all of history is cut into tasks as many shards are, by every job, and nothing else changes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.audit.findings import AuditReport
from holdfast.pipeline.audit.job import AuditJob, audit_history
from holdfast.pipeline.audit.serial_check import ExpectedSerials, _with_previous, serial_faults
from holdfast.pipeline.audit.stored_state import stored_messages
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.relayout.job import run_relayout
from holdfast.pipeline.relayout.plan import RelayoutJob
from holdfast.pipeline.replay.job import run_replay
from holdfast.pipeline.replay.plan import ReplayJob
from holdfast.pipeline.sink.write_options import parse_write_options
from holdfast.pipeline.source.read_options import ReadOptions, parse_read_options
from holdfast.pipeline.spark.progress import no_progress
from holdfast.pipeline.spark.runner import SparkRunner
from tests.spark.lakes import check_whole
from tests.spark.publishers import Broker, Sent
from tests.unit.pipeline.local_load import stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = 2_400
#: In place of 50,000: below so many messages a task is not worth it.
FEW = 100
TASKS = 8


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """Stopped. Everything came in one burst, but for the last message; the generation of the burst is sealed."""
    folder = tmp_path_factory.mktemp("one-shard")
    with Broker(folder, 'shards = 1\nlayout = "timeline"\n') as broker:
        broker.publish(
            Sent(f"plant/{number % 50}/temp", b"%d" % number, client_id=f"device-{number // 600}")
            for number in range(MESSAGES)
        )
    with Broker(folder, 'shards = 1\nlayout = "learned"\n') as sealing:
        sealing.publish([Sent("plant/1/temp", b"in the next generation")])
    return broker


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.pipeline.source.partitions.MIN_ROWS", FEW)


def busy(rows: DataFrame) -> int:
    """Tasks that have something to do."""
    return rows.groupBy(spark_partition_id().alias("task")).count().count()


@contextmanager
def counted_tasks(spark: SparkSession, name: str) -> Iterator[list[int]]:
    """How many tasks each stage of the block had."""
    context = spark.sparkContext
    found: list[int] = []
    context.setJobGroup(name, name)
    try:
        yield found
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    tracker = context.statusTracker()
    for job in tracker.getJobIdsForGroup(name):
        told = tracker.getJobInfo(job)
        for stage in told.stageIds if told is not None else ():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numCompletedTasks:
                found.append(info.numTasks)


def test_an_audit_reads_and_compares_serials_in_many_tasks(spark: SparkSession, shard: Broker) -> None:
    with HistoryReader.open(shard.data) as reader:
        parts = reader.parts()
    rows = stored_messages(spark, ReadOptions(path=str(shard.data)), parts, checksums=False).persist()
    try:
        sizes = [row["count"] for row in rows.groupBy(spark_partition_id().alias("task")).count().collect()]
        assert sum(sizes) == MESSAGES + 1
        assert len(sizes) >= TASKS
        assert max(sizes) <= 2 * MESSAGES // TASKS
        assert rows.select("serial").distinct().count() == MESSAGES + 1
        assert busy(_with_previous(rows.selectExpr("*", "0 AS stretch"), MESSAGES)) >= TASKS
    finally:
        rows.unpersist()

    found = audited(spark, shard.data)

    assert found.sound
    assert found.messages == MESSAGES + 1


def audited(spark: SparkSession, data: Path) -> AuditReport:
    return audit_history(spark, AuditJob({"path": str(data)}))


def damaged_rows() -> list[tuple[int, int, int, int | None, str, str]]:
    """Shard, stretch, serial, offset, topic and client, with all that can be wrong, between ranges and inside."""
    rows: list[tuple[int, int, int, int | None, str, str]] = []
    for shard, stretch, first, last in ((0, 0, 1, 700), (0, 1, 900, 1_300), (1, 0, 1, 40)):
        rows += [(shard, stretch, serial, serial * 10, "a", "c") for serial in range(first, last + 1)]
    missing = {50, 51, 100, 101, *range(225, 480), 700, 900, 1_000}
    rows = [row for row in rows if row[2] not in missing]
    twice = [(0, 0, serial, serial * 10 + 1, "b", "d") for serial in (49, 99, 175, 200)]
    unplaced = [
        (shard, stretch, serial, None if serial % 97 == 0 else at, *rest) for shard, stretch, serial, at, *rest in rows
    ]
    behind = [
        (shard, stretch, serial, 5 if serial in (150, 176, 500, 1_001) else at, *rest)
        for shard, stretch, serial, at, *rest in unplaced
    ]
    strange = [(7, 0, 5, 50, "a", "c"), (0, 0, 5_000, 50_000, "a", "c")]
    return [*behind, *twice, *strange]  # type: ignore[list-item]


def test_ranges_of_serials_find_what_a_whole_shard_finds(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = "shard int, stretch int, serial bigint, offset bigint, topic string, client_id string"
    rows = spark.createDataFrame(damaged_rows(), columns).persist()
    expected = [ExpectedSerials(0, 0, 1, 702), ExpectedSerials(0, 1, 900, 1_300), ExpectedSerials(1, 0, -1, 40)]

    def faults(few: int) -> list[str]:
        monkeypatch.setattr("holdfast.pipeline.source.partitions.MIN_ROWS", few)
        return sorted(map(str, serial_faults(spark, rows, expected).collect()))

    whole = faults(100_000_000)

    assert len(whole) > 12
    for few in (1, 7, 100):
        assert faults(few) == whole
    rows.unpersist()


def test_an_archive_is_written_by_many_tasks(spark: SparkSession, shard: Broker, tmp_path: Path) -> None:
    given: list[int] = []

    class Runner(SparkRunner):
        def __call__(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
            given.append(len(tasks))
            return super().__call__(work, tasks)

    job = ArchiveJob(parse_read_options({"path": str(shard.data)}), tmp_path / "lake", "main")
    outcome = run_archive(job, lambda: Runner(spark))

    assert outcome.rows == MESSAGES + 1
    assert given[0] >= TASKS
    check_whole(tmp_path / "lake")


def test_a_replay_reads_in_many_tasks(spark: SparkSession, shard: Broker, tmp_path: Path) -> None:
    with Broker(tmp_path) as target:
        to = parse_write_options({"broker": f"mqtt://127.0.0.1:{target.process.ports['tcp']}"})
        source = {"path": str(shard.data), "rowsPerPartition": str(2 * FEW)}
        job = ReplayJob(to, tmp_path / "state", source, prefix="again/", connections=TASKS)
        with counted_tasks(spark, "replay") as tasks:
            outcome = run_replay(job, None, no_progress)

        assert (outcome.messages, outcome.sent) == (MESSAGES + 1, MESSAGES + 1)
        # Messages are counted, read and sent.
        assert len([count for count in tasks if count >= TASKS]) >= 3
    copies = sorted(payload for _at, _serial, _topic, payload in stored(target.data))
    assert copies == sorted(payload for _at, _serial, _topic, payload in stored(shard.data))


def test_a_relayout_is_cut_into_many_tasks(spark: SparkSession, shard: Broker) -> None:
    """Messages are the same afterwards."""
    before = stored(shard.data)
    with counted_tasks(spark, "relayout") as tasks:
        outcome = run_relayout(spark, RelayoutJob(shard.data, layout="bitmask"))

    assert [(one.was, one.messages) for one in outcome.generations][-1][1] == MESSAGES
    # Laid out, written as tables, read on trial, read back.
    assert len([count for count in tasks if count >= TASKS]) >= 4
    assert stored(shard.data) == before
