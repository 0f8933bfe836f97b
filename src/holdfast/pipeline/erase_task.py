"""Files of a lake, looked through for what is to be erased, and written anew without it: what a task of Spark does.

1. A file that holds nothing of it is not touched.
2. Whether a message is meant is decided by the same words as in the log (`durable/erasures.py`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from holdfast.durable.erasures import Erasure
from holdfast.model.errors import PermanentError
from holdfast.pipeline.lake_files import LakeFile, rewrite
from holdfast.pipeline.serial_ranges import Ranges, joined, ranges_of, spanned

_BATCH_ROWS: Final = 65_536
_SEARCHED: Final = ["topic", "client_id", "shard", "serial"]


class Place(NamedTuple):
    """A file of the table."""

    #: As Delta names it, and as the disk does.
    name: str
    path: str
    day: str
    pattern: str


class Searched(NamedTuple):
    """A file that holds something of what is looked for."""

    name: str
    #: By shard.
    gone: tuple[Ranges, ...]
    #: What is left of it; None if nothing is, or if nothing was to be written.
    left: LakeFile | None


class Wanted(NamedTuple):
    """What is looked for: messages of a client, or of a filter's topics; everything, if neither is given."""

    client: str = ""
    levels: tuple[bytes, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.client and not self.levels


def search(folder: str, wanted: Wanted, task: Sequence[Place], *, writes: bool) -> list[Searched] | PermanentError:
    """In a worker. An error that no retry helps is given."""
    try:
        found = [_searched(Path(folder), wanted, place, writes=writes) for place in task]
    except (pa.ArrowException, OSError) as error:
        return PermanentError(f"a file of the lake {folder} cannot be read: {error}")
    return [one for one in found if one is not None]


def _searched(folder: Path, wanted: Wanted, place: Place, *, writes: bool) -> Searched | None:
    found: list[Ranges] = []
    with pq.ParquetFile(place.path) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=_SEARCHED):
            meant = batch if wanted.everything else batch.filter(_meant(batch, wanted))
            for shard in pc.unique(meant.column("shard")).to_pylist():
                own = meant.filter(pc.equal(meant.column("shard"), shard)).column("serial")
                found.append(ranges_of(shard, own.to_numpy()))
    if not found:
        return None
    # Whole days are a stretch of each shard, whatever other files have of it.
    gone = tuple(spanned(found) if wanted.everything else joined(found))
    left = None
    if writes and not wanted.everything:
        with pq.ParquetFile(place.path) as file:
            left = rewrite(folder, place.day, place.pattern, file.schema_arrow, _others(file, wanted))
    return Searched(place.name, gone, left)


def _others(file: Any, wanted: Wanted) -> Iterator[Any]:
    for batch in file.iter_batches(_BATCH_ROWS):
        yield batch.filter(pc.invert(_meant(batch, wanted)))


def _meant(batch: Any, wanted: Wanted) -> Any:
    """Which rows are meant, as booleans. Names repeat: each is looked at once."""
    erasure = Erasure(wanted.client, wanted.levels, {}, 0, "")
    column = batch.column("client_id" if wanted.client else "topic")
    names = column.dictionary_encode()
    found = [
        erasure.concerns(b"" if wanted.client else name.encode(), name if wanted.client else "")
        for name in names.dictionary.to_pylist()
    ]
    return pa.array(found, pa.bool_()).take(names.indices)
