"""Files of a lake in a store of objects, as a DataFrame.

Spark's own reader would need Java libraries for each store, and their settings, with credentials, in its configuration.
So Python workers read the files, with the store that came along, and give Arrow batches to Spark: the columns that are
asked for, of row groups that may hold the times asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.history.arrow.message_batches import SCHEMA
from holdfast.model.errors import PermanentError
from holdfast.model.time import us_of
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeStore

_BATCH_ROWS: Final = 16_384
_TIME: Final = "ts"


def read_objects(
    spark: SparkSession, store: LakeStore, paths: Sequence[str], schema: StructType, since_us: int, until_us: int
) -> DataFrame:
    """Rows of these files; some that are outside of the times may be among them."""
    files = spark.createDataFrame([(path,) for path in paths], "path string").repartition(len(paths), "path")
    return files.mapInArrow(_ObjectReader(store, tuple(schema.names), since_us, until_us), schema)


@dataclass(frozen=True)
class _ObjectReader:
    """What a task does; Spark sends it to the worker."""

    store: LakeStore
    columns: tuple[str, ...]
    since_us: int
    until_us: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from self._read(path)

    def _read(self, path: str) -> Iterator[Any]:
        fields = [SCHEMA.field(name) for name in self.columns]
        try:
            with self.store.parquet(path) as file:
                there = [name for name in self.columns if name in file.schema_arrow.names]
                groups = [number for number in range(file.num_row_groups) if self._may_hold(file, number)]
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=there) if groups else ():
                    # A file that is older than a column has none.
                    columns = [
                        _plain(batch.column(field.name), field.type)
                        if field.name in there
                        else pa.nulls(batch.num_rows, field.type)
                        for field in fields
                    ]
                    yield pa.RecordBatch.from_arrays(columns, names=list(self.columns))
        except STORE_ERRORS as error:
            text = f"a file of the lake {self.store} cannot be read"
            raise self.store.translate(error, PermanentError, text) from None

    def _may_hold(self, file: Any, number: int) -> bool:
        """Whether a row group may have rows of the times."""
        group = file.metadata.row_group(number)
        column = group.column(file.schema_arrow.names.index(_TIME)) if _flat(file) else None
        bounds = None if column is None or column.path_in_schema != _TIME else column.statistics
        if bounds is None or not bounds.has_min_max:
            return True
        return us_of(bounds.max) >= self.since_us and us_of(bounds.min) < self.until_us


def _flat(file: Any) -> bool:
    """Whether the column of times stands where its field does: nested columns are several."""
    names = file.schema_arrow.names
    return _TIME in names and not any(
        pa.types.is_nested(file.schema_arrow.field(name).type) for name in names[: names.index(_TIME)]
    )


def _plain(column: Any, kind: Any) -> Any:
    return column if column.type == kind else pc.cast(column, kind)
