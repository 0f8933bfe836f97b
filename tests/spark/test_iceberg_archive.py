"""The archive into an Iceberg table, on Spark: of a broker that works meanwhile, killed, beside another writer.

What is in the table is what pyiceberg finds there, compared with what publishers were acknowledged. Some kills run the
tasks in the process of the archive, where a kill costs no start of Java. HOLDFAST_ICEBERG_KILLS=50 digs deeper. A
failure names its seed.
"""

import logging
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from holdfast.model.errors import HoldfastError, PermanentError, SettingsError, TransientError
from holdfast.pipeline import history
from holdfast.pipeline.lake import writer
from holdfast.pipeline.lake.archive_job import ArchiveJob, ArchiveOutcome, run_archive
from holdfast.pipeline.lake.formats import open_archive, open_lake
from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.lake.retention import RetainJob, run_retain
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.storage.rocks.log.leases import read_leases
from tests.spark.lakes import archive, sent
from tests.spark.publishers import Broker, Sent, meanwhile
from tests.spark.rest_catalog import TOKEN, RestCatalogServer, rest_catalog
from tests.spark.s3_server import BUCKET, KEY, S3, SECRET, Faults, s3_server
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.iceberg_tables import (
    ADDRESS,
    archived,
    catalog_options,
    catalog_variables,
    data_files,
    rows,
    table_of,
)
from tests.unit.pipeline.local_archive import archive as archive_here
from tests.unit.pipeline.local_archive import here

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("HOLDFAST_ICEBERG_KILLS", "4"))
SEED = int(os.environ.get("HOLDFAST_ICEBERG_SEED", "1"))
#: Seconds within which the killed process would have done most of its work.
MOST_S = 2.5
DEADLINE_S = 300.0
COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "archive")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 20 * KILLS)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, "shards = 3\ngeneration_bytes = 1048576\n") as running:
        yield running


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    made.fill(200)
    yield made
    made.close()


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return known(monkeypatch, catalog_options(tmp_path))


