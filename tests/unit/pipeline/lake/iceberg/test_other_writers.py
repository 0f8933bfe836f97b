"""An Iceberg lake beside other writers, other programs, and tables that are not its own."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.lake import writer
from holdfast.pipeline.lake.archive_job import ArchiveJob, lake_status, run_archive
from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.lake.iceberg.table_files import file_format
from holdfast.pipeline.lake.writer import lock_folder
from holdfast.pipeline.source.read_options import parse_read_options
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.iceberg_tables import (
    ADDRESS,
    NAME,
    archived,
    catalog_options,
    catalog_variables,
    moved,
    other_program,
    rows,
    snapshots,
    table_of,
)
from tests.unit.pipeline.local_archive import archive, here


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = catalog_options(tmp_path)
    for name, value in catalog_variables(found).items():
        monkeypatch.setenv(name, value)
    return found


# ---- writers


def test_of_two_writers_that_no_lock_kept_apart_the_catalog_refuses_one(log: Log, options: dict[str, str]) -> None:
    log.fill(100)
    archive(log.path, ADDRESS)
    first, second = IcebergLake.open(ADDRESS), IcebergLake.open(ADDRESS)
    end = moved(first)
    first.commit(end, [], {})

    with pytest.raises(PermanentError, match=r"another process wrote to the lake iceberg://main/plant\.messages"):
        second.commit(end, [], {})

    assert snapshots(options) == 2


def test_a_second_writer_is_refused_while_the_first_one_works(log: Log, options: dict[str, str]) -> None:
    log.fill(100)
    archive(log.path, ADDRESS)
    folder = IcebergLake.open(ADDRESS).store.folder
    assert folder is not None
    log.fill(10)

    with lock_folder(folder), pytest.raises(SettingsError, match="another archive is writing to"):
        archive(log.path, ADDRESS)

    assert snapshots(options) == 1


def test_a_writer_whose_claim_was_taken_commits_nothing_more(log: Log, options: dict[str, str]) -> None:
    """As in a store of objects, where there are no locks."""
    log.fill(100)
    archive(log.path, ADDRESS)
    first = IcebergLake.open(ADDRESS)
    first.take_claim(1, {})
    second = IcebergLake.open(ADDRESS)
    assert second.claim == 1
    second.take_claim(3, {})

    with pytest.raises(PermanentError, match=r"another process has taken iceberg://main/plant\.messages over"):
        first.commit(moved(first), [], {})
    first.refresh()
    with pytest.raises(PermanentError, match=r"another process has taken iceberg://main/plant\.messages over"):
        first.take_claim(2, {})

    end = moved(second)
    second.commit(end, [], {})
    assert IcebergLake.open(ADDRESS).offsets == end


# ---- other programs


def compacted_by_another_program(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file with all rows instead of many, as a snapshot that only replaces: pyiceberg itself makes none."""
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update import snapshot as module

    every = table.scan().to_arrow().cast(file_format(table.schema()).schema)
    real = module.update_snapshot_summaries  # type: ignore[attr-defined]

    def summaries(summary: Any, previous_summary: Any = None) -> Any:
        made = real(summary, previous_summary)
        return made.model_copy(update={"operation": Operation.REPLACE})

    with monkeypatch.context() as patched:
        patched.setattr(module, "update_snapshot_summaries", summaries)
        with table.transaction() as transaction:
            update = transaction.update_snapshot().overwrite()
            [written] = write_like_another(table, every)
            for task in table.scan().plan_files():
                update.delete_data_file(task.file)
            update.append_data_file(written)
            update.commit()


def take_out_a_file(table: Table) -> int:
    """As a program does that deletes; how many rows went."""
    file = next(iter(table.scan().plan_files())).file
    with table.transaction() as transaction:
        update = transaction.update_snapshot().overwrite()
        update.delete_data_file(file)
        update.commit()
    return file.record_count


def write_like_another(table: Table, every: Any) -> list[Any]:
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    [pattern] = set(every.column("pattern").to_pylist())
    assert pattern == "#", "all is in one partition"
    path = f"{table.location()}/data/part-1.parquet"
    pq.write_table(every, path.removeprefix("file://"))
    return [parquet_file_to_data_file(table.io, table.metadata, path)]


