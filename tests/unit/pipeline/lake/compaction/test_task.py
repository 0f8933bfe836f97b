"""A large file has the rows of the small ones and the columns of the table, and is only there if it is whole."""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.compaction.plan import FileBin, SmallFile
from holdfast.pipeline.lake.compaction.task import FileMerge
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.store import LakeStore

SCHEMA = pa.schema([pa.field("serial", pa.int64()), pa.field("payload", pa.binary()), pa.field("newer", pa.string())])


def small(folder: Path, name: str, rows: int, **columns: Any) -> SmallFile:
    path = folder / "day=1" / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"serial": range(rows), **columns}), path, use_dictionary=False)
    return SmallFile(f"day=1/{name.replace('%', '%25')}", path.stat().st_size, rows)


def merged(folder: Path, *files: SmallFile, bounds: tuple[str, ...] = ("serial",)) -> Any:
    return FileMerge(LakeStore.at(folder), SCHEMA, ("newer",))(FileBin("day=1/p", {"day": "1"}, bounds, files))


def test_columns_that_older_files_lack_are_null(tmp_path: Path) -> None:
    old = small(tmp_path, "old%2F.parquet", 3)
    new = small(tmp_path, "new.parquet", 2, payload=[b"a", b"b"], newer=["x", "y"])

    found = merged(tmp_path, old, new)

    with pq.ParquetFile(tmp_path / found.path) as file:
        assert file.schema_arrow.equals(SCHEMA)
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
        assert file.read().to_pydict() == {
            "serial": [0, 1, 2, 0, 1],
            "payload": [None, None, None, b"a", b"b"],
            "newer": [None, None, None, "x", "y"],
        }
    assert (found.rows, found.partition) == (5, {"day": "1"})
    assert found.size_bytes == (tmp_path / found.path).stat().st_size
    stats = {"numRecords": 5, "minValues": {"serial": 0}, "maxValues": {"serial": 2}, "nullCount": {"serial": 0}}
    assert json.loads(found.stats) == stats


def test_rows_that_are_not_as_many_as_the_table_says_are_an_error(tmp_path: Path) -> None:
    right, wrong = small(tmp_path, "a.parquet", 3), small(tmp_path, "b.parquet", 3)._replace(rows=4)

    error = merged(tmp_path, right, wrong)

    assert isinstance(error, PermanentError)
    assert "b.parquet has 3 rows, and by the log of the table it has 4" in str(error)
    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == ["a.parquet", "b.parquet"]


def test_a_file_that_cannot_be_read_is_named_and_leaves_no_half_of_a_large_one(tmp_path: Path) -> None:
    """It is given and not raised: other bins are written all the same."""
    broken = small(tmp_path, "broken.parquet", 3)
    (tmp_path / "day=1" / "broken.parquet").write_bytes(b"PAR1")

    for bad in (SmallFile("day=1/gone.parquet", 1, 1), broken):
        error = merged(tmp_path, small(tmp_path, "a.parquet", 3), bad)
        assert isinstance(error, TransientError)
        assert f"{bad.name} cannot be read: " in str(error)

    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == ["a.parquet", "broken.parquet"]


def test_files_without_rows_become_no_file(tmp_path: Path) -> None:
    assert merged(tmp_path, small(tmp_path, "a.parquet", 0), small(tmp_path, "b.parquet", 0)) is None
    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == ["a.parquet", "b.parquet"]


def test_times_without_a_zone_have_the_bounds_that_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the worker runs. Of those with a zone the bounds are in UTC."""
    at = datetime(2026, 1, 1, 12, 0, 0, 1_500)
    plain, zoned = pa.array([at], pa.timestamp("us")), pa.array([at], pa.timestamp("us", "UTC"))
    file = small(tmp_path, "a.parquet", 1, plain=plain, zoned=zoned)
    schema = pa.schema([pa.field("plain", plain.type), pa.field("zoned", zoned.type)])
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        merge = FileMerge(LakeStore.at(tmp_path), schema, True)
        found = merge(FileBin("day=1/p", {"day": "1"}, ("plain", "zoned"), (file,)))
    finally:
        monkeypatch.undo()
        time.tzset()

    assert isinstance(found, DataFile)
    stats = json.loads(found.stats)
    assert stats["minValues"] == {"plain": "2026-01-01T12:00:00.001", "zoned": "2026-01-01T12:00:00.001Z"}
    assert stats["maxValues"] == {"plain": "2026-01-01T12:00:00.002", "zoned": "2026-01-01T12:00:00.002Z"}


def test_large_rows_make_small_row_groups(tmp_path: Path) -> None:
    """What a task holds does not grow with its bin."""
    payloads = [bytes(2**20)] * 100  # they take next to nothing in a file
    files = [small(tmp_path, f"{number}.parquet", 100, payload=payloads) for number in range(2)]

    with pq.ParquetFile(tmp_path / merged(tmp_path, *files).path) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]

    assert sum(groups) == 200
    assert max(groups) <= 80
