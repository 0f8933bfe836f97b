"""Retention, erasure and compaction of a lake.

    erase   log: hidden ──▶ files are looked through, and written anew ──▶ recorded ──▶ one transaction ──▶ vacuumed
    age     files of old days ─────────────────────────────────────────▶ recorded ──▶ one transaction

1. The log comes first: from then on no reader shows what is erased, and no archive brings it back. Whoever dies behind
   that leaves an erasure that is not finished in the lake, and is run again; to run it again is always right.
2. When an erasure has returned, no file of the lake holds a message of it: files that earlier versions of the table
   were made of are gone, and with them the way back to those versions.
3. One writer at a time (`lake_upkeep.writing`): no archive adds anything meanwhile.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from holdfast.history.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.pipeline.archive import Runner
from holdfast.pipeline.erase_task import Place, Searched, Wanted, search
from holdfast.pipeline.faults import fault
from holdfast.pipeline.lake import Lake
from holdfast.pipeline.lake_erasures import ERASED, EXPIRED, record
from holdfast.pipeline.lake_upkeep import compact, crowded, files_of, sweep, writing
from holdfast.pipeline.serial_ranges import joined, spanned
from holdfast.storage.rocks.erasure_file import erase
from holdfast.topics.filters import parse_filter

#: Files that a task looks through, at most; and bytes, about.
_TASK_FILES: Final = 64
_TASK_BYTES: Final = 256 * 2**20

Progress = Callable[[float | None, str], None]


@dataclass(frozen=True)
class RetainJob:
    """What is to be done to a lake."""

    lake: Path
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
class Outcome:
    """What was done, or would be."""

    erased_rows: int = 0
    #: Files that were written anew, and files of which nothing was left.
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


def run_retain(job: RetainJob, make_runner: Callable[[], Runner], progress: Progress | None = None) -> Outcome:
    """Spark is started by `make_runner`, if there is something to look through. SettingsError if there is no lake."""
    outcome = Outcome()
    tell = progress or _silent
    lake = Lake.open(job.lake)
    if job.dry_run:
        _work(job, lake, outcome, make_runner, tell)
    else:
        with writing(job.lake) as was_left:
            lake.refresh()
            lake.evolve()
            if was_left:
                outcome.swept = sweep(lake)
            _work(job, lake, outcome, make_runner, tell)
    outcome.version = lake.version
    return outcome


def _work(job: RetainJob, lake: Lake, outcome: Outcome, make_runner: Callable[[], Runner], tell: Progress) -> None:
    outcome.size_before = _size(lake)
    if job.erases:
        _erase(job, lake, outcome, make_runner, tell)
    if job.keep_from is not None:
        _expire(job, lake, outcome, make_runner, tell)
    if job.compacts:
        _compact(job, lake, outcome, tell)
    if job.erases and not job.dry_run:
        _vacuum(lake, outcome, tell)
    outcome.size_bytes = _size(lake)


def _erase(job: RetainJob, lake: Lake, outcome: Outcome, make_runner: Callable[[], Runner], tell: Progress) -> None:
    levels = parse_filter(job.topic.encode()).levels if job.topic else ()
    wanted = Wanted(job.client, levels)
    if not job.dry_run:
        outcome.hidden_up_to = _hide(job)
        fault("retain-hidden")
    files = files_of(lake)
    found = _search(lake, files, wanted, make_runner, tell, writes=not job.dry_run)
    outcome.erased_rows = sum(part.rows for one in found for part in one.gone)
    outcome.emptied = sum(one.left is None for one in found)
    outcome.rewritten = len(found) - outcome.emptied
    if job.dry_run or not found:
        return
    what = f"client {job.client}" if job.client else f"topics {job.topic}"
    record(lake.folder, kind=ERASED, what=what, by=job.by, gone=joined(part for one in found for part in one.gone))
    fault("retain-written")
    names = {one.name for one in found}
    left = [one.left for one in found if one.left is not None]
    lake.replace([file for file in files if file["path"] in names], left, {"erased": outcome.erased_rows})
    fault("retain-committed")


def _hide(job: RetainJob) -> dict[int, int]:
    """In the log, up to what is durable now: the lake has nothing beyond."""
    assert job.data is not None, "whoever erases names the data folder"
    with HistoryReader.open(job.data) as reader:
        up_to = {shard: head.position_us for shard, head in reader.heads().items()}
    now_us = time.time_ns() // 1000
    made = erase(job.data, client=job.client, topic=job.topic, up_to=up_to, now_us=now_us, made_by=job.by)
    return made.up_to


def _expire(job: RetainJob, lake: Lake, outcome: Outcome, make_runner: Callable[[], Runner], tell: Progress) -> None:
    assert job.keep_from is not None
    old = [file for file in files_of(lake) if file["partition.day"] < job.keep_from]
    outcome.expired_days = sorted({file["partition.day"].isoformat() for file in old})
    outcome.expired_rows = sum(file["num_records"] for file in old)
    if job.dry_run or not old:
        return
    found = _search(lake, old, Wanted(), make_runner, tell, writes=False)
    what = f"before {job.keep_from.isoformat()}"
    record(lake.folder, kind=EXPIRED, what=what, by=job.by, gone=spanned(part for one in found for part in one.gone))
    lake.replace(old, [], {"expired": outcome.expired_rows})
    try:
        # Readers may be at what went today: that goes a week later.
        outcome.removed += len(lake.table.vacuum(dry_run=False, full=True))
    except DeltaError as error:
        raise PermanentError(f"old files of {lake.folder} cannot be removed: {error}") from error
    lake.refresh()


def _compact(job: RetainJob, lake: Lake, outcome: Outcome, tell: Progress) -> None:
    if job.dry_run:
        places = set(crowded(files_of(lake), datetime.now(UTC).date().isoformat()))
        outcome.compacted = sum(_place(file) in places for file in files_of(lake))
        return
    while done := compact(lake):
        outcome.compacted += done
        tell(None, f"{outcome.compacted} small files replaced")


def _vacuum(lake: Lake, outcome: Outcome, tell: Progress) -> None:
    """Remove every file that the table does not need now."""
    tell(None, "removing old files")
    try:
        outcome.removed += len(lake.table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True))
    except DeltaError as error:
        raise PermanentError(f"old files of {lake.folder} cannot be removed: {error}") from error
    before = lake.version
    lake.refresh()
    lake.sync(before)
    known = {str(lake.folder / unquote(file["path"])) for file in files_of(lake)}
    left = [path for path in lake.folder.glob("day=*/**/*.parquet") if str(path) not in known]
    if left:
        raise PermanentError(f"{len(left)} old files of {lake.folder} are still there, such as {left[0]}; run it again")


def _search(
    lake: Lake,
    files: Sequence[dict[str, Any]],
    wanted: Wanted,
    make_runner: Callable[[], Runner],
    tell: Progress,
    *,
    writes: bool,
) -> list[Searched]:
    tasks = _packed(lake, files)
    if not tasks:
        return []
    tell(None, f"looking through {len(files)} files")
    work: Any = partial(search, str(lake.folder), wanted, writes=writes)
    found: list[Searched] = []
    for result in make_runner()(work, tasks):
        if isinstance(result, PermanentError):
            raise result
        found += result
    return found


def _packed(lake: Lake, files: Sequence[dict[str, Any]]) -> list[Any]:
    tasks: list[list[Place]] = []
    room_bytes = 0
    for file in files:
        room_bytes -= file["size_bytes"]
        if room_bytes < 0 or len(tasks[-1]) == _TASK_FILES:
            tasks.append([])
            room_bytes = _TASK_BYTES
        path = str(lake.folder / unquote(file["path"]))
        tasks[-1].append(Place(file["path"], path, *_place(file)))
    return [tuple(task) for task in tasks]


def _place(file: dict[str, Any]) -> tuple[str, str]:
    return file["partition.day"].isoformat(), file["partition.pattern"]


def _size(lake: Lake) -> int:
    return sum(file["size_bytes"] for file in files_of(lake))


def first_day(days: int, now: datetime | None = None) -> date:
    """The first day that stays, if the last so many and today do."""
    return ((now or datetime.now(UTC)) - timedelta(days=days)).date()


def _silent(_share: float | None, _words: str) -> None:
    """Nobody looks."""
