"""Parquet files of Delta tables: what lakes and declared pipelines have in common.

1. A name is used once: a task that is tried again writes other files. No reader sees a file before it is in the table.
2. When `DeltaFiles.close` returns, the files and their names survive a power loss (`store.py`). That it was the folder
   of the driver, too, is not known there: who commits them looks first (`check_files`).
3. Statistics never exclude a row: times are rounded outwards to the milliseconds that Delta keeps.

Written where Spark's tasks run, which need nothing of Delta itself: `delta_log.py` adds them to their table.
"""

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from holdfast.model.errors import PermanentError
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeStore

#: Rows of a row group: it is what a reader skips or reads.
_GROUP_ROWS: Final = 131_072
#: Of the names of data files that Holdfast writes.
BEGINNING: Final = "hf-"


class DataFile(NamedTuple):
    """A file that is whole and in the store."""

    #: From the folder of the table.
    path: str
    #: By partition column; it stands in Delta's log, not in the file.
    partition: dict[str, str | None]
    size_bytes: int
    modified_ms: int
    rows: int
    stats: str


def check_files(store: LakeStore, files: Iterable[DataFile]) -> None:
    """PermanentError if the driver does not see a file as a worker has written it: they have different folders.

    A store of objects is the same from everywhere.
    """
    if store.folder is None:
        return
    for file in files:
        path = store.folder / file.path
        try:
            found_bytes = path.stat().st_size
        except FileNotFoundError:
            found_bytes = -1
        if found_bytes != file.size_bytes:
            here = "is not there" if found_bytes < 0 else f"has {found_bytes} bytes"
            raise PermanentError(
                f"{path} {here} on this machine, and a worker has written {file.size_bytes} bytes to it: nothing was "
                f"committed; name a folder that driver and executors share, or, for a lake, a store of objects"
            )


class DeltaFiles:
    """The files that a task writes to a table, one for each place. A block that ends with an error removes them."""

    def __init__(self, store: LakeStore, held_bytes: int, repeating: Sequence[str] | bool) -> None:
        """`held_bytes`: what is held in memory, about. `repeating`: columns whose values repeat, or whether all do."""
        self._store: Final = store
        self._held_bytes: Final = held_bytes
        self._repeating: Final = repeating
        self._files: Final[dict[str, _OpenFile]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None:
            for file in self._files.values():
                file.abandon()

    def add(self, place: str, partition: dict[str, str | None], bounds: Sequence[str], batch: Any) -> None:
        """Rows for the file in a folder. `bounds`: columns without nulls whose least and greatest are noted."""
        file = self._files.get(place)
        if file is None:
            file = self._files[place] = _OpenFile(self._store, place, partition, batch.schema, bounds, self._repeating)
        file.add(batch)

    def limit_memory(self) -> None:
        """Write the largest row group early, if too much is held."""
        if sum(file.held_bytes for file in self._files.values()) > self._held_bytes:
            max(self._files.values(), key=lambda file: file.held_bytes).flush()

    def close(self) -> list[DataFile]:
        files = [file.close() for file in self._files.values()]
        self._store.sync(file.path for file in files)
        return files


class _OpenFile:
    """A Parquet file that is being written."""

    def __init__(
        self,
        store: LakeStore,
        place: str,
        partition: dict[str, str | None],
        schema: Any,
        bounds: Sequence[str],
        repeating: Sequence[str] | bool,
    ) -> None:
        self._path: Final = f"{place}/{BEGINNING}{uuid.uuid4()}.parquet"
        self._partition: Final = partition
        self._held: list[Any] = []
        self._held_rows = 0
        self.held_bytes = 0
        self._rows = 0
        self._bounds: Final[dict[str, tuple[Any, Any]]] = {}
        self._bounded: Final = tuple(bounds)
        self._file: Final = store.create(self._path)
        self._writer: Final = pq.ParquetWriter(self._file, schema, compression="zstd", use_dictionary=repeating)

    def add(self, batch: Any) -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self.held_bytes += batch.nbytes
        self._rows += batch.num_rows
        for name in self._bounded:
            found = pc.min_max(batch.column(name))
            lowest, highest = found["min"].as_py(), found["max"].as_py()
            known = self._bounds.get(name, (lowest, highest))
            self._bounds[name] = (min(known[0], lowest), max(known[1], highest))
        if self._held_rows >= _GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=_GROUP_ROWS)
        self._held = []
        self._held_rows = 0
        self.held_bytes = 0

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        size_bytes = self._file.finish()
        modified_ms = time.time_ns() // 1_000_000
        return DataFile(self._path, self._partition, size_bytes, modified_ms, self._rows, self._stats())

    def abandon(self) -> None:
        """Remove the file: it will not be in the table."""
        with suppress(*STORE_ERRORS, ValueError):  # a writer that is not closed would write when it is forgotten
            self._writer.close()
        self._file.abandon()

    def _stats(self) -> str:
        lowest = {name: _stat(bounds[0]) for name, bounds in self._bounds.items()}
        highest = {name: _stat(bounds[1], timedelta(microseconds=999)) for name, bounds in self._bounds.items()}
        none = dict.fromkeys(self._bounds, 0)
        return json.dumps({"numRecords": self._rows, "minValues": lowest, "maxValues": highest, "nullCount": none})


def _stat(value: Any, up: timedelta = timedelta()) -> Any:
    """A bound as Delta's log has it; of a time, the milliseconds."""
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        return (value + up).isoformat(timespec="milliseconds")  # in no zone, and not in the worker's
    return (value + up).astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
