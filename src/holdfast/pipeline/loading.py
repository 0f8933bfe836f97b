"""Bulk history into the log: rows with their times, from files or a DataFrame, as sealed generations of lanes.

    rows ──▶ sorted by time ──▶ looked through ──▶ lanes, structures ──▶ laid out ──▶ tables ──▶ the log ──▶ read back
             in stretches       counts, topics     positions, serials    (table_job.py)

1. A load has a name: the one it is given, or one that its rows tell. A load whose name is in the log is done.
2. Until its shipment is whole nothing but a folder exists, which the next run sweeps away. From then on it is taken in,
   by whoever opens the data folder next, and once (`storage/rocks/shipments.py`).
3. The same rows give the same messages, in the same order: rows with one time keep the order of their files.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.history.file_columns import FileKind
from holdfast.history.reader import HistoryReader
from holdfast.history.view import View
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.digests import parse_digest
from holdfast.pipeline.emitting import PAIRS
from holdfast.pipeline.faults import fault
from holdfast.pipeline.lane_plan import DIGEST, Placing, loads, placing_of
from holdfast.pipeline.load_input import ORDER, as_messages, ordered, read_files
from holdfast.pipeline.load_plan import LoadPlan, Seen
from holdfast.pipeline.load_rows import SUMMARY, TOPIC, Layouts, lay_out, summarise
from holdfast.pipeline.table_job import Progress, compare, hand_over, read_back, spark_errors, write_tables
from holdfast.records.generations import Generation
from holdfast.storage.rocks.layouts.making import LAYOUTS
from holdfast.storage.rocks.shipments import NAME, is_waiting, make_folder, making, ship, sweep

#: Rows of a stretch, by the size of the files: what one worker sorts and lays out at once.
_STRETCH_BYTES: Final = {FileKind.PARQUET: 24 << 20, FileKind.CSV: 128 << 20, FileKind.JSONL: 128 << 20}
_PREFIX: Final = "load-"


@dataclass(frozen=True)
class Files:
    """What to load, from files."""

    paths: tuple[Path, ...]
    kind: FileKind
    #: What the files call a column, where it is another name.
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Loaded:
    """What a load has done."""

    name: str
    messages: int
    #: Rows that no broker would store: `$SYS`, and zones that store nothing.
    unstored: int
    generations: list[Generation]
    size_bytes: int
    #: Who took it in; empty if it was there already.
    taken_by: str
    verified: bool


def load(
    spark: SparkSession,
    source: "DataFrame | Files",
    data: Path | str,
    *,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    layout: str | None = None,
    mounts: Sequence[bytes] = (),
    verify: bool = True,
    progress: Progress = lambda _share, _words: None,
) -> Loaded:
    """Load rows into a data folder, whether its broker runs or not. SettingsError, PermanentError: nothing was loaded.

    `columns` says what the rows call a column (`load_input.py`), `mounts` are mount points of the broker's listeners.
    """
    return _Load(spark, Path(data).absolute(), layout, tuple(mounts), verify, progress).run(source, columns or {}, name)


class _Load:
    def __init__(
        self,
        spark: SparkSession,
        data: Path,
        layout: str | None,
        mounts: tuple[bytes, ...],
        verify: bool,
        progress: Progress,
    ) -> None:
        if layout is not None and layout not in LAYOUTS:
            raise SettingsError(f"there is no layout {layout!r}; there are {', '.join(LAYOUTS)}")
        self._spark: Final = spark
        self._data: Final = data
        self._layout: Final = layout
        self._mounts: Final = mounts
        self._verify: Final = verify
        self._progress: Final = progress
        self._now_us: Final = time.time_ns() // 1_000

    def run(self, source: "DataFrame | Files", columns: Mapping[str, str], name: str | None) -> Loaded:
        if name is not None and not NAME.fullmatch(_PREFIX + name):
            raise SettingsError(f"{name!r} is no name for a load; use up to 90 letters, digits, '_', '-' and '.'")
        sweep(self._data)
        view = self._view()
        if name is not None and (done := self._there_already(view, name)) is not None:
            return done
        rows = self._rows(source, columns)
        try:
            return self._load(rows, view, name)
        finally:
            rows.unpersist()

    def _view(self) -> View:
        with HistoryReader.open(self._data) as reader:
            return reader.view()

    def _rows(self, source: "DataFrame | Files", columns: Mapping[str, str]) -> DataFrame:
        """Sorted by time, in stretches, and kept."""
        if isinstance(source, Files):
            found = as_messages(read_files(self._spark, source.paths, source.kind, columns), columns)
            size_bytes = sum(file.stat().st_size for path in source.paths for file in _files(path))
            stretches = size_bytes // _STRETCH_BYTES[source.kind] + 1
        else:
            found = as_messages(ordered(source), columns)
            stretches = source.rdd.getNumPartitions()
        stretches = max(self._spark.sparkContext.defaultParallelism, stretches)
        by_time = found.repartitionByRange(stretches, "ts").sortWithinPartitions("ts", *ORDER).drop(*ORDER)
        return by_time.persist(StorageLevel.DISK_ONLY)

    def _load(self, rows: DataFrame, view: View, name: str | None) -> Loaded:
        self._progress(None, "looking through the rows")
        placing = placing_of(view, self._mounts)
        seen = Seen(self._summary(rows, placing))
        if not seen.stretches:
            raise PermanentError(
                f"there is nothing to load: {seen.unstored:,} rows are of topics that are not stored"
                if seen.unstored
                else "there is nothing to load: no rows"
            )
        chosen = name or self._content(rows, seen)
        with making(self._data, _PREFIX + chosen) as folder:
            view = self._view()
            done = self._there_already(view, chosen)
            if done is not None:
                return done
            make_folder(self._data, folder.name)
            generations, size_bytes = self._make(rows, view, placing, seen, chosen, folder)
            fault("load-shipped")
            taken_by = hand_over(self._data, folder.name, self._progress)
            fault("load-taken")
            self._check(generations)
            messages = sum(seen.counts().values())
            return Loaded(chosen, messages, seen.unstored, generations, size_bytes, taken_by, self._verify)

    def _there_already(self, view: View, name: str) -> Loaded | None:
        """What an earlier run has loaded, or has left to be taken in."""
        taken_by = ""
        if is_waiting(self._data, _PREFIX + name):
            taken_by = hand_over(self._data, _PREFIX + name, self._progress)
            fault("load-taken")
            view = self._view()
        known = loads(view).get(name)
        if known is None:
            return None
        self._check(known)
        messages = sum(parse_digest(str(record.parameters[DIGEST])).messages for record in known)
        return Loaded(name, messages, 0, known, 0, taken_by, self._verify)

    def _check(self, generations: list[Generation]) -> None:
        if self._verify:
            found = read_back(self._spark, self._data, generations, self._progress)
            for record in generations:
                compare(record, parse_digest(str(record.parameters[DIGEST])), found)

    # ---- what the rows are

    def _summary(self, rows: DataFrame, placing: Placing) -> list[Any]:
        work = partial(_summarise, placing, self._now_us)
        needed = rows.select("ts", "topic", "client_id", "qos")
        found = needed.mapInArrow(work, from_arrow_schema(SUMMARY))
        # Topics of all stretches together: of these there may be many.
        stretch = sql.when(found.kind == TOPIC, sql.lit(-1)).otherwise(found.stretch).alias("stretch")
        summed_up = found.groupBy("kind", stretch, "slot", "text").agg(
            sql.sum("messages").alias("messages"),
            sql.max("reach").alias("reach"),
            sql.min("first_us").alias("first_us"),
        )
        collected: list[Any] = spark_errors(summed_up.collect)
        return collected

    def _content(self, rows: DataFrame, seen: Seen) -> str:
        """A name that the same rows always have, wherever they come from."""
        hashed = sql.xxhash64("ts", "topic", "client_id", "qos", "retain", "payload").cast("decimal(38,0)")
        total = spark_errors(lambda: rows.agg(sql.sum(hashed).alias("total")).collect())[0].total
        return blake2b(f"{sum(seen.counts().values())} {total}".encode(), digest_size=8).hexdigest()

    # ---- what becomes of them

    def _make(
        self, rows: DataFrame, view: View, placing: Placing, seen: Seen, name: str, folder: Path
    ) -> tuple[list[Generation], int]:
        plan = LoadPlan(view, placing, seen, self._now_us, self._layout)
        count = sum(seen.counts().values())
        self._progress(None, f"laying out {count:,} rows")
        pairs = rows.mapInArrow(partial(_lay_out, plan.layouts), from_arrow_schema(PAIRS))
        tables = write_tables(pairs, folder, count, plan.own_pairs())
        fault("load-tables")
        entries = plan.entries(name, tables.names, tables.digests)
        ship(folder, entries, self._now_us)
        return [entry.record for entry in entries], tables.size_bytes


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _stretch() -> int:
    task = TaskContext.get()
    assert task is not None
    return task.partitionId()


def _summarise(placing: Placing, now_us: int, batches: Any) -> Any:
    return summarise(batches, _stretch(), placing, now_us)


def _lay_out(layouts: Layouts, batches: Any) -> Any:
    return lay_out(batches, _stretch(), layouts)
