"""Tables between steps: a batch is in them once, and who reads them version by version gets each row once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.declared.table import PipelineTable
from holdfast.pipeline.declared.table_files import (
    FIRST,
    RULE,
    WHY,
    StepFiles,
    TableTarget,
    WriteTask,
    gather_results,
)
from holdfast.pipeline.declared.table_stream import TableStreamReader
from holdfast.pipeline.lake.upkeep import compact, remove_orphans
from tests.unit.pipeline.local_archive import here

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TYPES = {"ts": pa.timestamp("us", "UTC"), "topic": pa.string(), "shard": pa.int32(), "serial": pa.int32()}
SCHEMA = pa.schema(list(TYPES.items()))
SPARK = StructType(
    [
        StructField("ts", TimestampType()),
        StructField("topic", StringType()),
        StructField("shard", IntegerType()),
        StructField("serial", IntegerType()),
    ]
)


def table(folder: Path, state_id: str = "s1", *, is_new: bool = True) -> PipelineTable:
    return PipelineTable.open_or_make(folder, "rows", state_id, SCHEMA, is_new=is_new)


def wrote(job: WriteTask, rows: list[dict[str, Any]], **more: Any) -> StepFiles:
    schema = pa.schema([*TYPES.items(), *more.items()])
    [told] = list(job(iter([pa.RecordBatch.from_pylist(rows, schema=schema)])))
    return gather_results([row["result"] for row in told.to_pylist()])


def rows(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    """One every hour."""
    return [
        {"ts": NOON + timedelta(hours=number), "topic": "t", "shard": 0, "serial": number, **more}
        for number in range(first, first + count)
    ]


def filled(into: PipelineTable, batch: int, first: int, count: int) -> None:
    target = TableTarget(str(into.folder), tuple(TYPES), "ts")
    into.commit(batch, wrote(WriteTask(target), rows(first, count)).rows, {})


def serials(into: PipelineTable) -> list[int]:
    return sorted(into.table.to_pyarrow_table()["serial"].to_pylist())


def read(reader: TableStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [serial for batch in found for serial in batch.column("serial").to_pylist()]


def test_a_batch_is_known_by_its_number(tmp_path: Path) -> None:
    into = table(tmp_path / "t")
    assert not into.has(0)
    filled(into, 0, 0, 30)
    assert into.has(0)
    assert not into.has(1)
    again = table(tmp_path / "t", is_new=False)
    assert again.has(0)
    assert serials(again) == list(range(30))
    again.commit(1, [], {})
    assert table(tmp_path / "t", is_new=False).has(1), "a batch without rows is one, too"
    assert {path.parent.name for path in (tmp_path / "t").glob("day=*/*")} == {"day=2026-03-01", "day=2026-03-02"}


def test_a_table_belongs_to_one_state(tmp_path: Path) -> None:
    table(tmp_path / "t")
    with pytest.raises(SettingsError, match="did not fill from its state folder"):
        table(tmp_path / "t", "s2")
    with pytest.raises(SettingsError, match="is gone"):
        table(tmp_path / "other", is_new=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(SettingsError, match="is not empty"):
        table(tmp_path / "full")


def test_a_stream_reads_version_by_version(tmp_path: Path) -> None:
    into = table(tmp_path / "t")
    filled(into, 0, 0, 30)
    filled(into, 1, 30, 5)
    reader = TableStreamReader(SPARK, into.folder, 10)
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    assert first == {"version": 1}, "a version that is larger than the limit comes alone"
    assert sorted(read(reader, start, first)) == list(range(30))
    second = reader.latestOffset(first, limit)
    assert read(reader, first, second) == list(range(30, 35))
    assert reader.latestOffset(second, limit) == second
    assert reader.latestOffset(start, ReadMaxRows(100)) == second

    reader.prepareForTriggerAvailableNow()
    filled(into, 2, 35, 5)
    assert reader.latestOffset(second, limit) == second
    assert reader.reportLatestOffset() == {"version": 3}


def test_compaction_and_emptying_bring_nothing_new(tmp_path: Path) -> None:
    into = table(tmp_path / "t")
    for batch in range(6):
        filled(into, batch, batch, 1)
    reader = TableStreamReader(SPARK, into.folder, 100)
    end = reader.reportLatestOffset()
    assert compact(into, here) == 6
    assert serials(into) == list(range(6))
    assert read(reader, end, reader.reportLatestOffset()) == []
    into.empty()
    assert serials(into) == []
    assert read(reader, end, reader.reportLatestOffset()) == []
    filled(into, 6, 6, 1)
    assert read(reader, end, reader.reportLatestOffset()) == [6]
    assert into.has(6)
    with pytest.raises(PermanentError, match="is gone before it was read"):
        reader.partitions({"version": 0}, {"version": 99})


def test_rows_that_do_not_pass_go_where_their_rule_says(tmp_path: Path) -> None:
    good, bad = table(tmp_path / "good"), table(tmp_path / "bad")
    quarantine = TableTarget(str(bad.folder), ("ts", "serial", "rule", "why"), "ts")
    job = WriteTask(TableTarget(str(good.folder), tuple(TYPES), "ts"), quarantine, ("strict",))
    given = (
        rows(0, 3, **{FIRST: 1}) + rows(3, 2, **{RULE: "strict", WHY: "no", FIRST: 1}) + rows(5, 4, **{RULE: "loose"})
    )
    more = {RULE: pa.string(), WHY: pa.string(), FIRST: pa.int32()}
    written = wrote(job, given, **more)
    assert (written.passed, written.messages, written.failed) == (3, 5, {"strict": 2, "loose": 4})
    assert written.examples == {"strict": ["t", 0, 3], "loose": ["t", 0, 5]}
    assert sum(file.rows for file in written.rows) == 3
    assert sum(file.rows for file in written.quarantine) == 2

    # Nobody asked for them in the end: they are files that no table knows.
    assert remove_orphans(good) == 1
    assert not list(good.folder.glob("day=*/*"))
    # One that is there already is left out.
    written = wrote(WriteTask(None, quarantine, ("strict",)), given, **more)
    assert (written.rows, written.passed) == ([], 3)
