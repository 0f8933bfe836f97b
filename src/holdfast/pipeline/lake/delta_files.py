"""Parquet files of Delta tables: what lakes and declared pipelines have in common.

1. A name is used once: a task that is tried again writes other files. No reader sees a file before it is in the table.
2. When `DeltaFiles.close` returns, the files and their names survive a power loss.
3. Statistics never exclude a row: times are rounded outwards to the milliseconds that Delta keeps.

Written where Spark's tasks run, which need nothing of Delta itself: `delta_log.py` adds them to their table.
"""

import json
import os
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from holdfast.files.replacement import sync_path

#: Rows of a row group: it is what a reader skips or reads.
_GROUP_ROWS: Final = 131_072
_BEGINNING: Final = "hf-"


class DataFile(NamedTuple):
    """A file that is whole and on disk."""

    #: From the folder of the table.
    path: str
    #: By partition column; it stands in Delta's log, not in the file.
    partition: dict[str, str | None]
    size_bytes: int
    modified_ms: int
    rows: int
    stats: str


class DeltaFiles:
    """The files that a task writes to a table, one for each place. A block that ends with an error removes them."""

    def __init__(self, folder: Path, held_bytes: int, repeating: Sequence[str] | bool) -> None:
        """`held_bytes`: what is held in memory, about. `repeating`: columns whose values repeat, or whether all do."""
        self._folder: Final = folder
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
            file = self._files[place] = _OpenFile(self._folder, place, partition, batch.schema, bounds, self._repeating)
        file.add(batch)

    def limit_memory(self) -> None:
        """Write the largest row group early, if too much is held."""
        if sum(file.held_bytes for file in self._files.values()) > self._held_bytes:
            max(self._files.values(), key=lambda file: file.held_bytes).flush()

    def close(self) -> list[DataFile]:
        files = [file.close() for file in self._files.values()]
        paths = [self._folder / file.path for file in files]
        folders = {folder for path in paths for folder in path.parents if folder.is_relative_to(self._folder)}
        for folder in sorted(folders, reverse=True):  # a folder behind those in it
            sync_path(folder)
        return files


class _OpenFile:
    """A Parquet file that is being written."""

    def __init__(
        self,
        folder: Path,
        place: str,
        partition: dict[str, str | None],
        schema: Any,
        bounds: Sequence[str],
        repeating: Sequence[str] | bool,
    ) -> None:
        self._path: Final = f"{place}/{_BEGINNING}{uuid.uuid4()}.parquet"
        self._partition: Final = partition
        self._whole: Final = folder / self._path
        self._held: list[Any] = []
        self._held_rows = 0
        self.held_bytes = 0
        self._rows = 0
        self._bounds: Final[dict[str, tuple[Any, Any]]] = {}
        self._bounded: Final = tuple(bounds)
        self._whole.parent.mkdir(parents=True, exist_ok=True)
        self._file: Final = self._whole.open("xb")
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
        self._file.flush()
        os.fsync(self._file.fileno())
        size_bytes = self._file.tell()
        self._file.close()
        modified_ms = time.time_ns() // 1_000_000
        return DataFile(self._path, self._partition, size_bytes, modified_ms, self._rows, self._stats())

    def abandon(self) -> None:
        """Remove the file: it will not be in the table."""
        self._file.close()
        self._whole.unlink(missing_ok=True)

    def _stats(self) -> str:
        lowest = {name: _stat(bounds[0]) for name, bounds in self._bounds.items()}
        highest = {name: _stat(bounds[1], timedelta(microseconds=999)) for name, bounds in self._bounds.items()}
        none = dict.fromkeys(self._bounds, 0)
        return json.dumps({"numRecords": self._rows, "minValues": lowest, "maxValues": highest, "nullCount": none})


def _stat(value: Any, up: timedelta = timedelta()) -> Any:
    """A bound as Delta's log has it; of a time, the milliseconds."""
    if not isinstance(value, datetime):
        return value
    return (value + up).astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