def known(monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> dict[str, str]:
    for name, value in catalog_variables(options).items():
        monkeypatch.setenv(name, value)
    return options


def numbered(first: int, count: int) -> list[Sent]:
    return [
        Sent(f"plant/{number % 23}/temp", b"%d " % number + b"x" * 200, client_id=f"device-{number // 100 % 7}")
        for number in range(first, first + count)
    ]


@contextmanager
def publishing(broker: Broker) -> Iterator[None]:
    with meanwhile(lambda: broker.publish(numbered(len(broker.sent), 200)), 0.2):
        yield


def payloads(options: dict[str, str]) -> list[bytes]:
    return sorted(row["payload"] for row in rows(options))


def check_whole(options: dict[str, str]) -> None:
    """Each message up to the mark of the table is there once, and no other is."""
    lake = IcebergLake.open(ADDRESS)
    offsets = lake.offsets
    right = [(shard, serial) for shard in sorted(offsets) for serial in range(1, offsets[shard].serial + 1)]
    snapshot = lake.table.current_snapshot()
    found = [] if snapshot is None else lake.table.scan().to_arrow().select(["shard", "serial"]).to_pylist()
    assert sorted((row["shard"], row["serial"]) for row in found) == right


def archive_process(data: str | Path, fault: str = "", rows_each: int = 50) -> "subprocess.Popen[str]":
    program = [sys.executable, "-m", "tests.spark.archive_process", str(data), ADDRESS, str(rows_each), "1.0"]
    environment = {**os.environ, "HOLDFAST_FAULT": fault}
    return subprocess.Popen(
        program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


# ---- on Spark


def found(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.payload) for row in frame.select("payload").collect())


def test_hot_and_cold_are_one_table(spark: SparkSession, broker: Broker, options: dict[str, str]) -> None:
    broker.publish(numbered(0, 200))
    outcome = archive(spark, broker, ADDRESS, batch_rows=60)
    assert (outcome.rows, outcome.batches) == (200, 4)
    assert payloads(options) == sent(broker.sent)
    broker.publish(numbered(200, 100))
    both = history(spark, path=broker.data, lake=ADDRESS)
    assert found(both) == sent(broker.sent)

    # The frame stays right, whatever is archived before it is read.
    archive(spark, broker, ADDRESS)
    assert found(both) == sent(broker.sent)
    assert found(history(spark, path=broker.data, lake=ADDRESS)) == sent(broker.sent), "all is cold"
    some = history(spark, "plant/3/+", path=broker.data, lake=ADDRESS)
    assert found(some) == sent(message for message in broker.sent if message.topic == "plant/3/temp")

    # Every column is the same from both.
    plain = [name for name in both.columns if name != "user_properties"]
    cold = history(spark, path=broker.data, lake=ADDRESS).withColumn("pairs", col("user_properties").cast("string"))
    hot = history(spark, path=broker.data).withColumn("pairs", col("user_properties").cast("string"))
    assert cold.select(*plain, "pairs").exceptAll(hot.select(*plain, "pairs")).count() == 0
    assert hot.count() == cold.count()
    assert both.dtypes == history(spark, path=broker.data).dtypes


@pytest.mark.parametrize("fault", ["archive-written", "archive-staged", "archive-committed"])
def test_a_kill_around_the_commit_is_as_good_as_none(
    spark: SparkSession, broker: Broker, options: dict[str, str], fault: str
) -> None:
    """The command on Spark dies when files are written, when manifests are, or when nobody else knows the snapshot."""
    broker.publish(numbered(0, 500))
    where = ["--data", str(broker.data), "--lake", ADDRESS, "--format", "iceberg", "--master", "local[2]", "--json"]
    process = subprocess.Popen(
        [*COMMAND, *where, "--batch", "300"],
        env={**os.environ, "HOLDFAST_FAULT": fault},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _out, complaints = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -9, complaints
    check_whole(options)
    done = sum(offset.serial for offset in open_lake(ADDRESS).offsets.values())
    assert done == (300 if fault == "archive-committed" else 0)
    [lease] = read_leases(broker.data)
    assert set(lease.positions.values()) == {0}, "retention waits for what is only known to be written"
    broker.publish(numbered(500, 100))

    outcome = archive(spark, broker, ADDRESS)

    assert outcome.rows == 600 - done
    assert bool(outcome.swept) is (not done)
    assert payloads(options) == sent(broker.sent)
    lake = IcebergLake.open(ADDRESS)
    assert len(data_files(lake)) == len(lake.list_files()), "files are left"


# ---- kills and writers, with the tasks in the process


def test_random_kills_lose_and_repeat_nothing(broker: Broker, options: dict[str, str]) -> None:
    dice = random.Random(SEED)
    broker.publish(numbered(0, 1_500))
    deaths = 0
    with publishing(broker):
        while deaths < KILLS:
            process = archive_process(broker.data, rows_each=100)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"seed {SEED}, {deaths} kills: it ended by itself"
            try:
                process.wait(dice.uniform(0, MOST_S))
            except subprocess.TimeoutExpired:
                process.kill()
            _out, complaints = process.communicate()
            deaths += process.returncode != 0
            assert process.returncode in (0, -9), f"seed {SEED}, {deaths} kills: {complaints}"
            if (broker.data.parent / "warehouse" / "plant" / "messages").exists():
                check_whole(options)

    archive_here(broker.data, ADDRESS)
    assert payloads(options) == sent(broker.sent), f"seed {SEED}"
    lake = IcebergLake.open(ADDRESS)
    assert len(data_files(lake)) == len(lake.list_files()), "files are left"


def test_of_processes_that_begin_at_once_each_message_comes_once(broker: Broker, options: dict[str, str]) -> None:
    """Each makes the table, takes the lock, or is told that another one has it."""
    broker.publish(numbered(0, 600))
    processes = [archive_process(broker.data) for _number in range(3)]
    ends = []
    for process in processes:
        _out, complaints = process.communicate(timeout=DEADLINE_S)
        ends.append((process.returncode, complaints))

    assert any(code == 0 for code, _complaints in ends), ends
    for code, complaints in ends:
        assert code == 0 or "another archive is writing to" in complaints, complaints
    archive_here(broker.data, ADDRESS)
    assert payloads(options) == sent(broker.sent)


# ---- a catalog behind REST


@pytest.fixture
def rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalogServer]:
    with rest_catalog(tmp_path) as server:
        known(monkeypatch, server.options)
        yield server


def test_a_catalog_behind_rest_holds_each_message_once(
    spark: SparkSession, broker: Broker, rest: RestCatalogServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    broker.publish(numbered(0, 200))
    archive(spark, broker, ADDRESS, batch_rows=70)
    broker.publish(numbered(200, 50))
    table = history(spark, path=broker.data, lake=ADDRESS)

    assert found(table) == sent(broker.sent)
    assert payloads(rest.options) == sent(broker.sent[:200])
    assert rest.commits == 3
    plan = table._jdf.queryExecution().toString()
    assert TOKEN not in plan + caplog.text + repr(open_lake(ADDRESS).store)


def test_a_commit_that_the_catalog_cannot_tell_of_has_happened_once(log: Log, rest: RestCatalogServer) -> None:
    rest.lost_commits = 2
    outcome = archive_here(log.path, ADDRESS, batch_rows=80)

    assert (outcome.rows, rest.lost_commits) == (200, 0)
    assert archived(rest.options) == sorted(log.walk())


def test_a_commit_that_landed_and_is_refused_the_second_time_has_happened_once(
    log: Log, rest: RestCatalogServer
) -> None:
    rest.repeated_commits = 2
    outcome = archive_here(log.path, ADDRESS, batch_rows=80)
    log.fill(30)

    assert (outcome.rows, rest.repeated_commits, rest.commits) == (200, 0, 3)
    assert archive_here(log.path, ADDRESS).rows == 30
    assert archived(rest.options) == sorted(log.walk())


def test_wrong_credentials_are_named_and_not_shown(
    log: Log, rest: RestCatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__MAIN__TOKEN", "a-wrong-token")

    with pytest.raises(SettingsError, match="the catalog refuses what it was shown") as raised:
        archive_here(log.path, ADDRESS)

    assert "PYICEBERG_CATALOG__MAIN__TOKEN" in str(raised.value)
    assert "a-wrong-token" not in str(raised.value)
    assert rest.commits == 0


def test_a_catalog_that_does_not_answer_is_named(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    known(monkeypatch, {"uri": f"http://127.0.0.1:{port}", "token": "a-token"})

    with pytest.raises(TransientError, match=r"iceberg://main/plant\.messages .* the catalog main does not answer"):
        archive_here(log.path, ADDRESS)


# ---- files in a store of objects


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def s3(server: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    # A writer that was killed is not waited for as long as one that may live.
    monkeypatch.setattr(writer, "SILENCE_S", 1.0)
    monkeypatch.setattr(writer, "BEAT_S", 0.2)
    server.faults = Faults()
    known(
        monkeypatch,
        {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"s3://{BUCKET}/{tmp_path.name}/warehouse"},
    )
    yield server
    server.faults = Faults()


def keys_in(s3: S3) -> list[tuple[int, int]]:
    table = IcebergLake.open(ADDRESS).table
    return sorted((row["shard"], row["serial"]) for row in table.scan().to_arrow().to_pylist())


def test_a_table_in_a_store_of_objects_is_read_on_spark_without_a_credential_in_its_plan(
    spark: SparkSession, broker: Broker, s3: S3
) -> None:
    broker.publish(numbered(0, 150))
    archive(spark, broker, ADDRESS, batch_rows=60)
    broker.publish(numbered(150, 50))
    table = history(spark, path=broker.data, lake=ADDRESS)

    assert found(table) == sent(broker.sent)
    plan = table._jdf.queryExecution().toString()
    assert KEY not in plan
    assert SECRET not in plan


@pytest.mark.parametrize("fault", ["archive-begun", "archive-written", "archive-staged", "archive-committed"])
def test_a_kill_with_a_claim_in_the_table_is_as_good_as_none(log: Log, s3: S3, fault: str) -> None:
    process = archive_process(log.path, fault)
    _out, complaints = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -9, complaints
    left = data_files(IcebergLake.open(ADDRESS))
    done = sum(offset.serial for offset in open_lake(ADDRESS).offsets.values())
    assert done == (50 if fault == "archive-committed" else 0)
    assert len(keys_in(s3)) == done
    assert bool(left) is (fault != "archive-begun")
    log.fill(30)

    outcome = archive_here(log.path, ADDRESS)

    assert outcome.rows == 230 - done
    assert outcome.swept == (0 if done else len(left))
    assert keys_in(s3) == sorted(log.walk())
    lake = IcebergLake.open(ADDRESS)
    assert len(data_files(lake)) == len(lake.list_files()), "files are left"
    assert lake.claim % 2 == 0, "the table is free again"


def test_files_of_a_run_that_failed_are_removed_by_the_next_one(log: Log, s3: S3) -> None:
    def lost(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        here(work, tasks)
        raise TransientError("lost a worker")

    with pytest.raises(TransientError):
        run_archive(ArchiveJob(parse_read_options({"path": log.path}), ADDRESS, "main"), lambda: lost)
    left = data_files(IcebergLake.open(ADDRESS))
    assert left

    assert archive_here(log.path, ADDRESS).swept == len(left)
    assert keys_in(s3) == sorted(log.walk())
    lake = IcebergLake.open(ADDRESS)
    assert len(data_files(lake)) == len(lake.list_files()), "files are left"
    assert archive_here(log.path, ADDRESS).swept == 0


def test_a_second_writer_is_refused_while_the_first_one_beats(log: Log, s3: S3) -> None:
    with open_archive(ADDRESS, "main"), pytest.raises(SettingsError, match="another archive is writing to"):
        archive_here(log.path, ADDRESS)

    assert archive_here(log.path, ADDRESS).rows == 200


def test_a_writer_that_was_replaced_removes_and_commits_nothing(log: Log, s3: S3) -> None:
    archive_here(log.path, ADDRESS)
    with pytest.MonkeyPatch.context() as patched:
        # It stands still, so that its beat does.
        patched.setattr(writer, "BEAT_S", 1_000.0)
        with open_archive(ADDRESS, "main") as first:
            log.fill(50)
            assert archive_here(log.path, ADDRESS).rows == 50
            before = data_files(IcebergLake.open(ADDRESS))
            with pytest.raises(PermanentError, match="another process has taken"):
                first.sweep()
            with pytest.raises(PermanentError, match=r"another process (has taken|wrote)"):
                first.table.commit(first.table.offsets, [], {})

    assert data_files(IcebergLake.open(ADDRESS)) == before
    assert keys_in(s3) == sorted(log.walk())


def test_a_store_that_refuses_its_credentials_is_named(log: Log, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.faults = Faults(key=KEY)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWRONGKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")

    with pytest.raises(HoldfastError, match=r"iceberg://main/plant\.messages cannot be made") as raised:
        archive_here(log.path, ADDRESS)

    assert "a-wrong-secret" not in str(raised.value)
    assert LakeStore.at(f"s3://{BUCKET}").options.secrets, "there was something to hide"


# ---- what is for Delta alone


def test_retain_says_that_it_is_for_delta(log: Log, options: dict[str, str]) -> None:
    archive_here(log.path, ADDRESS)

    with pytest.raises(SettingsError, match="is an Iceberg table, and this works on Delta lakes"):
        run_retain(RetainJob(ADDRESS, compacts=True), lambda: lambda work, tasks: [work(task) for task in tasks])

    assert len(table_of(options).metadata.snapshots) == 1


def test_an_archive_that_goes_on_and_on_is_whole_after_each_round(broker: Broker, options: dict[str, str]) -> None:
    rounds = []

    def pause(_seconds: float) -> bool:
        check_whole(options)
        rounds.append(len(broker.sent))
        broker.publish(numbered(len(broker.sent), 40))
        return len(rounds) < 4

    job = ArchiveJob(parse_read_options({"path": str(broker.data)}), ADDRESS, "main", every_s=0.01, batch_rows=30)
    outcome: ArchiveOutcome = run_archive(job, lambda: lambda work, tasks: [work(task) for task in tasks], pause=pause)

    assert outcome.rows == rounds[-1]
    assert payloads(options) == sent(broker.sent[: rounds[-1]])
