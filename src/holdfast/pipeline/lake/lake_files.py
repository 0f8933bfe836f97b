"""Parquet files of a lake, written where Spark's tasks run: one for each day and pattern of what a task reads.

When `write_files` returns, its files and their names survive a power loss. No reader sees a file before it is in
the table.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.model.time import DAY_US, EPOCH
from holdfast.pipeline.lake.delta_files import DataFile, DeltaFiles
from holdfast.pipeline.lake.lake_patterns import PatternFinder
from holdfast.pipeline.lake.serial_ranges import SerialRanges
from holdfast.pipeline.lake.store import LakeStore

#: Columns that say where a row lies; they are in Delta's log, not in the files.
DAY: Final = "day"
PATTERN: Final = "pattern"
#: What a task holds in memory, about, before it writes its largest row group early.
_HELD_BYTES: Final = 96 * 2**20
#: Columns that Delta knows bounds of.
STATISTICS: Final = ("ts", "shard", "offset", "serial")
#: Columns whose values repeat.
REPEATING: Final = ("topic", "client_id", "content_type", "response_topic")


@dataclass(frozen=True)
class DataFileForm:
    """How the data files of a table are written; it travels to Spark's workers."""

    #: Within the table.
    folder: str = ""
    #: The columns, `pattern` among them, with the numbers that Iceberg has for them. None: those of history, for Delta.
    schema: Any = None

    def place(self, day: str, pattern: str) -> str:
        slug = hashlib.sha256(pattern.encode()).hexdigest()[:8]
        return f"{self.folder}{DAY}={day}/p-{slug}"

    def rows(self, batch: Any, pattern: str) -> Any:
        """A batch of one pattern as the file has it."""
        if self.schema is None:
            return batch
        names = batch.schema.names
        columns = [
            (batch.column(field.name) if field.name in names else pa.repeat(pattern, batch.num_rows)).cast(field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


DELTA: Final = DataFileForm()


class WrittenFiles(NamedTuple):
    files: list[DataFile]
    #: Rows by shard.
    rows: dict[int, int]
    #: What was read and not written, because it is erased.
    left_out: tuple[SerialRanges, ...] = ()


def write_files(
    store: LakeStore, batches: Iterator[Any], patterns: Sequence[str], form: DataFileForm = DELTA
) -> WrittenFiles:
    """Write record batches of history to a lake. They must have `ts`, `topic`, `shard`, `offset` and `serial`."""
    rows: dict[int, int] = {}
    finder = PatternFinder(patterns)
    with _open_files(store) as files:
        for batch in batches:
            for counted in batch.column("shard").value_counts().to_pylist():
                rows[counted["values"]] = rows.get(counted["values"], 0) + counted["counts"]
            for (day, pattern), piece in _divided(batch, finder):
                _add(files, form, (EPOCH + timedelta(days=day)).date().isoformat(), finder.texts[pattern], piece)
            files.limit_memory()
        return WrittenFiles(files.close(), rows)


def rewrite_file(
    store: LakeStore, day: str, pattern: str, batches: Iterator[Any], form: DataFileForm = DELTA
) -> DataFile | None:
    """Write rows of one day and pattern to one file; None, and no file, if there are none."""
    with _open_files(store) as files:
        for batch in batches:
            if batch.num_rows:
                _add(files, form, day, pattern, batch)
        return next(iter(files.close()), None)


def _open_files(store: LakeStore) -> DeltaFiles:
    return DeltaFiles(store, _HELD_BYTES, REPEATING)


def _add(files: DeltaFiles, form: DataFileForm, day: str, pattern: str, batch: Any) -> None:
    files.add(form.place(day, pattern), {DAY: day, PATTERN: pattern}, STATISTICS, form.rows(batch, pattern))


def _divided(batch: Any, finder: PatternFinder) -> Iterator[tuple[tuple[int, int], Any]]:
    """A batch by day (counted from 1970) and number of the pattern."""
    days = pc.floor_temporal(batch.column("ts"), unit="day").cast(pa.int64())
    numbers = finder.numbers(batch.column("topic"))
    places = pa.table({"day": pc.divide(days, DAY_US), "pattern": numbers})
    there = places.group_by(["day", "pattern"]).aggregate([]).to_pylist()
    if len(there) == 1:
        yield (there[0]["day"], there[0]["pattern"]), batch
        return
    for place in there:
        chosen = pc.and_(pc.equal(places["day"], place["day"]), pc.equal(places["pattern"], place["pattern"]))
        yield (place["day"], place["pattern"]), batch.filter(chosen.combine_chunks())
