"""A batch over one of the tables beside history: sessions, queues, retained messages.

By path, the driver cuts a table into ranges of keys; each task opens the files for itself, and reads one range as of
then. By an endpoint, one task reads all of it.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.history.reader import HistoryReader
from holdfast.history.tables import KeyRange, TableQuery, key_ranges, table_batches
from holdfast.pipeline.flight_source import open_endpoint
from holdfast.pipeline.options import Options


@dataclass
class TablePartition(InputPartition):
    """What one task reads."""

    keys: KeyRange | None


class TableReader(DataSourceReader):
    """Travels to the workers, and holds nothing open."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema: Final = to_arrow_schema(schema, timezone="UTC")
        self._options: Final = options
        self._path: Final = Path(options.path)
        self._query: Final = TableQuery(options.table, tuple(schema.fieldNames()), options.levels, options.exact)

    def partitions(self) -> list[InputPartition]:
        if self._options.endpoint:
            return [TablePartition(None)]
        with HistoryReader.open(self._path) as reader:
            return [TablePartition(keys) for keys in key_ranges(reader, self._query)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TablePartition)
        for batch in self._found(partition.keys):
            yield batch.cast(self._schema)

    def _found(self, keys: KeyRange | None) -> Iterator[Any]:
        if self._options.endpoint:
            with open_endpoint(self._options) as history:
                yield from history.table(self._query)
        else:
            with HistoryReader.open(self._path) as reader:
                yield from table_batches(reader, self._query, time.time_ns() // 1000, keys)