def test_a_table_that_another_program_has_compacted_is_archived_further(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        log.publish(*[f"odd/{number}"] * 3)
    job = ArchiveJob(parse_read_options({"path": log.path}), ADDRESS, "main", batch_rows=40, most_patterns=0)
    run_archive(job, lambda: here)
    lake, before = IcebergLake.open(ADDRESS), archived(options)
    assert len(lake.list_files()) > 1
    compacted_by_another_program(table_of(options), monkeypatch)
    assert archived(options) == before
    assert len(IcebergLake.open(ADDRESS).list_files()) == 1

    # A batch that began before the other program was done.
    end = moved(lake)
    lake.commit(end, [], {})
    assert IcebergLake.open(ADDRESS).offsets == end
    log.publish("later")
    assert run_archive(job, lambda: here).rows == 1

    assert archived(options) == sorted(log.walk())


def test_the_mark_outlives_the_snapshots_that_another_program_forgets(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _number in range(20):
        log.publish("odd/1")
    job = ArchiveJob(parse_read_options({"path": log.path}), ADDRESS, "main", batch_rows=10, most_patterns=0)
    run_archive(job, lambda: here)
    offsets = IcebergLake.open(ADDRESS).offsets
    compacted_by_another_program(table_of(options), monkeypatch)
    table_of(options).maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()
    assert snapshots(options) == 1

    assert IcebergLake.open(ADDRESS).offsets == offsets
    assert run_archive(job, lambda: here).batches == 0


def test_rows_that_another_program_removed_are_refused_until_it_is_undone(log: Log, options: dict[str, str]) -> None:
    log.fill(50)
    archive(log.path, ADDRESS)
    table = table_of(options)
    own = table.current_snapshot()
    assert own is not None
    gone = take_out_a_file(table)
    log.fill(10)
    with pytest.raises(PermanentError, match=f"roll the table back to snapshot {own.snapshot_id}"):
        archive(log.path, ADDRESS)
    assert len(archived(options)) == 50 - gone

    with table_of(options).manage_snapshots() as snapshots_of:
        snapshots_of.rollback_to_snapshot(own.snapshot_id)
    assert archive(log.path, ADDRESS).rows == 10
    assert archived(options) == sorted(log.walk())


def check_refused_until_rolled_back(log: Log, options: dict[str, str], snapshot_id: int) -> None:
    for _again in range(2):
        with pytest.raises(PermanentError, match=f"roll the table back to snapshot {snapshot_id}"):
            archive(log.path, ADDRESS)
    with table_of(options).manage_snapshots() as snapshots_of:
        snapshots_of.rollback_to_snapshot(snapshot_id)
    archive(log.path, ADDRESS)
    assert archived(options) == sorted(log.walk())


@pytest.mark.parametrize("refreshed", [True, False])
def test_rows_that_another_program_removes_during_a_run_are_not_written_over(
    log: Log, options: dict[str, str], *, refreshed: bool
) -> None:
    log.fill(50)
    archive(log.path, ADDRESS)
    lake = IcebergLake.open(ADDRESS)
    lake.take_claim(1, {})
    head = lake.table.current_snapshot()
    assert head is not None
    take_out_a_file(table_of(options))
    if refreshed:
        lake.refresh()

    with pytest.raises(PermanentError, match="was changed by something else"):
        lake.commit(moved(lake), [], {})
    writer._release(lake, finished=False)

    check_refused_until_rolled_back(log, options, head.snapshot_id)


def test_an_archive_that_slept_while_another_program_removed_rows_ends(log: Log, options: dict[str, str]) -> None:
    log.fill(50)
    heads: list[int] = []

    def pause(_seconds: float) -> bool:
        table = table_of(options)
        head = table.current_snapshot()
        assert head is not None
        heads.append(head.snapshot_id)
        take_out_a_file(table)
        log.fill(20)
        return True

    job = ArchiveJob(parse_read_options({"path": log.path}), ADDRESS, "main", every_s=10.0)
    with pytest.raises(PermanentError, match="was changed by something else"):
        run_archive(job, lambda: here, pause=pause)

    check_refused_until_rolled_back(log, options, heads[0])


def test_a_table_that_was_rolled_back_gets_again_what_it_lost(log: Log, options: dict[str, str]) -> None:
    log.fill(50)
    archive(log.path, ADDRESS)
    first = table_of(options).current_snapshot()
    assert first is not None
    log.fill(30)
    archive(log.path, ADDRESS)
    with table_of(options).manage_snapshots() as snapshots_of:
        snapshots_of.rollback_to_snapshot(first.snapshot_id)

    assert archive(log.path, ADDRESS).rows == 30
    assert archived(options) == sorted(log.walk())


def test_a_table_without_a_mark_that_counts_is_not_filled_again(log: Log, options: dict[str, str]) -> None:
    log.fill(50)
    archive(log.path, ADDRESS)
    gone = take_out_a_file(table_of(options))
    table_of(options).maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()

    for use in (lambda: archive(log.path, ADDRESS), lambda: lake_status(ADDRESS)):
        with pytest.raises(PermanentError, match="has no mark of how far it is"):
            use()
    assert len(archived(options)) == 50 - gone


def test_a_table_that_was_dropped_and_made_again_is_not_taken_for_the_same(log: Log, options: dict[str, str]) -> None:
    log.fill(50)
    archive(log.path, ADDRESS)
    lake = IcebergLake.open(ADDRESS)
    with other_program(options) as catalog:
        catalog.drop_table(NAME)
        with pytest.raises(PermanentError, match="was dropped meanwhile"):
            lake.refresh()
        catalog.create_table(NAME, lake.table.schema())
    with pytest.raises(PermanentError, match="was dropped meanwhile"):
        lake.refresh()


# ---- what does not fit


def test_a_lake_has_one_archive(log: Log, options: dict[str, str]) -> None:
    log.fill(10)
    archive(log.path, ADDRESS, "first")

    with pytest.raises(SettingsError, match="is the lake of the archive 'first', not of 'second'; give --name first"):
        archive(log.path, ADDRESS, "second")


def test_a_table_that_no_archive_made_is_refused(log: Log, options: dict[str, str]) -> None:
    log.fill(10)
    with other_program(options) as catalog:
        catalog.create_namespace("plant")
        catalog.create_table(NAME, Schema(NestedField(1, "name", StringType())))

    with pytest.raises(SettingsError, match="is an Iceberg table that no archive made"):
        archive(log.path, ADDRESS)
    assert snapshots(options) == 0


def test_a_lake_of_another_broker_is_refused(log: Log, options: dict[str, str], tmp_path: Path) -> None:
    log.fill(100)
    archive(log.path, ADDRESS)
    (tmp_path / "other").mkdir()
    other = Log(tmp_path / "other")
    try:
        other.node.clock.advance(5_000_000)
        other.fill(300)
        with pytest.raises(PermanentError, match="the lake belongs to another broker"):
            archive(other.path, ADDRESS)
    finally:
        other.close()
    assert archived(options) == sorted(log.walk())


def test_a_column_of_another_type_is_refused_and_a_new_one_is_added(log: Log, options: dict[str, str]) -> None:
    log.fill(20)
    archive(log.path, ADDRESS)
    with table_of(options).update_schema() as update:
        update.delete_column("received_at")
    log.fill(20)
    archive(log.path, ADDRESS)
    found = rows(options)
    assert sum(row["received_at"] is not None for row in found) == 20, "older rows have none"
    with table_of(options).update_schema() as update:
        update.delete_column("received_at")
    with table_of(options).update_schema() as update:
        update.add_column("received_at", LongType())
    log.fill(20)

    with pytest.raises(PermanentError, match="has a column received_at of type long, and here it is timestamptz"):
        archive(log.path, ADDRESS)
    assert len(rows(options)) == 40


def test_a_table_that_is_partitioned_otherwise_is_refused(log: Log, options: dict[str, str]) -> None:
    log.fill(20)
    archive(log.path, ADDRESS)
    with table_of(options).update_spec() as update:
        update.remove_field("pattern")

    with pytest.raises(PermanentError, match=r"an archive writes day\(ts\) and pattern"):
        archive(log.path, ADDRESS)


def test_what_the_lake_holds_is_said(log: Log, options: dict[str, str]) -> None:
    log.fill(60)
    archive(log.path, ADDRESS)
    log.fill(40)

    found = lake_status(ADDRESS, parse_read_options({"path": log.path}))

    assert (found.name, found.version, found.rows) == ("main", 1, 60)
    assert (found.first_day, found.last_day) == ("2023-11-14", "2023-11-14")
    assert sum(shard.behind or 0 for shard in found.shards) == 40


def test_a_conflict_is_not_repaired_by_pyiceberg(log: Log, options: dict[str, str]) -> None:
    """By itself it adds a batch behind that of another writer: both would have the same messages."""
    log.fill(20)
    archive(log.path, ADDRESS)
    late = IcebergLake.open(ADDRESS)
    transaction, _own_id = late._staged([], [], 0, moved(late), {})
    early = IcebergLake.open(ADDRESS)
    early.commit(moved(early), [], {})

    with pytest.raises(CommitFailedException):
        transaction.commit_transaction()
    assert snapshots(options) == 2
