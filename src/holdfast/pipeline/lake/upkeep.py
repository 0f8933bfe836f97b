"""Upkeep of a lake: no orphaned files, few small files.

1. Who writes is the only one (`writer.py`). So whatever is in the lake and not in the table when it is claimed was left
   by a killed process, and can go.
2. Compaction replaces files in one transaction. Those it replaced stay for a week, for readers that have begun.
3. One call does a bounded amount of work.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import WriterProperties
from deltalake.exceptions import CommitFailedError

from holdfast.files.replacement import sync_path
from holdfast.model.errors import TransientError
from holdfast.pipeline.lake.delta_log import StoredTable
from holdfast.pipeline.lake.lake_files import DAY, PATTERN
from holdfast.pipeline.lake.store import STORE_ERRORS
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.log import LOGGER

#: What compaction aims at, and what it takes for small.
_TARGET_BYTES: Final = 128 * 2**20
_SMALL_BYTES: Final = 32 * 2**20
#: Small files of one day and pattern that may be: while the day goes on, and when it is over.
_MOST_SMALL_TODAY: Final = 64
_MOST_SMALL_BEFORE: Final = 3
#: Days and patterns that one call compacts.
_MOST_PLACES: Final = 8
_WRITING: Final = WriterProperties(compression="ZSTD")


def remove_orphans(lake: StoredTable, *, replaced: bool = False) -> int:
    """Remove files that no version of the table knows; how many. Requires: to be its only writer.

    With `replaced` also those that only older versions know: readers may be at them.
    """
    store = lake.store
    with store.errors(TransientError, f"old files of {store} cannot be removed"):
        # First what lies there, then what the table has, and whether it is still ours: who claims the lake later has
        # written none of these files.
        there = [path for path in store.list_paths() if path.endswith(".parquet") and path[0] != "_"]
        lake.refresh()
        lake.check_claim()
        known = {unquote(file["path"]) for file in list_files(lake)}
        if not replaced:
            known |= set(lake.table.vacuum(0, dry_run=True, enforce_retention_duration=False))
        orphans = [path for path in there if path not in known]
        store.remove(orphans)
    return len(orphans)


def compact(lake: StoredTable, today: datetime | None = None, partitions: Sequence[str] = (DAY, PATTERN)) -> int:
    """Replace small files by large ones, in a few days and patterns; how many files are gone.

    Requires: to be its only writer. Of the partitions, the first is the day.
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
                commit_properties=lake.fenced(),
            )
        except CommitFailedError as error:
            # Another process deletes from the lake at the same time, and goes first.
            LOGGER.warning("%s was not compacted this time: %s", " ".join(place), lake.store.describe(error))
            lake.refresh()
            continue
        except STORE_ERRORS as error:
            raise lake.store.translate(error, TransientError, f"{lake.store} cannot be compacted") from None
        removed += int(done["numFilesRemoved"])
    if removed:
        known = {file["path"] for file in files}
        lake.refresh()
        # Delta does not wait for the disk. Until this is done, a power loss may cost the new files; the old are there.
        if lake.store.folder is not None:
            for file in list_files(lake):
                if file["path"] not in known:
                    sync_path(lake.store.folder / unquote(file["path"]))
        lake.sync(before)
        fault("archive-compacted")
        try:
            # Also what tasks left that Spark has tried again elsewhere.
            lake.table.vacuum(dry_run=False, full=True)
        except STORE_ERRORS as error:
            LOGGER.warning("old files of %s stay for now: %s", lake.store, lake.store.describe(error))
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


def list_files(lake: StoredTable) -> list[dict[str, Any]]:
    """The files of the table, with `path`, `size_bytes`, `num_records`, `partition.*`, `min.*` and `max.*`."""
    found: list[dict[str, Any]] = pa.table(lake.table.get_add_actions(flatten=True)).to_pylist()
    return found
