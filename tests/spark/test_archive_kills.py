"""The archive killed with kill -9, at random and at chosen instants, while messages come in: none lost, none twice.

On Spark, by the command; and more often with its tasks in its own process, where a kill costs no start of Java.
HOLDFAST_ARCHIVE_SPARK_KILLS=20 and HOLDFAST_ARCHIVE_KILLS=200 dig deeper. A failure names its seed, though not its
instants.
"""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.pipeline.lake.lake import Lake
from holdfast.storage.rocks.log.leases import read_leases
from tests.spark.lakes import archive, check_whole, payloads, sent
from tests.spark.publishers import Broker, Sent, meanwhile

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("HOLDFAST_ARCHIVE_KILLS", "6"))
SPARK_KILLS = int(os.environ.get("HOLDFAST_ARCHIVE_SPARK_KILLS", "1"))
SEED = int(os.environ.get("HOLDFAST_ARCHIVE_SEED", "1"))
#: Seconds within which the killed process would have done most of its work.
MOST_S = 1.5
DEADLINE_S = 300.0
COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "archive")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 20 * KILLS + 120 * SPARK_KILLS)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, "shards = 3\ngeneration_bytes = 1048576\n") as running:
        yield running


def numbered(first: int, count: int) -> list[Sent]:
    return [
        Sent(f"plant/{number % 23}/temp", b"%d " % number + b"x" * 200, client_id=f"device-{number // 100 % 7}")
        for number in range(first, first + count)
    ]


@contextmanager
def publishing(broker: Broker) -> Iterator[None]:
    """Messages come in, one burst after the other, for as long as the block takes."""
    with meanwhile(lambda: broker.publish(numbered(len(broker.sent), 200)), 0.2):
        yield


def killed_after(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Kill it, unless it ends before; whether it was killed."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    return process.returncode != 0


def test_random_kills_of_an_archive_that_runs_its_tasks_itself_lose_and_repeat_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Without Spark, but for the last run."""
    dice = random.Random(SEED)
    lake = tmp_path / "lake"
    broker.publish(numbered(0, 2_000))
    deaths = 0
    with publishing(broker):
        while deaths < KILLS:
            program = [sys.executable, "-m", "tests.spark.archive_process", str(broker.data), str(lake), "150"]
            process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"seed {SEED}, {deaths} kills: it ended by itself"
            deaths += killed_after(process, dice.uniform(0, MOST_S))
            assert process.returncode in (0, -9), f"seed {SEED}, {deaths} kills"
            if (lake / "_delta_log").exists():
                check_whole(lake)

    archive(spark, broker, lake)
    assert payloads(lake) == sent(broker.sent)
    known = {str(path) for path in map(Path, Lake.open(lake).table.file_uris())}
    replaced = {str(lake / path) for path in Lake.open(lake).table.vacuum(0, enforce_retention_duration=False)}
    assert {str(path) for path in lake.glob("day=*/**/*.parquet")} == known | replaced, "files are left"


def spark_archive(broker: Broker, lake: Path, *, batch: int, fault: str = "") -> "subprocess.Popen[str]":
    where = ["--data", str(broker.data), "--lake", str(lake), "--master", "local[2]", "--batch", str(batch), "--json"]
    environment = {**os.environ, "HOLDFAST_FAULT": fault}
    return subprocess.Popen(
        [*COMMAND, *where], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("fault", ["archive-written", "archive-committed"])
def test_a_kill_around_the_transaction_is_as_good_as_none(
    spark: SparkSession, broker: Broker, tmp_path: Path, fault: str
) -> None:
    """On Spark: the process dies when all files are written, or when the table has them and nobody else knows."""
    lake = tmp_path / "lake"
    broker.publish(numbered(0, 500))
    process = spark_archive(broker, lake, batch=300, fault=fault)
    _out, complaints = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -9, complaints
    check_whole(lake)
    done = sum(offset.serial for offset in Lake.open(lake).offsets.values())
    assert done == (0 if fault == "archive-written" else 300)
    [lease] = read_leases(broker.data)
    assert set(lease.positions.values()) == {0}, "retention waits for what is only known to be written"
    broker.publish(numbered(500, 100))

    outcome = archive(spark, broker, lake)

    assert outcome.rows == 600 - done
    assert bool(outcome.swept) is (fault == "archive-written")
    assert payloads(lake) == sent(broker.sent)


def test_random_kills_of_the_command_on_spark_lose_and_repeat_nothing(broker: Broker, tmp_path: Path) -> None:
    """Tasks of Spark may go on for a while when the command is dead, and the next one begins beside them."""
    dice = random.Random(SEED)
    lake = tmp_path / "lake"
    broker.publish(numbered(0, 1_000))
    deaths = 0
    with publishing(broker):
        while deaths < SPARK_KILLS:
            before = Lake.open(lake).version if (lake / "_delta_log").exists() else 0
            process = spark_archive(broker, lake, batch=50)
            # The first transaction tells that Spark is up, and the rest will take a while.
            first = lake / "_delta_log" / f"{before + 1:020}.json"
            while not first.exists() and process.poll() is None:
                threading.Event().wait(0.02)
            assert first.exists(), process.communicate()
            deaths += killed_after(process, dice.uniform(0, 2.0))
            assert process.returncode in (0, -9), f"seed {SEED}, {deaths} kills"
            check_whole(lake)
    process = spark_archive(broker, lake, batch=50_000)
    shown, complaints = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 0, complaints
    assert '"lost": 0' in shown
    assert payloads(lake) == sent(broker.sent)
