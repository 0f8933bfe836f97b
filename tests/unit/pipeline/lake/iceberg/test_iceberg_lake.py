"""An Iceberg lake has every message once, and says how far it is, whatever dies when and whoever writes beside it.

The archive runs its tasks in the process of the test.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Transaction

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake import archive as archive_module
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.lake.erasures import erasures_of
from holdfast.pipeline.lake.formats import open_archive
from holdfast.pipeline.lake.iceberg import iceberg_lake as lake_module
from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.lake.iceberg.mark import decode_mark
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.storage.rocks.log.erasure_file import erase
from holdfast.storage.rocks.log.leases import read_leases
from tests.unit.pipeline.filled_log import Log, keys
from tests.unit.pipeline.iceberg_tables import (
    ADDRESS,
    archived,
    catalog_options,
    catalog_variables,
    data_files,
    moved,
    rows,
    snapshots,
    table_of,
)
from tests.unit.pipeline.local_archive import archive, here, served


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


# ---- what is in it


def test_each_message_is_archived_once_with_what_it_says(log: Log, options: dict[str, str]) -> None:
    log.fill(2_000)
    log.rotate()
    log.fill(500)

    outcome = archive(log.path, ADDRESS, batch_rows=700)

    columns = ("shard", "serial", "offset", "topic", "client_id", "payload", "qos", "retain")
    found = [tuple(row[name] for name in columns) for row in rows(options)]
    right = [
        (
            shard,
            stored.serial,
            stored.position_us,
            stored.message.topic.decode(),
            stored.message.publisher,
            stored.message.payload,
            stored.message.qos,
            stored.message.retain,
        )
        for (shard, _serial), stored in log.walk().items()
    ]
    assert sorted(found) == sorted(right)
    assert (outcome.rows, outcome.batches, outcome.lost, outcome.version) == (2_500, 4, 0, 4)


def test_every_snapshot_has_exactly_the_rows_up_to_its_mark(log: Log, options: dict[str, str]) -> None:
    log.fill(1_000)
    archive(log.path, ADDRESS, batch_rows=300)
    table = table_of(options)

    for snapshot in table.metadata.snapshots:
        assert snapshot.summary is not None
        mark = decode_mark(str(snapshot.summary["holdfast.mark"]))
        assert mark is not None
        found = keys(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist())
        right = [(shard, serial) for shard in sorted(mark.end) for serial in range(1, mark.end[shard].serial + 1)]
        assert found == right
        assert (mark.records, mark.sequence) == (len(right), snapshot.sequence_number)


def test_a_run_goes_on_where_the_last_one_ended(log: Log, options: dict[str, str]) -> None:
    log.fill(300)
    archive(log.path, ADDRESS)
    assert archive(log.path, ADDRESS).batches == 0
    assert snapshots(options) == 1, "a run without messages changes nothing"
    log.fill(300)
    log.rotate()
    log.fill(40)

    assert archive(log.path, ADDRESS).rows == 340
    assert archived(options) == sorted(log.walk())


def test_an_endpoint_is_archived_like_a_folder(log: Log, options: dict[str, str]) -> None:
    log.fill(200)
    with served(log.path) as endpoint:
        archive(endpoint, ADDRESS)

    assert archived(options) == sorted(log.walk())
    [lease] = read_leases(Path(log.path))
    assert lease.positions == {shard: offset.position_us for shard, offset in IcebergLake.open(ADDRESS).offsets.items()}


def test_days_and_learned_patterns_are_partitions(log: Log, options: dict[str, str]) -> None:
    for day in range(2):
        for number in range(40):
            log.publish(f"plant/{number}/temp", f"hall/{number}/a/b", "rare/thing" if number == 7 else "plant/1/temp")
        log.node.clock.advance(86_400_000_000)
        if day == 0:
            log.rotate()
    archive(log.path, ADDRESS)

    table = table_of(options)
    assert {str(field.transform) for field in table.spec().fields} == {"day", "identity"}
    found = rows(options)
    assert {row["pattern"] for row in found if row["topic"] == "plant/33/temp"} == {"plant/+/temp"}
    assert {row["pattern"] for row in found if row["topic"] == "rare/thing"} == {"#"}
    # A reader that knows nothing of Holdfast skips days by `ts`, and patterns by `pattern`.
    second = [row for row in found if row["ts"].date() == date(2023, 11, 15)]
    scan = table.scan("ts >= '2023-11-15T00:00:00+00:00' and pattern = 'plant/+/temp'")
    planned = [task.file for task in scan.plan_files()]
    assert 0 < len(planned) < len(list(table.scan().plan_files()))
    assert sum(file.record_count for file in planned) == sum(row["pattern"] == "plant/+/temp" for row in second)


def test_statistics_exclude_no_row(log: Log, options: dict[str, str]) -> None:
    log.fill(500)
    archive(log.path, ADDRESS)
    lake = IcebergLake.open(ADDRESS)

    for file in lake.list_files():
        held = pq.ParquetFile(f"{lake.store}/{file['path'].replace('%3D', '=')}").read().to_pylist()
        assert file["num_records"] == len(held)
        for name in ("ts", "shard", "offset", "serial"):
            values = [row[name] for row in held]
            assert file[f"min.{name}"] <= min(values), name
            assert file[f"max.{name}"] >= max(values), name
    assert all(set(task.file.lower_bounds) == {1, 2, 3, 14} for task in lake.table.scan().plan_files())


def test_files_carry_the_numbers_of_their_columns(log: Log, options: dict[str, str]) -> None:
    """Without them a reader of Iceberg would have to guess by names."""
    log.fill(20)
    archive(log.path, ADDRESS)
    table = table_of(options)

    path = next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://")
    schema = pq.ParquetFile(path).schema_arrow
    assert {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema} == {
        field.name: field.field_id for field in table.schema().fields
    }
    pairs, right = schema.field("user_properties").type, table.schema().find_type("user_properties")
    assert int(pairs.key_field.metadata[b"PARQUET:field_id"]) == right.key_id  # type: ignore[attr-defined]
    assert int(pairs.item_field.metadata[b"PARQUET:field_id"]) == right.value_id  # type: ignore[attr-defined]


def test_duckdb_reads_the_files_that_a_scan_plans(log: Log, options: dict[str, str]) -> None:
    """DuckDB's own extension for Iceberg would have to be fetched: it gets the table's files from pyiceberg."""
    log.fill(400)
    archive(log.path, ADDRESS, batch_rows=150)
    files = [task.file.file_path.removeprefix("file://") for task in table_of(options).scan().plan_files()]

    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT shard, serial, payload FROM read_parquet(?, hive_partitioning = false)", [files]
        ).fetchall()
        with table_of(options).scan().to_duckdb("messages", connection) as same:
            by_pattern = same.execute("SELECT pattern, count(*) FROM messages GROUP BY pattern").fetchall()

    right = [(shard, serial, stored.message.payload) for (shard, serial), stored in log.walk().items()]
    assert sorted(found) == sorted(right)
    assert sum(count for _pattern, count in by_pattern) == len(right)


def test_what_was_erased_before_it_was_archived_is_recorded(log: Log, options: dict[str, str]) -> None:
    log.fill(200)
    up_to = {shard: max(s.position_us for (of, _), s in log.walk().items() if of == shard) for shard in (0, 1)}
    client = next(iter(log.walk().values())).message.publisher
    meant = {key for key, stored in log.walk().items() if stored.message.publisher == client}
    erase(Path(log.path), client=client, topic="", up_to=up_to, now_us=log.now_us, made_by="test")

    archive(log.path, ADDRESS)

    assert archived(options) == sorted(log.walk().keys() - meant)
    recorded = erasures_of(IcebergLake.open(ADDRESS).store).to_pylist()
    assert sum(row["rows"] for row in recorded) == len(meant) > 0


# ---- deaths


class Died(BaseException):
    """As a kill would: nothing behind it runs."""


@pytest.mark.parametrize(
    ("module", "point", "done"),
    [
        (archive_module, "archive-written", 0),
        (lake_module, "archive-staged", 0),
        (archive_module, "archive-committed", 400),
    ],
    ids=["written", "staged", "committed"],
)
def test_a_death_around_the_commit_loses_and_repeats_nothing(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, module: Any, point: str, done: int
) -> None:
    log.fill(600)

    def die(name: str) -> None:
        if name == point:
            raise Died

    monkeypatch.setattr(module, "fault", die)
    with pytest.raises(Died):
        archive(log.path, ADDRESS, batch_rows=400)
    monkeypatch.undo()
    for name, value in catalog_variables(options).items():
        monkeypatch.setenv(name, value)
    lake = IcebergLake.open(ADDRESS)
    assert len(archived(options)) == sum(offset.serial for offset in lake.offsets.values()) == done
    left = data_files(lake)
    assert left, "files are there before the table has them"
    assert [lease.positions for lease in read_leases(Path(log.path))] == [{0: 0, 1: 0}], "retention still waits"

    outcome = archive(log.path, ADDRESS, batch_rows=400)

    assert outcome.rows == 600 - done
    assert outcome.swept == (0 if done else len(left))
    assert archived(options) == sorted(log.walk())
    assert len(data_files(lake)) == len(IcebergLake.open(ADDRESS).list_files()), "files are left"


def test_what_a_killed_writer_has_asked_for_is_refused_before_its_files_go(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog may take up what it was asked for when nobody waits for its answer any more."""
    log.fill(100)
    archive(log.path, ADDRESS)
    log.fill(50)
    asked: list[Transaction] = []

    def die(transaction: Transaction) -> None:
        asked.append(transaction)
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "commit_transaction", die)
        with pytest.raises(Died):
            archive(log.path, ADDRESS)

    with open_archive(ADDRESS, "main") as lake:
        assert lake.was_left
        assert lake.sweep() > 0
        with pytest.raises(CommitFailedException):
            asked[0].commit_transaction()
        assert lake.sweep() == 0

    assert len(archived(options)) == 100
    assert archive(log.path, ADDRESS).rows == 50
    assert archived(options) == sorted(log.walk())


