"""Parquet files of a lake, written where Spark's tasks run: one for each day and pattern of what a task reads.

When `write` returns, its files and their names survive a power loss. Nobody knows a file before it is in the table.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.pipeline.delta_files import FileUnderWay, sync
from holdfast.pipeline.lake_patterns import PatternFinder
from holdfast.pipeline.serial_ranges import Ranges

#: Columns that say where a row lies; they are in Delta's log, not in the files.
DAY: Final = "day"
PATTERN: Final = "pattern"
#: What a task holds in memory, about, before it writes its largest row group early.
_HELD_BYTES: Final = 96 * 2**20
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
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


class Written(NamedTuple):
    """What a task did."""

    files: list[LakeFile]
    #: Rows by shard.
    rows: dict[int, int]
    #: What was read and not written, because it is erased.
    left_out: tuple[Ranges, ...] = ()


def write(folder: Path, batches: Iterator[Any], patterns: Sequence[str]) -> Written:
    """Write record batches of history to a lake. They must have `ts`, `topic`, `shard`, `offset` and `serial`."""
    rows: dict[int, int] = {}
    with ExitStack() as stack:
        finder = PatternFinder(patterns)
        sheaves: dict[tuple[int, int], _Sheaf] = {}
        for batch in batches:
            for counted in batch.column("shard").value_counts().to_pylist():
                rows[counted["values"]] = rows.get(counted["values"], 0) + counted["counts"]
            for place, piece in _divided(batch, finder):
                sheaf = sheaves.get(place)
                if sheaf is None:
                    day, pattern = _day(place[0]), finder.texts[place[1]]
                    sheaf = sheaves[place] = _Sheaf(folder, day, pattern, batch.schema)
                    stack.callback(sheaf.abandon)
                sheaf.add(piece)
            if sum(sheaf.held_bytes for sheaf in sheaves.values()) > _HELD_BYTES:
                max(sheaves.values(), key=lambda sheaf: sheaf.held_bytes).flush()
        files = [sheaf.close() for sheaf in sheaves.values()]
        stack.pop_all()
    for path in {folder / file.path for file in files}:
        sync(path.parent)
    for day in {file.day for file in files}:
        sync(folder / f"{DAY}={day}")
    if files:
        sync(folder)
    return Written(files, rows)


def rewrite(folder: Path, day: str, pattern: str, schema: Any, batches: Iterator[Any]) -> LakeFile | None:
    """Write rows of one day and pattern to a file of their own; None, and no file, if there are none."""
    with ExitStack() as stack:
        sheaf: _Sheaf | None = None
        for batch in batches:
            if batch.num_rows:
                if sheaf is None:
                    sheaf = _Sheaf(folder, day, pattern, schema)
                    stack.callback(sheaf.abandon)
                sheaf.add(batch)
        if sheaf is None:
            return None
        file = sheaf.close()
        stack.pop_all()
    sync((folder / file.path).parent)
    sync(folder / f"{DAY}={day}")
    return file


class _Sheaf:
    """The rows of one day and pattern: a file under way."""

    def __init__(self, folder: Path, day: str, pattern: str, schema: Any) -> None:
        slug = hashlib.sha256(pattern.encode()).hexdigest()[:8]
        self._day: Final = day
        self._pattern: Final = pattern
        self._file: Final = FileUnderWay(folder, f"{DAY}={day}/p-{slug}", schema, STATISTICS, _REPEATING)
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
    places = pa.table({"day": pc.divide(days, _DAY_US), "pattern": numbers})
    there = places.group_by(["day", "pattern"]).aggregate([]).to_pylist()
    if len(there) == 1:
        yield (there[0]["day"], there[0]["pattern"]), batch
        return
    for place in there:
        chosen = pc.and_(pc.equal(places["day"], place["day"]), pc.equal(places["pattern"], place["pattern"]))
        yield (place["day"], place["pattern"]), batch.filter(chosen.combine_chunks())


def _day(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).date().isoformat()
