"""The archive job: lock the lake, remove what a killed run left, archive once or again and again, compact."""

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.model.errors import TransientError
from holdfast.pipeline.lake.archive import BATCH_ROWS, Archive, ArchivedBatch
from holdfast.pipeline.lake.formats import WritableLake, open_archive, open_lake
from holdfast.pipeline.lake.lake_patterns import MOST_PATTERNS
from holdfast.pipeline.lake.store import LakeAddress
from holdfast.pipeline.source.history_source import open_source, refresh_heads
from holdfast.pipeline.source.offsets import NOWHERE, Offsets
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.log import LOGGER
from holdfast.pipeline.spark.progress import JobProgress, no_progress
from holdfast.pipeline.spark.runner import LazyRunner, Runner, rounds


@dataclass(frozen=True)
class ArchiveJob:
    options: ReadOptions
    lake: LakeAddress
    name: str
    #: None: once.
    every_s: float | None = None
    batch_rows: int = BATCH_ROWS
    most_patterns: int = MOST_PATTERNS
    compacts: bool = True


@dataclass
class ArchiveOutcome:
    batches: int = 0
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    lost: int = 0
    #: Files that a killed run left, and small files that were replaced by larger ones.
    swept: int = 0
    compacted: int = 0
    version: int = 0
    offsets: Offsets = field(default_factory=dict)

    def add(self, batch: ArchivedBatch) -> None:
        self.batches += 1
        self.rows += batch.rows
        self.files += batch.files
        self.size_bytes += batch.size_bytes
        self.lost += batch.lost


#: Receives each batch when it is committed.
Committed = Callable[[ArchiveOutcome, ArchivedBatch], None]


def run_archive(
    job: ArchiveJob,
    make_runner: Callable[[], Runner],
    committed: Committed | None = None,
    pause: Callable[[float], bool] | None = None,
    *,
    progress: JobProgress = no_progress,
) -> ArchiveOutcome:
    """Archive once, or until `pause` says no. Spark is started by `make_runner`, when all else is known to be right."""
    outcome = ArchiveOutcome()
    with open_source(job.options):
        pass  # SettingsError, before anything is made
    with open_archive(job.lake, job.name) as lake:
        fault("archive-begun")
        if lake.was_left:
            outcome.swept = lake.sweep()
        runner = LazyRunner(make_runner)
        archive = Archive(
            job.options,
            lake.table,
            runner,
            batch_rows=job.batch_rows,
            most_patterns=job.most_patterns,
            progress=progress,
        )
        try:
            for _round in rounds(job.every_s, pause):
                _run_round(job, archive, outcome, committed)
                if job.compacts:
                    outcome.compacted += _compact(job, lake, runner, progress)
            if lake.was_left:
                # Workers of a killed run may have gone on for a while.
                outcome.swept += lake.sweep()
        finally:
            archive.close()
            outcome.version, outcome.offsets = lake.table.version, dict(lake.table.offsets)
    return outcome


def _run_round(job: ArchiveJob, archive: Archive, outcome: ArchiveOutcome, committed: Committed | None) -> None:
    try:
        for batch in archive.batches():
            outcome.add(batch)
            if committed is not None:
                committed(outcome, batch)
    except TransientError as error:
        if job.every_s is None:
            raise
        LOGGER.warning("the archive tries again: %s", error)
        archive.lake.refresh()


def _compact(job: ArchiveJob, lake: WritableLake, run: Runner, progress: JobProgress) -> int:
    try:
        return lake.compact(run, progress)
    except TransientError as error:
        if job.every_s is None:
            raise
        LOGGER.warning("small files stay for now: %s", error)
        lake.table.refresh()
        return 0


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
class LakeStatus:
    name: str
    version: int
    rows: int
    files: int
    size_bytes: int
    first_day: str | None
    last_day: str | None
    patterns: list[str]
    shards: list[ShardStatus]


def lake_status(where: LakeAddress, options: ReadOptions | None = None) -> LakeStatus:
    """Of a lake, and of the log that it is filled from, if that is given. SettingsError if there is no lake."""
    lake = open_lake(where)
    heads: Offsets = {}
    if options is not None:
        with open_source(options) as source:
            heads = refresh_heads(source)
    files = lake.list_files()
    days = sorted({file["partition.day"].isoformat() for file in files})
    done = {shard: lake.offsets.get(shard, NOWHERE) for shard in sorted(lake.offsets.keys() | heads.keys())}
    return LakeStatus(
        name=lake.name,
        version=lake.version,
        rows=sum(file["num_records"] for file in files),
        files=len(files),
        size_bytes=sum(file["size_bytes"] for file in files),
        first_day=days[0] if days else None,
        last_day=days[-1] if days else None,
        patterns=sorted({file["partition.pattern"] for file in files}),
        shards=[
            ShardStatus(shard, *offset, heads[shard].serial - offset.serial if shard in heads else None)
            for shard, offset in done.items()
        ],
    )