@pytest.mark.parametrize("times", [0, 2])
def test_a_batch_with_too_few_or_too_many_rows_is_not_committed(log: Log, options: dict[str, str], times: int) -> None:
    log.fill(100)
    job = ArchiveJob(parse_read_options({"path": log.path}), ADDRESS, "main")

    with pytest.raises(PermanentError, match=r"gave \d+ messages, and by their serials"):
        run_archive(job, lambda: lambda work, tasks: here(work, tasks) * times)

    assert rows(options) == []
    assert snapshots(options) == 0


@pytest.mark.parametrize(
    "answer",
    [ConnectionError("the connection was closed"), CommitFailedException("branch main has changed")],
    ids=["none", "refused"],
)
def test_a_commit_whose_answer_is_lost_has_happened_once(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, answer: Exception
) -> None:
    """It is refused where something on the way has asked again: what it asks for has happened."""
    log.fill(100)
    archive(log.path, ADDRESS)
    lake = IcebergLake.open(ADDRESS)
    real = lake.table.catalog.commit_table

    def unanswered(*given: Any) -> Any:
        real(*given)
        raise answer

    monkeypatch.setattr(lake.table.catalog, "commit_table", unanswered)
    end = moved(lake)
    lake.commit(end, [], {})

    assert lake.offsets == IcebergLake.open(ADDRESS).offsets == end
    assert snapshots(options) == 2
    assert archived(options) == sorted(log.walk())
    log.fill(10)
    assert archive(log.path, ADDRESS).rows == 10
    assert archived(options) == sorted(log.walk())


def test_of_a_commit_that_is_refused_after_it_landed_every_file_stays(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(100)
    real = SqlCatalog.commit_table

    def refused(*given: Any) -> Any:
        real(*given)
        raise CommitFailedException("branch main has changed")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", refused)
        assert archive(log.path, ADDRESS, batch_rows=40).rows == 100

    assert archived(options) == sorted(log.walk())
    log.fill(10)
    assert archive(log.path, ADDRESS).rows == 10
    assert archived(options) == sorted(log.walk())


def test_a_commit_that_did_not_come_through_is_a_transient_error_and_changes_nothing(
    log: Log, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(100)
    archive(log.path, ADDRESS)
    lake = IcebergLake.open(ADDRESS)
    before = lake.offsets

    def silent(*_given: Any) -> Any:
        raise ConnectionError("no route")

    monkeypatch.setattr(lake.table.catalog, "commit_table", silent)
    with pytest.raises(TransientError, match="cannot be written: no route"):
        lake.commit(moved(lake), [], {})

    assert lake.offsets == IcebergLake.open(ADDRESS).offsets == before
