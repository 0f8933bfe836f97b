"""Sealed generations rewritten in another layout or with new patterns, or restored from a lake.

    old edition ──▶ topics ──▶ structures ──▶ laid out ──▶ tables ──▶ read on trial ──▶ the log ──▶ read back
    (or a lake)                               (sorted_tables)          equal?            switched    equal?

1. Positions, serials and every other byte of a message stay: cursors, offsets and replays mean what they meant.
2. The old edition goes when the new one was read, compared, and is synced (`storage/rocks/shipments/ingestion.py`):
   one record is replaced, in one write.
3. One generation after the other: what is done is done, and a run that was killed goes on with the next.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.reader.reader import HistoryReader, Part
from holdfast.history.reader.view import UNKNOWN
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.lake.archive_table import ArchiveTable
from holdfast.pipeline.lake.formats import open_lake
from holdfast.pipeline.lake.lake_reader import read_lake
from holdfast.pipeline.relayout.plan import PREFIX, RelayoutJob, RelayoutTask, check_count, choose_generations
from holdfast.pipeline.relayout.rows import (
    LAKE_COLUMNS,
    LAKE_TIMES,
    TOPICS,
    count_part_topics,
    lay_out_parts,
    lay_out_rows,
    trial_digest,
)
from holdfast.pipeline.shipment.pair_batches import PAIRS, Digest, sum_digests
from holdfast.pipeline.shipment.sorted_tables import (
    WrittenTables,
    check_digest,
    hand_over,
    read_back,
    write_tables,
)
from holdfast.pipeline.shipment.topic_structures import learn_structures
from holdfast.pipeline.source.history_source import read_view
from holdfast.pipeline.source.partitions import task_count, tile_parts
from holdfast.pipeline.spark.errors import spark_errors
from holdfast.pipeline.spark.executor_folder import WRITES, check_executors_see
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.progress import CountedBatches, JobProgress, TaskCounter, no_progress
from holdfast.records.generations import Generation, encode_generation
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.build import LAYOUTS
from holdfast.storage.rocks.layouts.layout import MESSAGES, STRUCTURE
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure
from holdfast.storage.rocks.shipments.parallel_learning import LayoutChoice
from holdfast.storage.rocks.shipments.shipment import (
    ShipmentEntry,
    make_folder,
    ship,
    shipment_folder,
    sweep,
    waiting_shipments,
)
from holdfast.storage.rocks.shipments.trial_database import open_trial


@dataclass(frozen=True)
class RewrittenGeneration:
    record: Generation
    was: str
    messages: int
    size_bytes: int
    taken_by: str


@dataclass(frozen=True)
class RelayoutOutcome:
    generations: list[RewrittenGeneration]
    #: Generations that had the patterns already that would have been learnt.
    unchanged: int


def run_relayout(spark: SparkSession, job: RelayoutJob, progress: JobProgress = no_progress) -> RelayoutOutcome:
    """Rewrite sealed generations, whether the broker runs or not, or restore them from a lake."""
    if job.layout is not None and job.layout not in LAYOUTS:
        raise SettingsError(f"there is no layout {job.layout!r}; there are {', '.join(LAYOUTS)}")
    if bool(job.days) != (job.lake is not None):
        raise SettingsError("days are brought back from a lake: give both, or neither")
    check_executors_see(spark, job.data.absolute(), WRITES)
    return _Relayout(spark, job, progress).run()


class _Relayout:
    def __init__(self, spark: SparkSession, job: RelayoutJob, progress: JobProgress) -> None:
        self._spark: Final = spark
        self._job: Final = job
        self._data: Final = job.data.absolute()
        self._lake: Final = None if job.lake is None else open_lake(job.lake)
        self._progress: Final = progress

    def run(self) -> RelayoutOutcome:
        read_view(self._data, "a generation that is written again")
        sweep(self._data)
        for name in waiting_shipments(self._data):
            if name.startswith(PREFIX):  # a run that was killed has left it
                hand_over(self._data, name, self._progress)
        tasks = choose_generations(read_view(self._data), self._job, time.time_ns() // 1_000)
        if self._job.days and not tasks:
            raise PermanentError(
                "no generation of these days was dropped by retention: either they are in the log, or so long ago that "
                "the log does not know them any more; load them: holdfast spark load"
            )
        done: list[RewrittenGeneration] = []
        unchanged = 0
        for number, task in enumerate(tasks):
            old = task.old
            share, until = number / len(tasks), (number + 1) / len(tasks)
            self._progress(share, f"topics of generation {old.number} of {old.zone}", until=(3 * share + until) / 4)
            found = self._rewrite(task, share, until)
            if found is None:
                unchanged += 1
            else:
                done.append(found)
        return RelayoutOutcome(done, unchanged)

    def _rewrite(self, task: RelayoutTask, share: float, until: float) -> RewrittenGeneration | None:
        """`share`, `until`: of the job that is done before this, and with it."""
        source = (
            _ArchivedGeneration(self._spark, self._lake, task)
            if self._lake is not None
            else _StoredGeneration(self._spark, self._data, task)
        )
        with shipment_folder(self._data, task.name) as folder:
            structures = source.structures()
            if isinstance(source, _StoredGeneration) and task.new.layout == task.old.layout and source.has(structures):
                return None
            make_folder(self._data, folder.name)
            laid_out = f"laying out generation {task.old.number} of {task.old.zone}"
            quarter = (until - share) / 4
            self._progress(share + quarter, laid_out, until=share + 3 * quarter, rows=source.messages)
            pairs = source.pairs(structures, self._progress.counter(self._spark))
            own = {shard: made.own_pairs(source.last_us(shard)) for shard, made in structures.items()}
            tables = write_tables(pairs, folder, source.messages, own)
            for shard in task.old.shards:
                check_count(task, shard, tables.digests.get(shard, Digest()).messages)
            wanted = sum_digests(tables.digests.values())
            self._try(task.new, folder, tables, wanted, source.cuts())
            fault("relayout-tables")
            ship(folder, [ShipmentEntry(task.new, dict(tables.names), replaces=task.old)], time.time_ns() // 1_000)
            fault("relayout-shipped")
            taken_by = hand_over(self._data, folder.name, self._progress)
            fault("relayout-taken")
            check_digest(task.new, wanted, read_back(self._spark, self._data, [task.new], self._progress))
            return RewrittenGeneration(task.new, task.old.layout, wanted.messages, tables.size_bytes, taken_by)

    def _try(
        self, record: Generation, folder: Path, tables: WrittenTables, wanted: Digest, cuts: Mapping[int, Sequence[int]]
    ) -> None:
        """Rule 2: nothing is replaced by what cannot be read. `cuts`: positions between tasks, by shard."""
        self._progress(None, f"reading generation {record.number} of {record.zone} on trial")
        with open_trial(folder, record, tables.names) as path:
            parts = [
                piece
                for shard in record.shards
                for piece in _cut_at(
                    Part(record.zone, shard, record.number, record.start_us, record.end_us), cuts.get(shard, ())
                )
            ]
            work = partial(trial_digest, str(path), record)
            with spark_errors():
                digests = self._spark.sparkContext.parallelize(parts, len(parts)).map(work).collect()
        found = sum_digests(digests)
        if found != wanted:
            raise PermanentError(
                f"the tables of generation {record.number} of {record.zone} hold {found.messages:,} messages where "
                f"{wanted.messages:,} went in, or others; nothing was changed"
            )


class _StoredGeneration:
    """A generation that is in the log."""

    def __init__(self, spark: SparkSession, data: Path, task: RelayoutTask) -> None:
        self._spark: Final = spark
        self._data: Final = data
        self._record: Final = task.new
        with HistoryReader.open(data) as reader:
            if not any(
                encode_generation(one) == encode_generation(task.old) for one in reader.generations(task.old.zone)
            ):
                raise PermanentError(
                    f"generation {task.old.number} of zone {task.old.zone!r} is not what it was, or gone; run it again"
                )
            place = task.old.zone, task.old.number
            whole = [part for part in reader.parts(zone=task.old.zone) if (part.zone, part.generation) == place]
            self._stored: Final = {shard: _structure(reader, task.old, shard) for shard in task.old.shards}
            self._parts: Final = tile_parts(reader, whole)
        self._last: Final[dict[int, int]] = {}
        self.messages: Final = sum(max(0, part.last_serial - part.after_serial) for part in whole)

    def structures(self) -> dict[int, LayoutStructure]:
        work = partial(count_part_topics, str(self._data), self._parts)
        counted = self._numbers().mapInArrow(work, from_arrow_schema(TOPICS)).persist(StorageLevel.DISK_ONLY)
        try:
            with spark_errors():
                lasts = counted.groupBy("slot").agg(sql.max("last_us").alias("last_us")).collect()
            self._last.update({row.slot: row.last_us for row in lasts})
            topics = counted.groupBy("slot", "topic").agg(sql.sum("messages").alias("messages"))
            return learn_structures(topics, _choices(self._record))
        finally:
            counted.unpersist()

    def has(self, structures: Mapping[int, LayoutStructure]) -> bool:
        """Whether what was learnt now is what is stored."""
        return all(structures[shard].records == self._stored[shard] for shard in structures)

    def pairs(self, structures: Mapping[int, LayoutStructure], counter: TaskCounter) -> DataFrame:
        work = partial(lay_out_parts, str(self._data), self._parts, structures, counter=counter)
        return self._numbers().mapInArrow(work, from_arrow_schema(PAIRS))

    def _numbers(self) -> DataFrame:
        """Those of the parts, each for a task."""
        return self._spark.range(0, len(self._parts), 1, max(1, len(self._parts)))

    def last_us(self, shard: int) -> int:
        """The last position. Requires: the structures are known."""
        return self._last.get(shard, UNKNOWN)

    def cuts(self) -> dict[int, list[int]]:
        """Positions between stretches with as many messages each, by shard."""
        return {shard: [part.lo_us for part in self._parts if part.shard == shard] for shard in self._record.shards}


class _ArchivedGeneration:
    """A generation that retention has dropped, and a lake has."""

    def __init__(self, spark: SparkSession, lake: ArchiveTable, task: RelayoutTask) -> None:
        record = task.old
        found = read_lake(spark, lake, (), record.start_us, record.end_us, COLUMNS, set(record.shards))
        times = [sql.unix_micros(name).alias(name) for name in LAKE_TIMES]
        self._rows: Final = found.select(*LAKE_COLUMNS, *times)
        self._record: Final = task.new
        with spark_errors():
            counted = (
                self._rows.groupBy("shard").agg(sql.count("*").alias("n"), sql.max("offset").alias("last")).collect()
            )
        counts = {row.shard: row.n for row in counted}
        self.messages: Final = sum(counts.values())
        self._last: Final = {row.shard: row.last for row in counted}
        for shard in record.shards:
            check_count(task, shard, counts.get(shard, 0))
            if task.messages(shard) == UNKNOWN:
                raise PermanentError(f"the log does not know any more where generation {record.number} begins")

    def structures(self) -> dict[int, LayoutStructure]:
        counted = self._rows.groupBy(sql.col("shard").alias("slot"), sql.col("topic").cast("binary").alias("topic"))
        return learn_structures(counted.agg(sql.count("*").alias("messages")), _choices(self._record))

    def pairs(self, structures: Mapping[int, LayoutStructure], counter: TaskCounter) -> DataFrame:
        tasks = max(self._rows.sparkSession.sparkContext.defaultParallelism, task_count(self.messages))
        by_place = self._rows.repartitionByRange(tasks, "shard", "offset").sortWithinPartitions("shard", "offset")
        work = CountedBatches(partial(lay_out_rows, structures), counter)
        return by_place.mapInArrow(work, from_arrow_schema(PAIRS))

    def last_us(self, shard: int) -> int:
        return int(self._last.get(shard, UNKNOWN))

    def cuts(self) -> dict[int, list[int]]:
        tasks = task_count(self.messages)
        if tasks == 1:
            return {}
        shares = [number / tasks for number in range(1, tasks)]
        with spark_errors():
            found = self._rows.groupBy("shard").agg(sql.percentile_approx("offset", shares).alias("cuts")).collect()
        return {row.shard: row.cuts for row in found}


def _cut_at(part: Part, positions: Sequence[int]) -> list[Part]:
    pieces: list[Part] = []
    for at_us in sorted(positions):
        if part.lo_us < at_us < part.hi_us:
            piece, part = part.cut(at_us)
            pieces.append(piece)
    return [*pieces, part]


def _choices(record: Generation) -> dict[int, LayoutChoice]:
    """For each shard of a generation."""
    return {shard: LayoutChoice(record.layout, dict(record.parameters)) for shard in record.shards}


def _structure(reader: HistoryReader, record: Generation, shard: int) -> tuple[tuple[bytes, bytes], ...]:
    found: Any = scan_items(reader.family(record.family(shard)), STRUCTURE, MESSAGES)
    return tuple((key[len(STRUCTURE) :], value) for key, value in found)
