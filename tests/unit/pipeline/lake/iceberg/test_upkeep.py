"""Upkeep of an Iceberg lake takes what nobody needs, and nothing else."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.lake.iceberg.upkeep import expire_snapshots, remove_orphans
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.runner import Runner
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.iceberg_tables import (
    ADDRESS,
    archived,
    catalog_options,
    catalog_variables,
    data_files,
    snapshots,
    table_of,
)
from tests.unit.pipeline.local_archive import archive, here

DAY_S = 86_400


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = catalog_options(tmp_path)
    for name, value in catalog_variables(found).items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def log(tmp_path: Path, options: dict[str, str]) -> Iterator[Log]:
    log = Log(tmp_path)
    log.fill(100)
    archive(log.path, ADDRESS, batch_rows=10)
    yield log
    log.close()


def metadata_files(lake: IcebergLake) -> set[str]:
    return {path for path in lake.store.list_paths("metadata") if path.endswith(".avro")}


def test_orphans_are_files_of_ours_that_no_snapshot_has(log: Log, options: dict[str, str]) -> None:
    lake = IcebergLake.open(ADDRESS)
    before = data_files(lake)
    for name in ("hf-left.parquet", "00000-of-another-program.parquet"):
        lake.store.create(f"data/day=2023-11-14/p-0/{name}").finish()
    # Files that only an older snapshot has: a reader may be at them.
    gone = lake.list_files()[:2]
    lake.replace(gone, [], {})

    assert remove_orphans(lake) == 1

    assert data_files(lake) == before | {"data/day=2023-11-14/p-0/00000-of-another-program.parquet"}
    assert len(archived(options)) == 100 - sum(file["num_records"] for file in gone)
    assert IcebergLake.open(ADDRESS).offsets == lake.offsets
    count = snapshots(options)
    assert remove_orphans(lake) == 0
    assert snapshots(options) == count, "no file goes, so that none has to be protected"


def test_what_a_lost_attempt_has_written_goes_when_it_is_a_week_old(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark tries a task again whose executor has died, and the run ends well."""
    lake = IcebergLake.open(ADDRESS)
    old = data_files(lake)

    def again(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        here(work, tasks)
        return here(work, tasks)

    def run(days: int, run: Runner = here) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: now_s + days * DAY_S)
            log.fill(50)
            run_archive(ArchiveJob(parse_read_options({"path": log.path}), ADDRESS, "main"), lambda: run)

    now_s = time.time()
    run(1, again)
    lost = data_files(lake) - old - table_paths()
    assert lost
    run(2)
    assert lost < data_files(lake), "they are young, and may be of an attempt that goes on"
    for path in data_files(lake):
        os.utime(f"{lake.store}/{path}", (now_s - 8 * DAY_S,) * 2)
    run(2)
    assert lost < data_files(lake), "they were looked for on that day"
    run(3)

    assert data_files(lake) == table_paths()
    assert archived(options) == sorted(log.walk())


def table_paths() -> set[str]:
    return {unquote(file["path"]) for file in IcebergLake.open(ADDRESS).list_files()}


def test_old_snapshots_go_with_their_manifests_and_every_row_stays(log: Log, options: dict[str, str]) -> None:
    lake = IcebergLake.open(ADDRESS)
    head, before = table_of(options).current_snapshot(), metadata_files(lake)
    later = datetime.now(UTC) + timedelta(days=8)

    assert expire_snapshots(lake, datetime.now(UTC), least=1) == 0, "they are young"
    assert expire_snapshots(lake, later) == 0, "they are few"
    assert expire_snapshots(lake, later, least=1) == 9

    assert head is not None
    assert [one.snapshot_id for one in table_of(options).metadata.snapshots] == [head.snapshot_id]
    assert archived(options) == sorted(log.walk())
    left = metadata_files(lake)
    assert len([path for path in left if "/snap-" in path]) == 1
    assert len(left) == 11, "the manifests of the newest snapshot have all files"
    assert left < before
    log.fill(20)
    assert archive(log.path, ADDRESS).rows == 20
    assert archived(options) == sorted(log.walk())


def test_a_snapshot_that_a_tag_names_stays_with_its_files(log: Log, options: dict[str, str]) -> None:
    third = table_of(options).metadata.snapshots[2]
    with table_of(options).manage_snapshots() as snapshots:
        snapshots.create_tag(third.snapshot_id, "audited")
    lake = IcebergLake.open(ADDRESS)

    assert expire_snapshots(lake, datetime.now(UTC) + timedelta(days=8), least=1) == 8

    assert table_of(options).scan(snapshot_id=third.snapshot_id).to_arrow().num_rows == 30
    assert archived(options) == sorted(log.walk())
