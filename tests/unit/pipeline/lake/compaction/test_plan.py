"""Bins of a plan are bounded, each is worth it, and what is not known for certain is in none."""

import json
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.pipeline.declared.table import PipelineTable
from holdfast.pipeline.lake.compaction.plan import BIN_BYTES, FileBin, crowded_partitions, plan_compaction
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.source.offsets import Offset

MB = 2**20
TODAY = "2026-03-02"
OVER = "2026-03-01"
#: Of Delta's own examples.
VECTOR = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open_or_make(tmp_path / "lake", "main")


def file(number: int, size_bytes: int, day: str | None = OVER, pattern: str = "#", stats: str = "") -> DataFile:
    """As the table knows it: a plan opens none."""
    bounds = {"ts": "2026-03-01T00:00:00Z", "offset": number, "serial": number}
    known = {"numRecords": 10, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
    partition = {"day": day, "pattern": pattern}
    return DataFile(f"day={day}/hf-{number}.parquet", partition, size_bytes, 1, 10, stats or json.dumps(known))


def add(lake: Lake, *files: DataFile) -> None:
    serial = lake.offsets[0].serial + 1 if lake.offsets else 1
    lake.commit({0: Offset(serial, serial)}, files, {})


def numbers(one: FileBin) -> list[int]:
    return [int(small.name.rpartition("-")[2].removesuffix(".parquet")) for small in one.files]


def test_bins_follow_the_log_and_are_about_as_large_as_a_large_file(lake: Lake) -> None:
    add(lake, *(file(number, (20 + number % 7) * MB) for number in (7, 3, 11, 1, 9, 2, 5, 4, 10, 6, 8)))

    bins = plan_compaction(lake, TODAY)

    assert [number for one in bins for number in numbers(one)] == list(range(1, 11)), "the last is alone, and stays"
    assert all(len(one.files) > 1 for one in bins)
    assert all(sum(small.size_bytes for small in one.files) <= BIN_BYTES for one in bins)
    assert len(bins) == 2
    assert all(one.rows == 10 * len(one.files) for one in bins)


def test_columns_have_bounds_in_a_large_file_if_all_small_ones_have(lake: Lake) -> None:
    without = json.dumps({"numRecords": 10, "minValues": {"ts": "2026-03-01T00:00:00Z", "serial": 1}})
    add(lake, *(file(number, MB) for number in range(4)))
    assert [one.bounds for one in plan_compaction(lake, TODAY)] == [("offset", "serial", "ts")]
    add(lake, file(4, MB, stats=without))
    assert [one.bounds for one in plan_compaction(lake, TODAY)] == [()]


def test_a_day_that_goes_on_may_have_more_small_files(lake: Lake) -> None:
    add(lake, *(file(number, MB, TODAY) for number in range(64)), *(file(100 + number, MB) for number in range(3)))
    assert plan_compaction(lake, TODAY) == []
    add(lake, file(64, MB, TODAY))
    assert [numbers(one) for one in plan_compaction(lake, TODAY)] == [list(range(65))]
    add(lake, file(103, MB))
    assert sorted(crowded_partitions(lake, TODAY, ()).items()) == [((OVER, "#"), 4), ((TODAY, "#"), 65)]


def test_large_files_and_those_that_are_alone_stay(lake: Lake) -> None:
    large = [file(number, 64 * MB) for number in range(9)]
    add(lake, *large, *(file(10 + number, 31 * MB) for number in range(5)))
    [one] = plan_compaction(lake, TODAY)
    assert numbers(one) == [10, 11, 12, 13]


@pytest.mark.parametrize("stats", ["{}", '{"minValues": {"serial": 1}}'])
def test_a_file_whose_rows_are_not_counted_stays(lake: Lake, stats: str) -> None:
    add(lake, *(file(number, MB) for number in range(4)), *(file(number, MB, stats=stats) for number in range(4, 9)))
    assert [numbers(one) for one in plan_compaction(lake, TODAY)] == [[0, 1, 2, 3]]


def test_a_file_with_a_deletion_vector_stays(lake: Lake) -> None:
    """Its rows that are deleted would come back."""
    add(lake, *(file(number, MB) for number in range(5)))
    log = Path(lake.store.address) / "_delta_log"
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    deleted = file(5, MB)
    entry = {
        "path": deleted.path,
        "partitionValues": deleted.partition,
        "size": deleted.size_bytes,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": 30}),
        "deletionVector": VECTOR,
    }
    lines = (json.dumps(one) for one in ({"protocol": protocol}, {"add": entry}))
    (log / f"{lake.version + 1:020}.json").write_text("\n".join(lines))
    lake.refresh()

    assert len(lake.table.file_uris()) == 6
    assert [numbers(one) for one in plan_compaction(lake, TODAY)] == [list(range(5))]


def test_a_plan_has_few_partitions_and_bins(lake: Lake) -> None:
    many = [
        file(1_000 * place + number, 50 * MB if number > 4 else MB, pattern=f"p{place}/#")
        for place in range(12)
        for number in range(40)
    ]
    add(lake, *many)

    bins = plan_compaction(lake, TODAY)

    assert len({one.place for one in bins}) <= 8
    assert len(bins) == 32


def test_rows_without_a_time_are_packed_too(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("ts", pa.timestamp("us", "UTC")), pa.field("serial", pa.int32())])
    table = PipelineTable.open_or_make(tmp_path / "t", "rows", "s1", schema, is_new=True)
    stats = json.dumps({"numRecords": 10})
    none = [DataFile(f"day=x/hf-{number}.parquet", {"day": None}, MB, number, 10, stats) for number in range(65)]
    table.commit(0, none, {})

    [one] = plan_compaction(table, TODAY)

    assert one.partition == {"day": None}
    assert one.place == "day=__HIVE_DEFAULT_PARTITION__"
    assert numbers(one) == list(range(65)), "in the order in which they came"
