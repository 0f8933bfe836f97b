"""Upkeep of an Iceberg lake: no orphaned files of ours, and no more snapshots than readers need.

1. Only files whose names begin as ours do are removed: another program may be writing its own, to replace some of ours.
2. A file that any snapshot has stays: readers and other programs may be at it. One that a snapshot may still get stays,
   too: before any goes, the table moves on, so that no commit of an earlier writer can land.
3. Snapshots are kept for a week. The newest with a mark, and those that a branch or a tag names, stay for longer.
4. A task that Spark has tried again may have left a file, in a run that ended well. Such files go when they are a week
   old. They are looked for once a day at most: that lists all files and reads all manifests.

Small files are left as they are: the programs that read the table compact it better, by sorting it as they read it.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from math import inf
from typing import Final
from urllib.parse import unquote

from pyiceberg.manifest import ManifestContent
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from holdfast.model.errors import TransientError
from holdfast.pipeline.lake.delta_files import BEGINNING
from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.lake.iceberg.mark import MARK, operation_of
from holdfast.pipeline.lake.iceberg.table_files import FOLDER
from holdfast.pipeline.spark.log import LOGGER

_KEPT: Final = timedelta(days=7)
#: Snapshots that are too old, before it is worth a commit.
LEAST_EXPIRED: Final = 100


class Upkeep:
    """What is done for a lake between batches. Requires: to be its only writer."""

    def __init__(self, lake: IcebergLake) -> None:
        self._lake: Final = lake
        #: Of the newest snapshot, when files were looked for, or when the lake was opened.
        self._day: date | None = _newest_day(lake)

    def keep(self) -> None:
        """Forget old snapshots; on a day that had no snapshot yet, remove files that attempts of tasks have left."""
        expire_snapshots(self._lake)
        day = _newest_day(self._lake)
        if day == self._day:
            return
        try:
            remove_orphans(self._lake, datetime.now(UTC) - _KEPT)
        except TransientError as error:
            LOGGER.warning("old files stay for now: %s", error)
        else:
            self._day = day


def remove_orphans(lake: IcebergLake, before: datetime | None = None) -> int:
    """Remove files of ours that no snapshot has, all or those from before a time; how many.

    Requires: to be its only writer.
    """
    store = lake.store
    before_s = before.timestamp() if before is not None else inf
    with store.errors(TransientError, f"old files of {store} cannot be removed"):
        # First what lies there, then what the table has, and whether it is still ours: who claims the lake later has
        # written none of these files.
        there = [file.path for file in store.iter_data_files() if _is_ours(file.path) and file.modified_s < before_s]
        lake.refresh()
        lake.check_claim()
        known = {unquote(file["path"]) for file in lake.list_files()}
        orphans = {path for path in there if path not in known}
        if orphans:
            orphans -= _paths_of(lake, _last_of_runs(lake))
        if orphans:
            # What a writer has asked for before it was killed, or gave up, may still be on its way to the catalog.
            lake.fence()
            store.remove(sorted(orphans))
    return len(orphans)


def expire_snapshots(lake: IcebergLake, now: datetime | None = None, least: int = LEAST_EXPIRED) -> int:
    """Forget snapshots that are too old, with their manifests; how many. Requires: to be its only writer."""
    metadata = lake.table.metadata
    before_ms = int(((now or datetime.now(UTC)) - _KEPT).timestamp() * 1000)
    needed = {ref.snapshot_id for ref in metadata.refs.values()}
    newest_marked = next((one for one in _chain(lake) if one.summary is not None and one.summary[MARK]), None)
    if newest_marked is not None:
        needed.add(newest_marked.snapshot_id)
    old = [one for one in metadata.snapshots if one.timestamp_ms < before_ms and one.snapshot_id not in needed]
    if len(old) < least:
        return 0
    with lake.catalog.errors(TransientError, "cannot be written"):
        left = [one for one in metadata.snapshots if one not in old]
        unused = _unused_files(lake, old, left)
        lake.table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
    lake.refresh()
    try:
        lake.store.remove(sorted(unused))
    except OSError as error:
        LOGGER.warning("old metadata of %s stay: %s", lake, lake.store.describe(error))
    return len(old)


# ---- within


def _newest_day(lake: IcebergLake) -> date | None:
    head = lake.table.current_snapshot()
    return None if head is None else datetime.fromtimestamp(head.timestamp_ms / 1000, UTC).date()


def _is_ours(path: str) -> bool:
    return path.startswith(FOLDER) and path.rpartition("/")[2].startswith(BEGINNING)


def _chain(lake: IcebergLake) -> list[Snapshot]:
    metadata = lake.table.metadata
    return list(ancestors_of(metadata.current_snapshot(), metadata))


def _is_line(lake: IcebergLake) -> bool:
    """Whether no snapshot is beside the others: by a branch, a tag, or because the table was rolled back."""
    metadata = lake.table.metadata
    return set(metadata.refs) <= {MAIN_BRANCH} and len(_chain(lake)) == len(metadata.snapshots)


def _last_of_runs(lake: IcebergLake) -> Iterable[Snapshot]:
    """Snapshots that together have all files that any has: while files are only added, the last one has them."""
    ordered = sorted(lake.table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    if not _is_line(lake):
        return ordered
    return [one for one, after in pairwise(ordered) if operation_of(after) is not Operation.APPEND]


def _paths_of(lake: IcebergLake, snapshots: Iterable[Snapshot]) -> set[str]:
    io = lake.table.io
    manifests = {one.manifest_path: one for snapshot in snapshots for one in snapshot.manifests(io)}
    return {
        lake.path_of(entry.data_file.file_path)
        for manifest in manifests.values()
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(io)
    }


def _unused_files(lake: IcebergLake, old: Sequence[Snapshot], left: Sequence[Snapshot]) -> set[str]:
    """Metadata that only snapshots have which will be forgotten."""
    if not _is_line(lake):
        return set()  # one of another branch may have it
    io = lake.table.io
    # What a later one has, the first that is left has, too: a manifest that was given up does not come back.
    first = min(left, key=lambda one: one.sequence_number or 0)
    needed = {first.manifest_list, *(one.manifest_path for one in first.manifests(io))}
    found = {one.manifest_list for one in old}
    found |= {manifest.manifest_path for one in old for manifest in one.manifests(io)}
    return {lake.path_of(path) for path in found - needed}
