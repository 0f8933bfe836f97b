"""Bulk history into the log: rows with their times, from files or a DataFrame, as sealed generations of lanes.

    rows ──▶ sorted by time ──▶ looked through ──▶ lanes, structures ──▶ laid out ──▶ tables ──▶ the log ──▶ read back
             in stretches       counts, topics     positions, serials    (sorted_tables)

1. A load has a name: the one that is given, or a digest of its rows. A load whose name is in the log is done.
2. Until its shipment is whole nothing but a folder exists, which the next run sweeps away. From then on it is ingested
   by the next process that opens the data folder, once (`storage/rocks/shipments/shipment.py`).
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

from holdfast.history.arrow.file_columns import FileFormat
from holdfast.history.reader.view import View
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.bulk_load.input import ORDER, number_rows, read_files, select_messages
from holdfast.pipeline.bulk_load.lane_plan import DIGEST, UNSTORED, RowPlacement, list_loads, make_placement
from holdfast.pipeline.bulk_load.plan import LoadPlan, RowSummary
from holdfast.pipeline.bulk_load.rows import SUMMARY, TOPIC, Layouts, lay_out_stretch, summarise_stretch
from holdfast.pipeline.shipment.pair_batches import PAIRS, parse_digest
from holdfast.pipeline.shipment.sorted_tables import check_digest, hand_over, read_back, write_tables
from holdfast.pipeline.shipment.topic_structures import learn_structures
from holdfast.pipeline.source.history_source import read_view
from holdfast.pipeline.spark.errors import spark_errors
from holdfast.pipeline.spark.executor_folder import WRITES, check_executors_see
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.progress import CountedBatches, JobProgress, no_progress
from holdfast.records.generations import Generation
from holdfast.storage.rocks.layouts.build import LAYOUTS
from holdfast.storage.rocks.shipments.shipment import NAME, is_waiting, make_folder, ship, shipment_folder, sweep

#: Rows of a stretch, by the size of the files: what one worker sorts and lays out at once.
_STRETCH_BYTES: Final = {FileFormat.PARQUET: 24 << 20, FileFormat.CSV: 128 << 20, FileFormat.JSONL: 128 << 20}
_PREFIX: Final = "load-"


@dataclass(frozen=True)
class Files:
    """What to load, from files."""

    paths: tuple[Path, ...]
    kind: FileFormat
    #: What the files call a column, where it is another name.
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadOutcome:
    name: str
    messages: int
    #: Rows that no broker would store: `$SYS`, and zones that store nothing.
    unstored: int
    generations: list[Generation]
    size_bytes: int
    #: Who took it in; empty if it was there already.
    taken_by: str
    verified: bool


@dataclass(frozen=True)
class LoadJob:
    data: Path
    source: "DataFrame | Files"
    #: None: a name that follows from the rows.
    name: str | None = None
    #: What the rows call a column (`input.py`).
    columns: Mapping[str, str] = field(default_factory=dict)
    #: None: that of the zone.
    layout: str | None = None
    #: Mount points of the broker's listeners.
    mounts: tuple[bytes, ...] = ()
    #: Read everything back and compare.
    verify: bool = True


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
) -> LoadOutcome:
    """Load rows into a data folder, whether its broker runs or not. SettingsError, PermanentError: nothing was loaded.

    `columns` says what the rows call a column (`input.py`), `mounts` are mount points of the broker's listeners.
    """
    return run_load(spark, LoadJob(Path(data), source, name, columns or {}, layout, tuple(mounts), verify))


def run_load(spark: SparkSession, job: LoadJob, progress: JobProgress = no_progress) -> LoadOutcome:
    """Load rows; `load` with a job object and progress."""
    if job.layout is not None and job.layout not in LAYOUTS:
        raise SettingsError(f"there is no layout {job.layout!r}; there are {', '.join(LAYOUTS)}")
    if job.name is not None and not NAME.fullmatch(_PREFIX + job.name):
        raise SettingsError(f"{job.name!r} is no name for a load; use up to 90 letters, digits, '_', '-' and '.'")
    check_executors_see(spark, job.data.absolute(), WRITES)
    return _Load(spark, job, progress).run()


class _Load:
    def __init__(self, spark: SparkSession, job: LoadJob, progress: JobProgress) -> None:
        self._spark: Final = spark
        self._job: Final = job
        self._data: Final = job.data.absolute()
        self._progress: Final = progress
        self._now_us: Final = time.time_ns() // 1_000

    def run(self) -> LoadOutcome:
        view = read_view(self._data, "what is loaded")
        sweep(self._data)
        name = self._job.name
        if name is not None and (done := self._there_already(view, name)) is not None:
            return done
        rows = self._rows(self._job.source, self._job.columns)
        try:
            return self._load(rows, view, name)
        finally:
            rows.unpersist()

    def _rows(self, source: "DataFrame | Files", columns: Mapping[str, str]) -> DataFrame:
        """Sorted by time, in stretches, and kept."""
        if isinstance(source, Files):
            found = select_messages(read_files(self._spark, source.paths, source.kind, columns), columns)
            size_bytes = sum(file.stat().st_size for path in source.paths for file in _files(path))
            stretches = size_bytes // _STRETCH_BYTES[source.kind] + 1
        else:
            found = select_messages(number_rows(source, sql.lit(""), sql.lit(0)), columns)
            stretches = source.rdd.getNumPartitions()
        stretches = max(self._spark.sparkContext.defaultParallelism, stretches)
        by_time = found.repartitionByRange(stretches, "ts").sortWithinPartitions("ts", *ORDER).drop(*ORDER)
        return by_time.persist(StorageLevel.DISK_ONLY)

    def _load(self, rows: DataFrame, view: View, name: str | None) -> LoadOutcome:
        self._progress(0.0, "looking through the rows", until=0.4, reads=True)
        placing = make_placement(view, self._job.mounts)
        summary = self._summary(rows, placing).persist(StorageLevel.DISK_ONLY)
        try:
            return self._ship(rows, name, placing, summary)
        finally:
            summary.unpersist()

    def _ship(self, rows: DataFrame, name: str | None, placing: RowPlacement, summary: DataFrame) -> LoadOutcome:
        with spark_errors():
            seen = RowSummary(summary.where(summary.kind != TOPIC).collect())
        if not seen.stretches:
            raise PermanentError(
                f"there is nothing to load: {seen.unstored:,} rows are of topics that are not stored"
                if seen.unstored
                else "there is nothing to load: no rows"
            )
        chosen = name or self._content(rows, seen)
        with shipment_folder(self._data, _PREFIX + chosen) as folder:
            view = read_view(self._data)
            done = self._there_already(view, chosen)
            if done is not None:
                return done
            make_folder(self._data, folder.name)
            learn = partial(learn_structures, _topics(summary))
            self._progress(0.4, "learning the topics", until=0.5)
            plan = LoadPlan(view, placing, seen, self._now_us, learn, self._job.layout)
            generations, size_bytes = self._make(rows, plan, seen, chosen, folder)
            fault("load-shipped")
            taken_by = hand_over(self._data, folder.name, self._progress)
            fault("load-taken")
            self._check(generations)
            messages = sum(seen.counts().values())
            return LoadOutcome(chosen, messages, seen.unstored, generations, size_bytes, taken_by, self._job.verify)

    def _there_already(self, view: View, name: str) -> LoadOutcome | None:
        """What an earlier run has loaded, or has left to be ingested."""
        taken_by = ""
        if is_waiting(self._data, _PREFIX + name):
            taken_by = hand_over(self._data, _PREFIX + name, self._progress)
            fault("load-taken")
            view = read_view(self._data)
        known = list_loads(view).get(name)
        if known is None:
            return None
        self._check(known)
        messages = sum(parse_digest(str(record.parameters[DIGEST])).messages for record in known)
        return LoadOutcome(name, messages, 0, known, 0, taken_by, self._job.verify)

    def _check(self, generations: list[Generation]) -> None:
        if self._job.verify:
            found = read_back(self._spark, self._data, generations, self._progress)
            for record in generations:
                check_digest(record, parse_digest(str(record.parameters[DIGEST])), found)

    # ---- what the rows are

    def _summary(self, rows: DataFrame, placing: RowPlacement) -> DataFrame:
        """Rows of SUMMARY, of all stretches."""
        work = partial(_summarise, placing, self._now_us)
        return rows.select("ts", "topic", "client_id", "qos").mapInArrow(work, from_arrow_schema(SUMMARY))

    def _content(self, rows: DataFrame, seen: RowSummary) -> str:
        """A name that the same rows always have, wherever they come from."""
        hashed = sql.xxhash64("ts", "topic", "client_id", "qos", "retain", "payload").cast("decimal(38,0)")
        with spark_errors():
            total = rows.agg(sql.sum(hashed).alias("total")).collect()[0].total
        return blake2b(f"{sum(seen.counts().values())} {total}".encode(), digest_size=8).hexdigest()

    # ---- what becomes of them

    def _make(
        self, rows: DataFrame, plan: LoadPlan, seen: RowSummary, name: str, folder: Path
    ) -> tuple[list[Generation], int]:
        count = sum(seen.counts().values())
        self._progress(0.5, "laying out the rows", until=0.8, rows=count)
        work = CountedBatches(partial(_lay_out, plan.layouts), self._progress.counter(self._spark))
        pairs = rows.mapInArrow(work, from_arrow_schema(PAIRS))
        tables = write_tables(pairs, folder, count, plan.own_pairs())
        fault("load-tables")
        entries = plan.entries(name, tables.names, tables.digests)
        ship(folder, entries, self._now_us)
        return [entry.record for entry in entries], tables.size_bytes


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _topics(summary: DataFrame) -> DataFrame:
    """The topics of all stretches together: of these there may be many."""
    found = summary.where((summary.kind == TOPIC) & (summary.slot != UNSTORED))
    return found.groupBy("slot", found.text.alias("topic")).agg(sql.sum("messages").alias("messages"))


def _stretch() -> int:
    task = TaskContext.get()
    assert task is not None
    return task.partitionId()


def _summarise(placing: RowPlacement, now_us: int, batches: Any) -> Any:
    return summarise_stretch(batches, _stretch(), placing, now_us)


def _lay_out(layouts: Layouts, batches: Any) -> Any:
    return lay_out_stretch(batches, _stretch(), layouts)
