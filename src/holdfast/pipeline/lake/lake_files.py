"""Parquet files of a lake, written where Spark's tasks run: one for each day and pattern of what a task reads.

When `write_files` returns, its files and their names survive a power loss. No reader sees a file before it is in
the table.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.files.replacement import sync_path
from holdfast.model.time import DAY_US, EPOCH
from holdfast.pipeline.lake.delta_files import OpenDeltaFile
from holdfast.pipeline.lake.lake_patterns import PatternFinder
from holdfast.pipeline.lake.serial_ranges import SerialRanges

#: Columns that say where a row lies; they are in Delta's log, not in the files.
DAY: Final = "day"
PATTERN: Final = "pattern"
#: What a task holds in memory, about, before it writes its largest row group early.
_HELD_BYTES: Final = 96 * 2**20
#: Columns that Delta knows bounds of.
STATISTICS: Final = ("ts", "shard", "offset", "serial")
_REPEATING: Final = ("topic", "client_id", "content_type", "response_topic")


class LakeFile(NamedTuple):
    """A file that is whole and on disk."""

    #: From the folder of the lake.
    path: str
    size_bytes: int
    modified_ms: int
    day: str
    pattern: str
    rows: int
    stats: str


class WrittenFiles(NamedTuple):
    """What a task did."""

    files: list[LakeFile]
    #: Rows by shard.
    rows: dict[int, int]
    #: What was read and not written, because it is erased.
    left_out: tuple[SerialRanges, ...] = ()


def write_files(folder: Path, batches: Iterator[Any], patterns: Sequence[str]) -> WrittenFiles:
    """Write record batches of history to a lake. They must have `ts`, `topic`, `shard`, `offset` and `serial`."""
    rows: dict[int, int] = {}
    with ExitStack() as stack:
        finder = PatternFinder(patterns)
        open_files: dict[tuple[int, int], _OpenLakeFile] = {}
        for batch in batches:
            for counted in batch.column("shard").value_counts().to_pylist():
                rows[counted["values"]] = rows.get(counted["values"], 0) + counted["counts"]
            for place, piece in _divided(batch, finder):
                opened = open_files.get(place)
                if opened is None:
                    day, pattern = _day(place[0]), finder.texts[place[1]]
                    opened = open_files[place] = _OpenLakeFile(folder, day, pattern, batch.schema)
                    stack.callback(opened.abandon)
                opened.add(piece)
            if sum(opened.held_bytes for opened in open_files.values()) > _HELD_BYTES:
                max(open_files.values(), key=lambda opened: opened.held_bytes).flush()
        files = [opened.close() for opened in open_files.values()]
        stack.pop_all()
    for path in {folder / file.path for file in files}:
        sync_path(path.parent)
    for day in {file.day for file in files}:
        sync_path(folder / f"{DAY}={day}")
    if files:
        sync_path(folder)
    return WrittenFiles(files, rows)


def rewrite_file(folder: Path, day: str, pattern: str, schema: Any, batches: Iterator[Any]) -> LakeFile | None:
    """Write rows of one day and pattern to one file; None, and no file, if there are none."""
    with ExitStack() as stack:
        opened: _OpenLakeFile | None = None
        for batch in batches:
            if batch.num_rows:
                if opened is None:
                    opened = _OpenLakeFile(folder, day, pattern, schema)
                    stack.callback(opened.abandon)
                opened.add(batch)
        if opened is None:
            return None
        file = opened.close()
        stack.pop_all()
    sync_path((folder / file.path).parent)
    sync_path(folder / f"{DAY}={day}")
    return file


class _OpenLakeFile:
    """The file that the rows of one day and pattern are written to."""

    def __init__(self, folder: Path, day: str, pattern: str, schema: Any) -> None:
        slug = hashlib.sha256(pattern.encode()).hexdigest()[:8]
        self._day: Final = day
        self._pattern: Final = pattern
        self._file: Final = OpenDeltaFile(folder, f"{DAY}={day}/p-{slug}", schema, STATISTICS, _REPEATING)
        self.add: Final = self._file.add
        self.flush: Final = self._file.flush
        self.abandon: Final = self._file.abandon

    @property
    def held_bytes(self) -> int:
        return self._file.held_bytes

    def close(self) -> LakeFile:
        done = self._file.close()
        return LakeFile(done.path, done.size_bytes, done.modified_ms, self._day, self._pattern, done.rows, done.stats)


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


def _day(number: int) -> str:
    return (EPOCH + timedelta(days=number)).date().isoformat()
