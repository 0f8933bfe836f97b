"""The archive: the log, batch by batch, into a lake, each message exactly once.

    lake.offsets ──▶ plan [begin, end) ──▶ tasks read the log and write Parquet ──▶ one transaction ──▶ lease
         ▲                                 these files are in no table yet           files + end         retention may
         └──────────────────────────────────────────────────────────────────────────────┘               go on to end

1. The offsets in the lake are the only record of progress (`lake.py`). A batch begins there; a process that dies at any
   moment leaves either the state before its batch, and files that are in no table, or the state after it.
2. [begin, end) is the same set of messages whenever it is read: end was durable. Each task knows by serials how many
   messages it owes, and a batch is committed only if every shard got as many rows as its serials say. What was erased
   in the log is not archived; which serials these were is recorded before the batch is committed (`erasures.py`). Of a
   folder, each file has to lie where the driver sees it.
3. The lease follows the transaction, never precedes it: retention drops nothing that is not in the lake.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
from pyspark.sql.streaming.datasource import ReadMaxRows

from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.reader.record_replay import SERIAL
from holdfast.history.reader.view import DroppedError
from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.archive_table import ArchiveTable, newest_row
from holdfast.pipeline.lake.delta_files import check_files
from holdfast.pipeline.lake.erasures import UNARCHIVED, record_erasure
from holdfast.pipeline.lake.lake_files import DataFileForm, WrittenFiles, write_files
from holdfast.pipeline.lake.lake_patterns import MOST_PATTERNS, busiest_patterns
from holdfast.pipeline.lake.serial_ranges import SerialRanges, merge_ranges, ranges_of
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeStore
from holdfast.pipeline.source.history_source import HistorySource, open_source, refresh_heads
from holdfast.pipeline.source.offsets import NOWHERE, Offsets, from_json, to_json
from holdfast.pipeline.source.partitions import HistoryPartition, first_at, rows_per_task
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.source.schema import spark_schema
from holdfast.pipeline.source.stream_reader import StreamReader
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.log import log_gap
from holdfast.pipeline.spark.progress import JobProgress, no_progress
from holdfast.pipeline.spark.runner import Runner, raise_permanent

#: Messages of a transaction, at most: minutes of work that a kill can cost, and a fair size of files.
BATCH_ROWS: Final = 8_000_000
#: Messages that a task reads, at most.
TASK_ROWS: Final = 500_000
#: Of a job, as its progress shows it: small files may be replaced afterwards, and which ones is not known yet.
_SHARE: Final = 0.9
_LEASE: Final = "archive-"

Task = tuple[HistoryPartition, ...]


@dataclass(frozen=True)
class ArchivedBatch:
    version: int
    rows: int
    files: int
    size_bytes: int
    #: Messages that are missing by their serials; retention was faster, and that was accepted.
    lost: int
    end: Offsets


class Archive:
    """Requires: `open_writer`, for as long as it is used; `close`."""

    def __init__(
        self,
        options: ReadOptions,
        lake: ArchiveTable,
        run: Runner,
        *,
        batch_rows: int = BATCH_ROWS,
        most_patterns: int = MOST_PATTERNS,
        progress: JobProgress = no_progress,
    ) -> None:
        self.lake: Final = lake
        self._options: Final = options
        self._run: Final = run
        self._batch_rows: Final = batch_rows
        self._most_patterns: Final = most_patterns
        self._reader: Final = StreamReader(spark_schema(COLUMNS), replace(options, lease=_LEASE + lake.name))
        self._progress: Final = progress
        self._patterns: list[str] = []
        #: The newest generation of each zone when the patterns were looked up.
        self._learnt_from: dict[str, int] = {}

    def close(self) -> None:
        self._reader.stop()

    def batches(self) -> Iterator[ArchivedBatch]:
        """Archive what is durable now. Each batch is given when it is safe."""
        self._reader.prepareForTriggerAvailableNow()
        target = from_json(self._reader.reportLatestOffset())
        begin = self._begin(target)
        self._renew()
        self._progress(0.0, "archiving messages", until=_SHARE, rows=_messages(begin, target))
        while True:
            end = from_json(self._reader.latestOffset(to_json(begin), ReadMaxRows(self._batch_rows)))
            if end == begin:
                return
            batch = self._archive(begin, end)
            self._renew()
            yield batch
            begin = end

    # ---- within

    def _begin(self, heads: Offsets) -> Offsets:
        """Where the lake ends, and for an empty lake, where the log begins."""
        for shard, done in self.lake.offsets.items():
            head = heads.get(shard)
            if head is not None and head.serial < done.serial:
                raise PermanentError(
                    f"the lake has {done.serial} messages of shard {shard}, and the log has {head.serial}: these are "
                    f"not the data that were archived there; use another lake"
                )
        self._refuse_other_broker()
        return dict(self.lake.offsets) or from_json(self._reader.initialOffset())

    def _refuse_other_broker(self) -> None:
        """PermanentError if a message of the lake is another one in the log, or none, where the log reaches so far."""
        row = newest_row(self.lake)
        if row is None:
            return
        with open_source(self._options) as source:
            refresh_heads(source)
            if source.lost(row.shard, row.position_us, row.position_us + 1) is not None:
                return
            found = first_at(source, None, row.shard, row.position_us, row.position_us + 1)
        if found is None or found.serial != row.serial:
            raise PermanentError(
                f"message {row.serial} of shard {row.shard}, in the lake {self.lake.store}, is not in this log: "
                f"the lake belongs to another broker; give the log that it was made from, or use another lake"
            )

    def _archive(self, begin: Offsets, end: Offsets) -> ArchivedBatch:
        planned = self._reader.partitions(to_json(begin), to_json(end))
        tasks = _packed([part for part in planned if isinstance(part, HistoryPartition)])
        self._learn(tasks)
        work = partial(archive_task, self._options, self.lake.store, self.lake.form, tuple(self._patterns))
        written: list[WrittenFiles] = raise_permanent(self._run(work, tasks)) if tasks else []
        files = list(chain.from_iterable(result.files for result in written))
        rows = sum(file.rows for file in files)
        lost = self._missing(begin, end, written)
        check_files(self.lake.store, files)
        left_out = merge_ranges(chain.from_iterable(result.left_out for result in written))
        record_erasure(self.lake.store, kind=UNARCHIVED, what="", by=f"archive {self.lake.name}", gone=left_out)
        fault("archive-written")
        metadata = {"archive": self.lake.name, "end": to_json(end), "rows": rows, "lost": lost}
        version = self.lake.commit(end, files, metadata)
        fault("archive-committed")
        size_bytes = sum(file.size_bytes for file in files)
        return ArchivedBatch(version, rows, len(files), size_bytes, lost, end)

    def _missing(self, begin: Offsets, end: Offsets, written: Sequence[WrittenFiles]) -> int:
        """How many messages are missing by their serials; PermanentError if any is, unless that is accepted."""
        missing = 0
        for shard, last in end.items():
            rows = sum(result.rows.get(shard, 0) for result in written)
            rows += sum(part.rows for result in written for part in result.left_out if part.shard == shard)
            after = begin.get(shard, NOWHERE).serial
            owed = last.serial - after
            if rows > owed or (rows < owed and self._options.fail_on_data_loss):
                raise PermanentError(
                    f"shard {shard} gave {rows} messages, and by their serials, from {after + 1} to {last.serial}, "
                    f"there are {owed}; run: holdfast verify"
                )
            missing += owed - rows
        return missing

    def _renew(self) -> None:
        """Shards that have nothing in the lake yet are named too: they are needed from their first message on."""
        self._reader.commit(to_json(self.lake.offsets))

    def _learn(self, tasks: Sequence[Task]) -> None:
        """Patterns stay the same until there is another generation, or there would be files of too many."""
        if not self._most_patterns:
            return
        generations: dict[str, int] = {}
        for part in [part.part for task in tasks for part in task]:
            # In a cluster the shards of a zone may be in different ones.
            newest = max(part.generation, generations.get(part.zone, 0), self._learnt_from.get(part.zone, 0))
            generations[part.zone] = newest
        if not generations.items() <= self._learnt_from.items():
            with open_source(self._options) as source:
                self._patterns = busiest_patterns(source.patterns(), self._most_patterns)
            self._learnt_from |= generations


def archive_task(
    options: ReadOptions, store: LakeStore, form: DataFileForm, patterns: Sequence[str], task: Task
) -> WrittenFiles | PermanentError:
    """In a worker: read some parts of the log and write them to the lake. An error that no retry helps is given."""
    try:
        with open_source(options) as source:
            left_out: list[SerialRanges] = []
            written = write_files(store, _read(source, options, task, left_out), patterns, form)
            return written._replace(left_out=tuple(left_out))
    except PermanentError as error:
        return error
    except STORE_ERRORS as error:
        # Spark tries again, and prints what it was.
        said = store.translate(error, TransientError, f"files of the lake {store} cannot be written")
        raise said from None


def _read(source: HistorySource, options: ReadOptions, task: Task, left_out: list[SerialRanges]) -> Iterator[Any]:
    """`left_out` receives the serials of erased messages: the source has checked that they are there."""
    for partition in task:
        part = partition.part
        seen = np.zeros(max(0, part.last_serial - part.after_serial), dtype=bool)
        try:
            for batch in source.batches(part, (), COLUMNS, in_order=False):
                seen[batch.column(SERIAL).to_numpy() - part.after_serial - 1] = True
                yield batch
            if not seen.all():
                left_out.append(ranges_of(part.shard, np.flatnonzero(~seen) + part.after_serial + 1))
        except DroppedError as dropped:
            if options.fail_on_data_loss:
                raise
            log_gap(str(dropped))


def _packed(parts: Sequence[HistoryPartition]) -> list[Task]:
    """Parts in tasks of at most TASK_ROWS messages, where a part is not larger itself; of fewer, if all are few."""
    tasks: list[list[HistoryPartition]] = []
    most = min(TASK_ROWS, rows_per_task(sum(part.part.last_serial - part.part.after_serial for part in parts)))
    room = 0
    for part in parts:
        rows = part.part.last_serial - part.part.after_serial
        if rows > room:
            tasks.append([])
            room = most
        tasks[-1].append(part)
        room -= rows
    return [tuple(task) for task in tasks]


def _messages(begin: Offsets, end: Offsets) -> int:
    """As many lie between the two, by their serials."""
    return sum(offset.serial - begin.get(shard, NOWHERE).serial for shard, offset in end.items())


def measure_files(task: Task, written: WrittenFiles) -> tuple[int, int]:
    """The messages and bytes that a task has written; messages that are erased or gone count as done."""
    rows = sum(partition.part.last_serial - partition.part.after_serial for partition in task)
    return rows, sum(file.size_bytes for file in written.files)
