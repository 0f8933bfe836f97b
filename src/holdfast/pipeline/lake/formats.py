"""Formats of lakes: Delta, in a folder or a store, and Iceberg, in a catalog. The address says which one it is.

`pyiceberg` is only loaded where an address names an Iceberg table: most have no use for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.model.errors import SettingsError
from holdfast.pipeline.lake.archive_table import ArchiveTable
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.store import LakeAddress, LakeStore
from holdfast.pipeline.lake.store_options import is_iceberg
from holdfast.pipeline.lake.upkeep import compact, remove_orphans
from holdfast.pipeline.lake.writer import claim_table, lock_folder, open_writer
from holdfast.pipeline.spark.progress import JobProgress
from holdfast.pipeline.spark.runner import Runner

if TYPE_CHECKING:
    from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
    from holdfast.pipeline.lake.iceberg.upkeep import Upkeep

_MISSING: Final = (
    'an Iceberg lake needs pyiceberg, which is not installed; install it with: pip install "holdfast[spark,iceberg]"'
)


class WritableLake(NamedTuple):
    """A lake whose only writer this process is."""

    table: ArchiveTable
    #: Whether the last writer was killed.
    was_left: bool
    #: Removes files that no version has; how many.
    sweep: Callable[[], int]
    #: Upkeep between batches. Of Delta, small files are replaced, a bounded number at once: how many are gone.
    compact: Callable[[Runner, JobProgress], int]


def open_lake(where: LakeAddress) -> ArchiveTable:
    """SettingsError if there is none."""
    if not is_iceberg(where):
        return Lake.open(where)
    _check_installed()
    from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake

    return IcebergLake.open(str(where))


@contextmanager
def open_archive(where: LakeAddress, name: str) -> Iterator[WritableLake]:
    """The lake of an archive, made if it is not there, for the length of a block.

    SettingsError if it is another's, or if somebody writes to it. PermanentError if something else changed its rows.
    """
    if is_iceberg(where):
        with _open_iceberg(str(where), name) as iceberg:
            yield iceberg
        return
    store = LakeStore.at(where)
    with open_writer(store, lambda: Lake.open_or_make(store, name)) as (lake, was_left):
        yield WritableLake(lake, was_left, partial(remove_orphans, lake), partial(_compact_delta, lake))


@contextmanager
def _open_iceberg(where: str, name: str) -> Iterator[WritableLake]:
    _check_installed()
    from holdfast.pipeline.lake.iceberg import upkeep
    from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake

    lake = IcebergLake.open_or_make(where, name)
    keeper = upkeep.Upkeep(lake)
    with _written(lake) as was_left:
        yield WritableLake(lake, was_left, partial(upkeep.remove_orphans, lake), partial(_keep_iceberg, keeper))


@contextmanager
def _written(lake: "IcebergLake") -> Iterator[bool]:
    lake.refuse_strangers()
    if lake.store.folder is None:
        with claim_table(lake, "archive") as was_left:
            lake.evolve()
            yield was_left
        return
    with lock_folder(lake.store.folder) as was_left:
        # Whoever had the lock may have changed it since it was opened.
        lake.refresh()
        lake.refuse_strangers()
        lake.evolve()
        yield was_left


def _compact_delta(lake: Lake, run: Runner, progress: JobProgress) -> int:
    return compact(lake, run, progress=progress)


def _keep_iceberg(keeper: "Upkeep", _run: Runner, _progress: JobProgress) -> int:
    keeper.keep()
    return 0


def _check_installed() -> None:
    if find_spec("pyiceberg") is None:
        raise SettingsError(_MISSING)
