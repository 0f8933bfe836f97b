"""Compaction killed with kill -9, at random and at chosen instants: rows are there once, and no file is left.

HOLDFAST_COMPACTION_KILLS=100 digs deeper. An executor that is killed: `test_driver_memory.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.retention import RetainJob, RetainOutcome, run_retain
from tests.spark.lakes import check_no_file_is_left, check_whole, data_files
from tests.spark.large_lake import FILE_ROWS, fill_lake
from tests.spark.progress_lines import check_progress
from tests.unit.pipeline.local_archive import here

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("HOLDFAST_COMPACTION_KILLS", "4"))
SEED = int(os.environ.get("HOLDFAST_COMPACTION_SEED", "1"))
DEADLINE_S = 300.0
COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "retain")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 20 * KILLS)]
DAYS = 2


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    fill_lake(tmp_path / "lake", 10, DAYS)
    return tmp_path / "lake"


def compact_again(lake: Path) -> RetainOutcome:
    return run_retain(RetainJob(lake, compacts=True), lambda: here)


def start(lake: Path, fault: str = "") -> "subprocess.Popen[str]":
    program = [sys.executable, "-m", "tests.spark.compaction_process", str(lake)]
    environment = {**os.environ, "HOLDFAST_FAULT": fault}
    return subprocess.Popen(
        program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_kill_between_transaction_and_vacuum_is_as_good_as_none(lake: Path) -> None:
    before = data_files(lake)
    process = start(lake, "archive-compacted")
    _out, complaints = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -9, complaints
    check_whole(lake)
    assert len(Lake.open(lake).table.file_uris()) == DAYS

    outcome = compact_again(lake)

    assert (outcome.compacted, outcome.swept) == (0, 0)
    assert data_files(lake) > before, "readers may be at what was replaced"
    check_no_file_is_left(lake)


def test_a_kill_of_the_command_when_spark_has_written_leaves_the_small_files(spark: SparkSession, lake: Path) -> None:
    before = data_files(lake)
    words = ["--lake", str(lake), "--compact", "--master", "local[2]"]
    died = subprocess.run(
        [*COMMAND, *words], env={**os.environ, "HOLDFAST_FAULT": "compaction-written"}, capture_output=True, check=False
    )
    assert died.returncode == -9, died.stderr
    check_whole(lake)
    assert {Path(uri) for uri in Lake.open(lake).table.file_uris()} == before
    assert len(data_files(lake) - before) == DAYS

    done = CliRunner().invoke(app, ["spark", "retain", "--lake", str(lake), "--compact", "--json"])

    assert done.exit_code == 0, done.output
    outcome = json.loads(done.stdout)
    assert (outcome["compacted"], outcome["swept"]) == (len(before), DAYS)
    assert check_progress(done.stderr, "retain")["replacing small files"]["rows"] == 10 * FILE_ROWS
    check_whole(lake)
    check_no_file_is_left(lake)
    entries = [json.loads(line) for line in sorted(lake.glob("_delta_log/*.json"))[-1].read_text().splitlines()]
    changes = [one["dataChange"] for entry in entries for one in (entry.get("add"), entry.get("remove")) if one]
    assert changes
    assert not any(changes), "who reads what is new gets these rows again"


def test_random_kills_lose_and_repeat_nothing(lake: Path) -> None:
    dice = Random(SEED)
    deaths = 0
    while deaths < KILLS:
        process = start(lake)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", f"seed {SEED}, {deaths} kills: it ended by itself"
        try:
            process.wait(dice.uniform(0, 1.0))
        except subprocess.TimeoutExpired:
            process.kill()
        _out, complaints = process.communicate()
        deaths += process.returncode != 0
        assert process.returncode in (0, -9), f"seed {SEED}, {deaths} kills: {complaints}"
        check_whole(lake)
        fill_lake(lake, 2 * DAYS, DAYS)

    compact_again(lake)

    check_whole(lake)
    check_no_file_is_left(lake)
