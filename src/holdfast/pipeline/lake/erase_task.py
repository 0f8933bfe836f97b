"""The task of an erasure: search files of a lake, and rewrite them without what is erased.

1. A file that holds nothing of it is not touched.
2. Whether a message is meant is decided by the same words as in the log (`durable/erasures.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.durable.erasures import Erasure
from holdfast.model.errors import PermanentError
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.lake_files import rewrite_file
from holdfast.pipeline.lake.serial_ranges import SerialRanges, merge_ranges, ranges_of, span_ranges
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeStore

_BATCH_ROWS: Final = 65_536
_SEARCHED: Final = ["topic", "client_id", "shard", "serial"]


class StoredFile(NamedTuple):
    #: As Delta names it, and as the store does.
    name: str
    path: str
    day: str
    pattern: str
    rows: int = 0
    size_bytes: int = 0


class SearchedFile(NamedTuple):
    """A file that holds something of what is looked for."""

    name: str
    #: By shard.
    gone: tuple[SerialRanges, ...]
    #: What is left of it; None if nothing is, or if nothing was to be written.
    left: DataFile | None


class ErasureFilter(NamedTuple):
    """What is looked for: messages of a client, or of a filter's topics; everything, if neither is given."""

    client: str = ""
    levels: tuple[bytes, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.client and not self.levels


def search_files(
    store: LakeStore, wanted: ErasureFilter, task: Sequence[StoredFile], *, writes: bool
) -> list[SearchedFile] | PermanentError:
    """In a worker. An error that no retry helps is given."""
    try:
        found = [_searched(store, wanted, place, writes=writes) for place in task]
    except STORE_ERRORS as error:
        return PermanentError(f"a file of the lake {store} cannot be read: {store.describe(error)}")
    return [one for one in found if one is not None]


def measure_search(task: Sequence[StoredFile], _found: list[SearchedFile]) -> tuple[int, int]:
    """The messages and bytes that a task has looked through."""
    return sum(file.rows for file in task), sum(file.size_bytes for file in task)


def _searched(store: LakeStore, wanted: ErasureFilter, place: StoredFile, *, writes: bool) -> SearchedFile | None:
    found: list[SerialRanges] = []
    with store.parquet(place.path) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=_SEARCHED):
            meant = batch if wanted.everything else batch.filter(_meant(batch, wanted))
            for shard in pc.unique(meant.column("shard")).to_pylist():
                own = meant.filter(pc.equal(meant.column("shard"), shard)).column("serial")
                found.append(ranges_of(shard, own.to_numpy()))
    if not found:
        return None
    # Whole days are a stretch of each shard, whatever other files have of it.
    gone = tuple(span_ranges(found) if wanted.everything else merge_ranges(found))
    left = None
    if writes and not wanted.everything:
        with store.parquet(place.path) as file:
            left = rewrite_file(store, place.day, place.pattern, _others(file, wanted))
    return SearchedFile(place.name, gone, left)


def _others(file: Any, wanted: ErasureFilter) -> Iterator[Any]:
    for batch in file.iter_batches(_BATCH_ROWS):
        yield batch.filter(pc.invert(_meant(batch, wanted)))


def _meant(batch: Any, wanted: ErasureFilter) -> Any:
    """Which rows are meant, as booleans. Names repeat: each is looked at once."""
    erasure = Erasure(wanted.client, wanted.levels, {}, 0, "")
    column = batch.column("client_id" if wanted.client else "topic")
    names = column.dictionary_encode()
    found = [
        erasure.concerns(b"" if wanted.client else name.encode(), name if wanted.client else "")
        for name in names.dictionary.to_pylist()
    ]
    return pa.array(found, pa.bool_()).take(names.indices)
