"""A run of the archive follows the log until it is stopped, and says how far each shard is."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipeline.lake.archive_job import ArchiveJob, lake_status, run_archive
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.progress import JobProgress, JobState
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, here


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_status_says_how_far_each_shard_is(log: Log, lake: Path) -> None:
    log.fill(100)
    archive(log.path, lake)
    log.fill(30)

    found = lake_status(lake, parse_read_options({"path": log.path}))

    assert (found.name, found.rows) == ("main", 100)
    assert sum(row.serial for row in found.shards) == 100
    assert sum(row.behind or 0 for row in found.shards) == 30
    lines = (lake / "_delta_log" / f"{found.version:020}.json").read_text().splitlines()
    [told] = [entry["commitInfo"]["holdfast"] for entry in map(json.loads, lines) if "commitInfo" in entry]
    assert told["end"] == {str(row.shard): [row.position_us, row.serial] for row in found.shards}


def test_a_job_is_not_done_before_its_small_files_are_replaced(log: Log, lake: Path) -> None:
    log.fill(60)
    told: list[JobState] = []
    progress = JobProgress(told.append)

    def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        done = here(work, tasks)
        progress.update(rows=60)
        return done

    run_archive(ArchiveJob(parse_read_options({"path": log.path}), lake, "main"), lambda: run, progress=progress)

    assert told[-1].rows == 60
    share = told[-1].share
    assert share is not None
    assert 0.8 < share < 1.0
    progress.close(done=True)
    assert told[-1].share == 1.0


def test_an_archive_follows_until_it_is_told_to_stop(log: Log, lake: Path) -> None:
    log.fill(20)
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        log.fill(20)
        return len(pauses) < 3

    job = ArchiveJob(parse_read_options({"path": log.path}), lake, "main", every_s=10.0)
    outcome = run_archive(job, lambda: here, pause=pause)

    assert (outcome.batches, outcome.rows) == (3, 60)
    assert all(0 < seconds <= 10 for seconds in pauses)
