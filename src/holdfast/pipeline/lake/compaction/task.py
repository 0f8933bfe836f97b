"""The task of compaction: a worker reads the files of a bin, one after the other, and writes one large file.

1. A worker holds some batches of rows and a row group, however large the bin is.
2. The large file has the columns of the table: those that an older file lacks are null in its rows.
3. It survives a power loss when the task returns, and is in no table yet.
4. A file that cannot be read holds up its own bin alone: that is a result, and not the failure of a task.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.compaction.plan import FileBin, SmallFile
from holdfast.pipeline.lake.delta_files import DataFile, DeltaFiles
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeStore

#: Bytes that are held, about, before a row group is written early.
_HELD_BYTES: Final = 64 * 2**20
#: Of a batch that is read, about; values that repeat take more than their file says, so its rows are few, too.
_BATCH_BYTES: Final = 8 * 2**20
_BATCH_ROWS: Final = 2_048


@dataclass(frozen=True)
class FileMerge:
    """What a worker does with a bin; it travels there."""

    store: LakeStore
    #: The columns of the files of the table.
    schema: Any
    repeating: tuple[str, ...] | bool

    def __call__(self, task: FileBin) -> DataFile | TransientError | PermanentError | None:
        """The large file; None if there are no rows. An error that no retry helps is given, and one of a small file."""
        try:
            with DeltaFiles(self.store, _HELD_BYTES, self.repeating) as files:
                for small in task.files:
                    for batch in self._batches(small):
                        files.add(task.place, task.partition, task.bounds, batch)
                        files.limit_memory()
                return next(iter(files.close()), None)
        except (TransientError, PermanentError) as error:
            return error
        except STORE_ERRORS as error:
            # Spark tries again, and prints what it was.
            raise self.store.translate(error, TransientError, f"{self.store} cannot be compacted") from None

    def measure(self, task: FileBin, written: DataFile | None) -> tuple[int, int]:
        """The messages and bytes that a task has written."""
        return task.rows, 0 if written is None else written.size_bytes

    def _batches(self, small: SmallFile) -> Iterator[Any]:
        rows, place = 0, self.store.location(unquote(small.name))
        with (
            self.store.errors(TransientError, f"{place} cannot be read"),
            self.store.parquet(unquote(small.name)) as file,
        ):
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                most = _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)
                for batch in file.iter_batches(max(1, min(_BATCH_ROWS, most)), row_groups=[number]):
                    rows += batch.num_rows
                    if batch.num_rows:
                        yield self._with_columns(batch)
        if rows != small.rows:
            raise PermanentError(
                f"{place} has {rows} rows, and by the log of the table it has {small.rows}: nothing was replaced; run "
                f"holdfast spark audit, and archive with --no-compact meanwhile"
            )

    def _with_columns(self, batch: Any) -> Any:
        there = batch.schema.names
        columns = [
            batch.column(one.name).cast(one.type) if one.name in there else pa.nulls(batch.num_rows, one.type)
            for one in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
