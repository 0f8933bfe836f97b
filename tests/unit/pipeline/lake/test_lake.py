"""A lake belongs to one archive, keeps its offsets, and gets the columns that are new."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.lake import archive as archive_module
from holdfast.pipeline.lake import writer
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.source.offsets import Offset, Offsets
from holdfast.pipeline.source.read_options import parse_read_options
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, archived, here, rows


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_offsets_outlive_the_transactions_that_set_them(log: Log, lake: Path) -> None:
    """Delta sums its log up now and then, and removes what is old."""
    log.fill(200)
    archive(log.path, lake)
    offsets = Lake.open(lake).offsets
    table = DeltaTable(str(lake))
    for _step in range(3):
        table.alter.set_table_description("later")
    table.create_checkpoint()
    for path in (lake / "_delta_log").glob("0000*.json"):
        if path.name != f"{table.version():020}.json":
            path.unlink()

    assert Lake.open(lake).offsets == offsets
    assert archive(log.path, lake).batches == 0


def test_a_writer_that_the_lock_did_not_stop_is_stopped_by_delta(log: Log, lake: Path) -> None:
    log.fill(100)
    archive(log.path, lake)
    first, second = Lake.open(lake), Lake.open(lake)
    end = {shard: Offset(offset.position_us + 1, offset.serial) for shard, offset in first.offsets.items()}
    first.commit(end, [], {})

    with pytest.raises(PermanentError, match="another process wrote to the lake"):
        second.commit(end, [], {})


def moved(lake: Lake) -> Offsets:
    """A little further than the lake is, without a message in between."""
    return {shard: Offset(offset.position_us + 1, offset.serial) for shard, offset in lake.offsets.items()}


def check_refused_until_restored(log: Log, lake: Path, version: int) -> None:
    """A version without the rows that another program deleted."""
    for _again in range(2):
        with pytest.raises(PermanentError, match=f"changed by something else: .* DELETE .*; restore version {version}"):
            archive(log.path, lake)
    DeltaTable(str(lake)).restore(version)
    archive(log.path, lake)
    assert archived(lake) == sorted(log.walk())


@pytest.mark.parametrize("refreshed", [True, False])
def test_rows_that_another_program_deletes_during_a_run_are_not_written_over(
    log: Log, lake: Path, *, refreshed: bool
) -> None:
    log.fill(60)
    archive(log.path, lake)
    opened = Lake.open(lake)
    opened.take_claim(1, {})
    version = opened.version
    DeltaTable(str(lake)).delete("shard = 0")
    if refreshed:
        opened.refresh()

    with pytest.raises(PermanentError, match="changed by something else"):
        opened.commit(moved(opened), [], {})
    with pytest.raises(PermanentError, match="changed by something else"):
        opened.replace([], [], {})
    writer._release(opened, finished=False)

    check_refused_until_restored(log, lake, version)


#: Of Delta's own examples: rows 3, 4, 7, 11, 18 and 29 are deleted.
VECTOR = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}
VECTORS = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}


def delete_by_vector(lake: Path) -> None:
    """As another program does it: the same file again, with a vector of the rows that are deleted."""
    version = DeltaTable(str(lake)).version()
    lines = (lake / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    added = [entry["add"] for entry in map(json.loads, lines) if "add" in entry]
    file = next(one for one in added if json.loads(one["stats"])["numRecords"] >= 30)
    gone = {key: file[key] for key in ("path", "partitionValues", "size")}
    entries = [
        {"commitInfo": {"timestamp": file["modificationTime"], "operation": "DELETE"}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **VECTORS}},
        {"remove": gone | {"deletionTimestamp": file["modificationTime"], "dataChange": True}},
        {"add": file | {"deletionVector": VECTOR}},
    ]
    path = lake / "_delta_log" / f"{version + 1:020}.json"
    path.write_text("\n".join(map(json.dumps, entries)), encoding="utf-8")


@pytest.mark.parametrize("begun", [True, False])
def test_rows_that_another_program_deletes_by_vectors_are_missed(log: Log, lake: Path, *, begun: bool) -> None:
    """The table has the same files as before."""
    log.fill(200)
    archive(log.path, lake)
    opened = Lake.open(lake)
    version = opened.version
    delete_by_vector(lake)
    log.fill(20)

    with pytest.raises(PermanentError, match=f"changed by something else: .* DELETE .*; restore version {version}"):
        opened.replace(opened.list_files(), [], {}) if begun else archive(log.path, lake)
    assert Lake.open(lake).version == version + 1


def test_a_claim_behind_rows_that_another_program_deletes_is_refused_for_that(log: Log, lake: Path) -> None:
    log.fill(60)
    archive(log.path, lake)
    opened = Lake.open(lake)
    DeltaTable(str(lake)).delete("shard = 0")

    with pytest.raises(PermanentError, match=r"changed by something else: .* DELETE"):
        writer._take(opened, "archive", lambda _seconds: None)


def test_an_archive_that_slept_while_another_program_deleted_rows_ends(log: Log, lake: Path) -> None:
    log.fill(60)
    versions: list[int] = []

    def pause(_seconds: float) -> bool:
        versions.append(Lake.open(lake).version)
        DeltaTable(str(lake)).delete("shard = 0")
        log.fill(20)
        return True

    job = ArchiveJob(parse_read_options({"path": log.path}), lake, "main", every_s=10.0)
    with pytest.raises(PermanentError, match="changed by something else"):
        run_archive(job, lambda: here, pause=pause)

    check_refused_until_restored(log, lake, versions[0])


def test_what_another_program_replaces_or_describes_during_a_run_is_no_conflict(log: Log, lake: Path) -> None:
    for _run in range(2):
        log.fill(60)
        archive(log.path, lake)
    opened = Lake.open(lake)
    DeltaTable(str(lake)).alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})
    DeltaTable(str(lake)).optimize.compact()
    end = moved(opened)
    opened.commit(end, [], {})

    assert Lake.open(lake).offsets == end
    log.fill(20)
    assert archive(log.path, lake).rows == 20
    assert archived(lake) == sorted(log.walk())


def test_files_that_another_program_has_replaced_are_not_replaced_again(log: Log, lake: Path) -> None:
    for _run in range(2):
        log.fill(60)
        archive(log.path, lake)
    opened, untouched = Lake.open(lake), Lake.open(lake)
    gone = opened.list_files()
    DeltaTable(str(lake)).optimize.compact()

    with pytest.raises(PermanentError, match="another process wrote to the lake"):
        opened.replace(gone, [], {})
    assert archived(lake) == sorted(log.walk())
    untouched.refresh()
    DeltaTable(str(lake)).alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})
    untouched.replace(untouched.list_files(), [], {})
    assert rows(lake) == []


def test_a_lake_has_one_archive(log: Log, lake: Path) -> None:
    log.fill(10)
    archive(log.path, lake, "first")

    with pytest.raises(SettingsError, match="is the lake of the archive 'first', not of 'second'"):
        archive(log.path, lake, "second")


def test_a_folder_with_something_else_is_no_lake(log: Log, lake: Path) -> None:
    lake.mkdir()
    (lake / "letter.txt").write_text("dear")

    with pytest.raises(SettingsError, match="is no lake, and it is not empty"):
        archive(log.path, lake)
    assert (lake / "letter.txt").exists()


def test_a_table_of_an_older_holdfast_gets_the_new_columns(
    log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.pipeline.lake import lake as lake_module

    older = lake_module.TABLE_SCHEMA
    for name in ("received_at", "properties"):
        older = older.remove(older.get_field_index(name))
    monkeypatch.setattr(lake_module, "TABLE_SCHEMA", older)
    monkeypatch.setattr(archive_module, "COLUMNS", tuple(older.names[:-2]))
    log.fill(30)
    archive(log.path, lake)
    assert "received_at" not in rows(lake)[0]
    monkeypatch.undo()

    log.fill(30)
    archive(log.path, lake)

    assert archived(lake) == sorted(log.walk())
    assert sorted(row["received_at"] is None for row in rows(lake)) == [False] * 30 + [True] * 30
