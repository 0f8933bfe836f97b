"""Retention, erasure and compaction of a lake.

    erase   log: hidden ──▶ files are searched and rewritten ──▶ recorded ──▶ one transaction ──▶ vacuumed
    age     files of old days ─────────────────────────────────────────▶ recorded ──▶ one transaction

1. The log comes first: from then on no reader shows what is erased, and no archive brings it back. A run that
   is killed after that leaves an erasure unfinished in the lake; running it again is always right.
2. When an erasure has returned, no file of the lake holds a message of it: files that earlier versions of the table
   were made of are gone, and with them the way back to those versions.
3. One writer at a time (`writer.py`): no archive adds anything meanwhile.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.pipeline.lake.compaction.plan import crowded_partitions
from holdfast.pipeline.lake.delta_files import check_files
from holdfast.pipeline.lake.erase_task import ErasureFilter, SearchedFile, StoredFile, search_files
from holdfast.pipeline.lake.erasures import ERASED, EXPIRED, record_erasure
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.serial_ranges import merge_ranges, span_ranges
from holdfast.pipeline.lake.store import LakeAddress, LakeStore
from holdfast.pipeline.lake.upkeep import compact, remove_orphans, vacuum
from holdfast.pipeline.lake.writer import open_writer
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.progress import JobProgress, no_progress
from holdfast.pipeline.spark.runner import LazyRunner, Runner, raise_permanent
from holdfast.storage.rocks.log.erasure_file import erase
from holdfast.topics.filters import parse_filter

#: Files that a task looks through, at most; and bytes, about.
_TASK_FILES: Final = 64
_TASK_BYTES: Final = 256 * 2**20


@dataclass(frozen=True)
class RetainJob:
    lake: LakeAddress
    #: Of the broker, to hide there what is erased here.
    data: Path | None = None
    client: str = ""
    topic: str = ""
    #: The first day that stays.
    keep_from: date | None = None
    compacts: bool = False
    #: Only say what would be done.
    dry_run: bool = False
    by: str = ""

    @property
    def erases(self) -> bool:
        return bool(self.client or self.topic)


@dataclass
class RetainOutcome:
    erased_rows: int = 0
    #: Files that were rewritten, and files of which nothing was left.
    rewritten: int = 0
    emptied: int = 0
    expired_rows: int = 0
    expired_days: list[str] = field(default_factory=list)
    compacted: int = 0
    #: Files that are gone from the disk.
    removed: int = 0
    swept: int = 0
    #: The last position of each shard that is hidden in the log.
    hidden_up_to: dict[int, int] = field(default_factory=dict)
    size_before: int = 0
    size_bytes: int = 0
    version: int = 0


def run_retain(job: RetainJob, make_runner: Callable[[], Runner], progress: JobProgress = no_progress) -> RetainOutcome:
    """`make_runner` starts Spark, if there are files to search. SettingsError if there is no lake."""
    store = LakeStore.at(job.lake)
    lake = Lake.open(store)
    runner = LazyRunner(make_runner)
    if job.dry_run:
        work = _Retention(job, lake, runner, progress)
        work.run()
    else:
        with open_writer(store, lambda: Lake.open(store)) as (lake, was_left):
            work = _Retention(job, lake, runner, progress)
            if was_left:
                work.outcome.swept = remove_orphans(lake)
            work.run()
            if was_left:
                # Workers of a killed run may have gone on for a while.
                work.outcome.swept += remove_orphans(lake)
    work.outcome.version = lake.version
    return work.outcome


@dataclass(frozen=True)
class _Retention:
    """One run. Requires: `open_writer`, unless it is a dry run."""

    job: RetainJob
    lake: Lake
    runner: Runner
    progress: JobProgress
    outcome: RetainOutcome = field(default_factory=RetainOutcome)

    def run(self) -> None:
        job = self.job
        self.outcome.size_before = _size(self.lake)
        if job.erases:
            self._erase()
        if job.keep_from is not None:
            self._expire(job.keep_from)
        if job.compacts:
            self._compact()
        if job.erases and not job.dry_run:
            self._vacuum()
        self.outcome.size_bytes = _size(self.lake)

    def _erase(self) -> None:
        job, lake, outcome = self.job, self.lake, self.outcome
        levels = parse_filter(job.topic.encode()).levels if job.topic else ()
        if not job.dry_run:
            outcome.hidden_up_to = _hide(job)
            fault("retain-hidden")
        files = lake.list_files()
        found = self._search(files, ErasureFilter(job.client, levels), writes=not job.dry_run)
        outcome.erased_rows = sum(part.rows for one in found for part in one.gone)
        outcome.emptied = sum(one.left is None for one in found)
        outcome.rewritten = len(found) - outcome.emptied
        if job.dry_run or not found:
            return
        names = {one.name for one in found}
        gone = [file for file in files if file["path"] in names]
        left = [one.left for one in found if one.left is not None]
        check_files(lake.store, left)
        lake.check_replaceable(gone)  # before it is recorded
        what = f"client {job.client}" if job.client else f"topics {job.topic}"
        record_erasure(
            lake.store,
            kind=ERASED,
            what=what,
            by=job.by,
            gone=merge_ranges(part for one in found for part in one.gone),
        )
        fault("retain-written")
        lake.replace(gone, left, {"erased": outcome.erased_rows})
        fault("retain-committed")

    def _expire(self, keep_from: date) -> None:
        lake, outcome = self.lake, self.outcome
        old = [file for file in lake.list_files() if file["partition.day"] < keep_from]
        outcome.expired_days = sorted({file["partition.day"].isoformat() for file in old})
        outcome.expired_rows = sum(file["num_records"] for file in old)
        if self.job.dry_run or not old:
            return
        lake.check_replaceable(old)
        found = self._search(old, ErasureFilter(), writes=False)
        what = f"before {keep_from.isoformat()}"
        gone = span_ranges(part for one in found for part in one.gone)
        record_erasure(lake.store, kind=EXPIRED, what=what, by=self.job.by, gone=gone)
        lake.replace(old, [], {"expired": outcome.expired_rows})
        # Queries may read these files today: files that were replaced stay for a week.
        outcome.removed += vacuum(lake)

    def _compact(self) -> None:
        lake, outcome = self.lake, self.outcome
        if self.job.dry_run:
            today = datetime.now(UTC).date().isoformat()
            outcome.compacted = sum(crowded_partitions(lake, today, lake.names_with_deletions()).values())
            return
        while done := compact(lake, self.runner, progress=self.progress):
            outcome.compacted += done

    def _vacuum(self) -> None:
        """Remove every file that the table does not need now."""
        lake = self.lake
        self.progress.say("removing old files")
        self.outcome.removed += remove_orphans(lake, replaced=True)
        left = remove_orphans(lake, replaced=True)
        if left:
            raise PermanentError(f"{left} old files of {lake.store} were still there; run it again")

    def _search(self, files: Sequence[dict[str, Any]], wanted: ErasureFilter, *, writes: bool) -> list[SearchedFile]:
        tasks = _packed(files)
        if tasks:
            rows = sum(file["num_records"] for file in files)
            self.progress(0.0, f"looking through {len(files)} files", until=1.0, rows=rows)
        work = partial(search_files, self.lake.store, wanted, writes=writes)
        return list(chain.from_iterable(raise_permanent(self.runner(work, tasks))))


def _hide(job: RetainJob) -> dict[int, int]:
    """In the log, up to what is durable now: the lake has nothing beyond."""
    assert job.data is not None, "an erasure needs the data folder"
    with HistoryReader.open(job.data) as reader:
        up_to = {shard: head.position_us for shard, head in reader.heads().items()}
    now_us = time.time_ns() // 1000
    made = erase(job.data, client=job.client, topic=job.topic, up_to=up_to, now_us=now_us, made_by=job.by)
    return made.up_to


def _packed(files: Sequence[dict[str, Any]]) -> list[Any]:
    tasks: list[list[StoredFile]] = []
    room_bytes = 0
    for file in files:
        room_bytes -= file["size_bytes"]
        if room_bytes < 0 or len(tasks[-1]) == _TASK_FILES:
            tasks.append([])
            room_bytes = _TASK_BYTES
        place = _place(file)
        tasks[-1].append(
            StoredFile(file["path"], unquote(file["path"]), *place, file["num_records"], file["size_bytes"])
        )
    return [tuple(task) for task in tasks]


def _place(file: dict[str, Any]) -> tuple[str, str]:
    return file["partition.day"].isoformat(), file["partition.pattern"]


def _size(lake: Lake) -> int:
    return sum(file["size_bytes"] for file in lake.list_files())


def first_day(days: int, now: datetime | None = None) -> date:
    """The first day that stays, if today and the last `days` days stay."""
    return ((now or datetime.now(UTC)) - timedelta(days=days)).date()
