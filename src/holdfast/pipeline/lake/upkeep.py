"""Upkeep of a lake: no orphaned files, few small files.

    driver     plan ─▶ bins of small files ─▶ ··· ─▶ rows compared, one transaction a partition ─▶ vacuum
    workers                                   one large file each

1. Who writes is the only one (`writer.py`). So whatever is in the lake, named as ours and not in the table when it is
   claimed was left by a killed process, and can go. Another program may be about to replace files by its own: its files
   stay for a week, unless something is erased.
2. Compaction replaces files in one transaction. Those it replaced stay for a week, or for as long as the table says if
   that is more, for readers that have begun. So do files that another program replaces while they are looked for.
3. One call does a bounded amount of work, and holds no rows. It holds the list of the lake's files, as Delta's library
   has it, and the names of what was replaced and is kept: some hundred bytes for each.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import Final, NamedTuple
from urllib.parse import unquote

from holdfast.model.errors import HoldfastError, PermanentError, TransientError
from holdfast.pipeline.lake.compaction.plan import FileBin, plan_compaction
from holdfast.pipeline.lake.compaction.task import FileMerge
from holdfast.pipeline.lake.delta_files import BEGINNING, DataFile, check_files
from holdfast.pipeline.lake.delta_log import StoredTable
from holdfast.pipeline.lake.store import ListedFile
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.log import LOGGER
from holdfast.pipeline.spark.progress import JobProgress, no_progress
from holdfast.pipeline.spark.runner import Runner, raise_permanent

#: How long files stay that the table has replaced, at least.
_KEPT: Final = timedelta(days=7)
#: An age in hours that means the future: Delta's library takes it without a sign, and reckons with one.
_AHEAD: Final = 2**64 - 100_000 * 366 * 24
#: Files that are listed, compared with the table and removed at once.
_LISTED: Final = 65_536


# ---- files that nothing needs


def remove_orphans(lake: StoredTable, *, replaced: bool = False) -> int:
    """Remove files of ours that no version of the table knows; how many. Requires: to be its only writer.

    With `replaced` also those that only older versions know, which readers may be at, and those of other programs.
    """
    if replaced:
        return _sweep(lake, lambda _file: True, _no_files)
    return _sweep(lake, lambda file: file.path.rpartition("/")[2].startswith(BEGINNING), _replaced_files)


def vacuum(lake: StoredTable, now: datetime | None = None) -> int:
    """Remove files that the table has replaced a week ago, and others as old that are not in it; how many.

    What was replaced stays for longer if the table says so (`delta.deletedFileRetentionDuration`). Requires: to be its
    only writer.
    """
    before_s = ((now or datetime.now(UTC)) - _KEPT).timestamp()
    return _sweep(lake, lambda file: file.modified_s < before_s, _lately_replaced_files)


def _sweep(
    lake: StoredTable, chosen: Callable[[ListedFile], bool], spared: Callable[[StoredTable], Collection[str]]
) -> int:
    """Remove files that are not in the table and not spared; how many."""
    removed = 0
    with lake.store.errors(TransientError, f"old files of {lake.store} cannot be removed"):
        files = lake.store.iter_data_files()
        while listed := list(islice(files, _LISTED)):
            removed += _remove_unknown(lake, {file.path for file in listed if chosen(file)}, spared)
    return removed


def _remove_unknown(lake: StoredTable, paths: set[str], spared: Callable[[StoredTable], Collection[str]]) -> int:
    """Of files that were listed, remove those that the table does not have."""
    if not paths:
        return 0
    # First what lies there, then what the table has and had, and whether it is still ours. Another program may take a
    # file out meanwhile: it is in the one or the other. Who claims the lake later has written none of these files.
    lake.refresh()
    lake.check_claim()
    for name in lake.iter_names():
        paths.discard(unquote(name))
    if paths:
        paths.difference_update(spared(lake))
        lake.store.remove(sorted(paths))
    return len(paths)


def _no_files(_lake: StoredTable) -> Collection[str]:
    return ()


def _replaced_files(lake: StoredTable) -> set[str]:
    """Files that older versions know, whatever the clock said of the machine that replaced them."""
    found = _replaced_before(lake, 0)
    with suppress(OverflowError, ValueError):  # if the library does not take such a number any more
        found |= _replaced_before(lake, _AHEAD)
    return found


def _lately_replaced_files(lake: StoredTable) -> set[str]:
    """Files that older versions know, and that readers of these may be at."""
    old = _replaced_before(lake, _KEPT // timedelta(hours=1)) & _replaced_before(lake, None)
    return _replaced_files(lake) - old


def _replaced_before(lake: StoredTable, hours: int | None) -> set[str]:
    """Files that were replaced so many hours ago, or None: so long as the table says."""
    return set(lake.table.vacuum(hours, dry_run=True, enforce_retention_duration=False))


# ---- small files


def compact(lake: StoredTable, run: Runner, today: datetime | None = None, progress: JobProgress = no_progress) -> int:
    """Replace small files by large ones, in a few partitions; how many files are gone.

    Requires: to be its only writer. Survives: a kill, at any instant: rows are in the small files or in the large one.
    """
    with lake.store.errors(TransientError, f"{lake.store} cannot be compacted"):
        bins = plan_compaction(lake, (today or datetime.now(UTC)).date().isoformat())
        merge = FileMerge(lake.store, lake.file_schema, lake.repeating)
    if not bins:
        return 0
    progress(None, "replacing small files", rows=sum(one.rows for one in bins))
    merged = _merge(lake, run, merge, bins)
    fault("compaction-written")
    removed = 0
    try:
        for _place, group in groupby(merged, lambda one: one.packed.place):
            removed += _replace(lake, list(group))
    except HoldfastError:
        _remove_failed(lake)
        raise
    if removed:
        fault("archive-compacted")
        try:
            # Also what tasks left that Spark has tried again elsewhere.
            vacuum(lake)
        except TransientError as error:
            LOGGER.warning("old files stay for now: %s", error)
    return removed


class _MergedBin(NamedTuple):
    packed: FileBin
    #: None if its files have no rows.
    written: DataFile | None

    @property
    def files(self) -> list[DataFile]:
        return [] if self.written is None else [self.written]


def _merge(lake: StoredTable, run: Runner, merge: FileMerge, bins: Sequence[FileBin]) -> list[_MergedBin]:
    """The bins that are written. One whose files cannot be read is left out: the others are not held up by it."""
    try:
        results = zip(bins, raise_permanent(run(merge, bins)), strict=True)
        merged = []
        for one, result in results:
            if isinstance(result, TransientError):
                LOGGER.warning("small files of %s stay for now: %s", one.place, result)
            else:
                merged.append(_MergedBin(one, result))
        for done in merged:
            _check_rows(lake, done)
        check_files(lake.store, [file for done in merged for file in done.files])
    except HoldfastError:
        # Of the tasks that went well the names are not known here.
        _remove_failed(lake)
        raise
    return merged


def _check_rows(lake: StoredTable, done: _MergedBin) -> None:
    """PermanentError if rows were lost or repeated on the way."""
    rows, one = sum(file.rows for file in done.files), done.packed
    if rows != one.rows:
        raise PermanentError(
            f"{lake.store} was not compacted: {len(one.files)} files in {one.place} have {one.rows} rows, and what "
            f"was written in their place has {rows}; run holdfast spark audit"
        )


def _replace(lake: StoredTable, group: Sequence[_MergedBin]) -> int:
    """In one transaction; how many files are gone: none, if another process was faster."""
    old = [file for done in group for file in done.packed.old_files]
    written = [file for done in group for file in done.files]
    why = lake.obstacle(old)
    if not why:
        try:
            lake.replace_files(old, written, {"compacted": len(old)}, data_change=False)
        except PermanentError as error:
            lake.check_claim()
            why = str(error)
        else:
            lake.check_gone(old)
            return len(old)
    # Another process goes first: it has deleted rows, replaced files itself, or changed columns or properties.
    LOGGER.warning("%s was not compacted this time: %s", group[0].packed.place, why)
    with lake.store.errors(TransientError, f"files of {lake.store} cannot be removed"):
        lake.store.remove(file.path for file in written)
    return 0


def _remove_failed(lake: StoredTable) -> None:
    """Remove large files that are in no table: a compaction that fails each time would fill the store with them."""
    try:
        if lake.store.folder is None:
            # A store that gave no answer may still take a transaction that has begun, but not behind this one.
            lake.append([], lake.partitions, {}, {"failed": "compaction"})
        remove_orphans(lake)
    except HoldfastError as error:
        LOGGER.warning("what was written in the place of small files stays for now: %s", error)
