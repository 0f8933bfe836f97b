"""Upkeep of a lake: one writer at a time, no orphaned files, few small files.

1. Who writes holds a lock of the operating system, which is gone with its process. So whatever is in the lake and not
   in the table when the lock is taken was left by a killed process, and can go.
2. Compaction replaces files in one transaction. Those it replaced stay for a week, for readers that have begun.
3. One call does a bounded amount of work.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from holdfast.files.lock import FileLock
from holdfast.files.replacement import sync_path
from holdfast.model.errors import SettingsError
from holdfast.pipeline.lake.delta_log import DeltaFolder
from holdfast.pipeline.lake.lake import OWN_FOLDER
from holdfast.pipeline.lake.lake_files import DAY, PATTERN
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.log import LOGGER

_LOCK: Final = "lock"
_UNFINISHED: Final = "unfinished"
#: What compaction aims at, and what it takes for small.
_TARGET_BYTES: Final = 128 * 2**20
_SMALL_BYTES: Final = 32 * 2**20
#: Small files of one day and pattern that may be: while the day goes on, and when it is over.
_MOST_SMALL_TODAY: Final = 64
_MOST_SMALL_BEFORE: Final = 3
#: Days and patterns that one call compacts.
_MOST_PLACES: Final = 8
_WRITING: Final = WriterProperties(compression="ZSTD")


@contextmanager
def lock_folder(folder: Path, who: str = "archive") -> Iterator[bool]:
    """Be the only writer of a lake, or of another job's folder, for the length of a block; whether the last one died.

    SettingsError if there is another.
    """
    own = folder / OWN_FOLDER
    try:
        own.mkdir(parents=True, exist_ok=True)
        lock = FileLock(own / _LOCK, mode=0o644)
    except OSError as error:
        raise SettingsError(f"{folder} cannot be made: {error.strerror}; name a folder that can be written") from error
    with lock:
        if not lock.acquire(wait_s=0):
            raise SettingsError(f"another {who} is writing to {folder}; wait for it, or stop it")
        unfinished = own / _UNFINISHED
        was_left = unfinished.exists()
        unfinished.touch()
        yield was_left
        unfinished.unlink()


def remove_orphans(lake: DeltaFolder) -> int:
    """Remove files that no version of the table knows; how many. Requires: `lock_folder`."""
    unneeded = set(lake.table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True))
    # Known, but replaced: readers may be at them.
    replaced = set(lake.table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=False))
    orphans = [lake.folder / path for path in unneeded - replaced]
    for path in orphans:
        path.unlink(missing_ok=True)
    return len(orphans)


def compact(lake: DeltaFolder, today: datetime | None = None, partitions: Sequence[str] = (DAY, PATTERN)) -> int:
    """Replace small files by large ones, in a few days and patterns; how many files are gone. Requires: `lock_folder`.

    Of the partitions, the first is the day.
    """
    removed = 0
    before = lake.version
    files = list_files(lake)
    for place in crowded_partitions(files, (today or datetime.now(UTC)).date().isoformat(), partitions)[:_MOST_PLACES]:
        try:
            done = lake.table.optimize.compact(
                [(name, "=", value) for name, value in zip(partitions, place, strict=True)],
                target_size=_TARGET_BYTES,
                max_concurrent_tasks=1,
                writer_properties=_WRITING,
            )
        except CommitFailedError as error:
            # Another process deletes from the lake at the same time, and goes first.
            LOGGER.warning("%s was not compacted this time: %s", " ".join(place), error)
            continue
        removed += int(done["numFilesRemoved"])
    if removed:
        known = {file["path"] for file in files}
        lake.refresh()
        # Delta does not wait for the disk. Until this is done, a power loss may cost the new files; the old are there.
        for file in list_files(lake):
            if file["path"] not in known:
                sync_path(lake.folder / unquote(file["path"]))
        lake.sync(before)
        fault("archive-compacted")
        try:
            # Also what tasks left that Spark has tried again elsewhere.
            lake.table.vacuum(dry_run=False, full=True)
        except DeltaError as error:
            LOGGER.warning("old files of %s stay for now: %s", lake.folder, error)
        lake.refresh()
    return removed


def crowded_partitions(
    files: list[dict[str, Any]], today: str, partitions: Sequence[str] = (DAY, PATTERN)
) -> list[tuple[str, ...]]:
    """Days and patterns with too many small files, the most crowded first."""
    counts: dict[tuple[str, ...], int] = {}
    for file in files:
        if file["size_bytes"] < _SMALL_BYTES:
            place = tuple(str(file[f"partition.{name}"]) for name in partitions)
            counts[place] = counts.get(place, 0) + 1
    limits = {place: _MOST_SMALL_TODAY if place[0] >= today else _MOST_SMALL_BEFORE for place in counts}
    crowded = [place for place, count in counts.items() if count > limits[place]]
    return sorted(crowded, key=lambda place: (-counts[place], place))


def list_files(lake: DeltaFolder) -> list[dict[str, Any]]:
    """The files of the table, with `path`, `size_bytes`, `num_records`, `partition.*`, `min.*` and `max.*`."""
    found: list[dict[str, Any]] = pa.table(lake.table.get_add_actions(flatten=True)).to_pylist()
    return found
