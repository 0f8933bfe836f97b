"""A lake belongs to one archive, keeps its offsets, and gets the columns that are new."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.lake import archive as archive_module
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.source.offsets import Offset
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, archived, rows


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
