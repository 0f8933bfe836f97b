"""A run of the archive: take the lake, clean up after whoever died, archive once or again and again, keep order."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from holdfast.model.errors import TransientError
from holdfast.pipeline.archive import BATCH_ROWS, Archive, Batch, Runner
from holdfast.pipeline.faults import fault
from holdfast.pipeline.lake import Lake
from holdfast.pipeline.lake_patterns import MOST_PATTERNS
from holdfast.pipeline.lake_upkeep import files_of, sweep, writing
from holdfast.pipeline.offsets import Offsets
from holdfast.pipeline.opening import opened
from holdfast.pipeline.options import Options
from holdfast.pipeline.reporting import LOGGER

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ArchiveJob:
    """What is to be archived, and where to."""

    options: Options
    lake: Path
    name: str
    #: None: once.
    every_s: float | None = None
    batch_rows: int = BATCH_ROWS
    most_patterns: int = MOST_PATTERNS
    compacts: bool = True


@dataclass
class Outcome:
    """What a run did, so far."""

    batches: int = 0
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    lost: int = 0
    #: Files that somebody left who died, and files that were replaced by larger ones.
    swept: int = 0
    compacted: int = 0
    version: int = 0
    offsets: Offsets = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        self.batches += 1
        self.rows += batch.rows
        self.files += batch.files
        self.size_bytes += batch.size_bytes
        self.lost += batch.lost


#: Is told of each batch when it is safe.
Progress = Callable[[Outcome, Batch], None]


def run_archive(
    job: ArchiveJob,
    make_runner: Callable[[], Runner],
    progress: Progress | None = None,
    pause: Callable[[float], bool] | None = None,
) -> Outcome:
    """Archive once, or until `pause` says no. Spark is started by `make_runner`, when all else is known to be right."""
    outcome = Outcome()
    with opened(job.options):
        pass  # SettingsError, before anything is made
    with writing(job.lake) as was_left:
        lake = Lake.open_or_make(job.lake, job.name)
        fault("archive-begun")
        if was_left:
            outcome.swept = sweep(lake)
        archive = Archive(
            job.options, lake, _Late(make_runner), batch_rows=job.batch_rows, most_patterns=job.most_patterns
        )
        try:
            for _turn in turns(job.every_s, pause or _sleep):
                _take_turn(job, archive, outcome, progress)
            if was_left:
                # Workers of whoever died may have gone on for a while.
                outcome.swept += sweep(lake)
        finally:
            archive.close()
            outcome.version, outcome.offsets = lake.version, dict(lake.offsets)
    return outcome


def _take_turn(job: ArchiveJob, archive: Archive, outcome: Outcome, progress: Progress | None) -> None:
    try:
        for batch in archive.batches():
            outcome.add(batch)
            if progress is not None:
                progress(outcome, batch)
    except TransientError as error:
        if job.every_s is None:
            raise
        LOGGER.warning("the archive tries again: %s", error)
        archive.lake.refresh()
    if job.compacts:
        outcome.compacted += archive.compact()


def turns(every_s: float | None, pause: Callable[[float], bool]) -> Iterator[None]:
    """One each `every_s`, or as soon as the one before is done."""
    while True:
        began_s = time.monotonic()
        yield
        if every_s is None or not pause(max(0.0, began_s + every_s - time.monotonic())):
            return


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True


class _Late:
    """A runner that is made when there is something to run."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make: Final = make
        self._made: Runner | None = None

    def __call__(self, work: Any, tasks: Any) -> list[Any]:
        if self._made is None:
            self._made = self._make()
        return self._made(work, tasks)


# ---- what is there


@dataclass(frozen=True)
class ShardStatus:
    """How far a shard is in the lake."""

    shard: int
    position_us: int
    serial: int
    #: Messages of the log that are not in the lake; None if the log was not asked.
    behind: int | None


@dataclass(frozen=True)
class Status:
    """What a lake holds."""

    name: str
    version: int
    rows: int
    files: int
    size_bytes: int
    first_day: str | None
    last_day: str | None
    patterns: list[str]
    shards: list[ShardStatus]


def status_of(folder: Path, options: Options | None = None) -> Status:
    """Of a lake, and of the log that it is filled from, if that is given. SettingsError if there is no lake."""
    lake = Lake.open(folder)
    heads: Offsets = {}
    if options is not None:
        with opened(options) as source:
            heads = source.heads()
    files = files_of(lake)
    days = sorted({file["partition.day"].isoformat() for file in files})
    done = {shard: lake.offsets.get(shard) for shard in sorted(lake.offsets.keys() | heads.keys())}
    return Status(
        name=lake.name,
        version=lake.version,
        rows=sum(file["num_records"] for file in files),
        files=len(files),
        size_bytes=sum(file["size_bytes"] for file in files),
        first_day=days[0] if days else None,
        last_day=days[-1] if days else None,
        patterns=sorted({file["partition.pattern"] for file in files}),
        shards=[
            ShardStatus(
                shard,
                offset.position_us if offset else -1,
                offset.serial if offset else 0,
                heads[shard].serial - (offset.serial if offset else 0) if shard in heads else None,
            )
            for shard, offset in done.items()
        ],
    )
