"""The data source `holdfast`: stored messages as a table of Spark and as a stream, and tables of what lies beside them.

    spark.read.format("holdfast").option("topicFilter", "factory/#").load("/var/lib/holdfast")
    spark.read.format("holdfast").option("table", "sessions").load("/var/lib/holdfast")
    spark.readStream.format("holdfast").option("startingTime", "-1h").load("/var/lib/holdfast")

1. Options are checked here, when a table is named: nothing was started yet, and the error says which is wrong.
2. Objects of these classes travel between processes, so none holds anything open while it does.
"""

from collections.abc import MutableMapping
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from holdfast.model.errors import SettingsError
from holdfast.pipeline.batch_reader import BatchReader, PushdownReader
from holdfast.pipeline.opening import opened
from holdfast.pipeline.options import HISTORY, parse_options
from holdfast.pipeline.schema import check_schema, spark_schema
from holdfast.pipeline.stream_reader import StreamReader
from holdfast.pipeline.table_reader import TableReader
from holdfast.pipeline.table_schema import check_table_schema, table_schema

NAME: Final = "holdfast"


class HoldfastSource(DataSource):
    """History as a table, and the tables beside it."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._chosen: Final = parse_options(options)
        with opened(self._chosen) as source:
            source.parts(0, 0, self._chosen.zone)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        if self._chosen.table != HISTORY:
            return table_schema(self._chosen.table, self._chosen.columns)
        return spark_schema(self._chosen.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._chosen.table != HISTORY:
            check_table_schema(self._chosen.table, schema)
            return TableReader(schema, self._chosen)
        check_schema(schema)
        return (PushdownReader if self._chosen.pushdown else BatchReader)(schema, self._chosen)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        if self._chosen.table != HISTORY:
            raise SettingsError(f"option table: {self._chosen.table} cannot be streamed; only {HISTORY} can")
        check_schema(schema)
        return StreamReader(schema, self._chosen)
