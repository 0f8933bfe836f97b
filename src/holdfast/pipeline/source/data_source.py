"""The data source `holdfast`: history and the broker's other tables in Spark; rows as messages to a broker.

    spark.read.format("holdfast").option("topicFilter", "factory/#").load("/var/lib/holdfast")
    spark.read.format("holdfast").option("table", "sessions").load("/var/lib/holdfast")
    spark.readStream.format("holdfast").option("startingTime", "-1h").load("/var/lib/holdfast")
    spark.read.format("holdfast").option("endpoint", "grpc://broker:18815").option("tokenFile", "token").load()
    rows.write.format("holdfast").option("broker", "mqtt://localhost").mode("append").save()

1. Options are checked here, when a table is named: nothing was started yet, and the error says which is wrong.
2. Objects of these classes travel between processes, so none holds anything open while it does.
3. Spark starts several Pythons for a query, and each imports this. So what only some of them need is imported there.
"""

from collections.abc import MutableMapping
from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from holdfast.model.errors import SettingsError
from holdfast.pipeline.sink.write_options import WriteOptions, is_writing, parse_write_options
from holdfast.pipeline.source.history_source import check_source
from holdfast.pipeline.source.read_options import ReadOptions, parse_read_options
from holdfast.pipeline.source.schema import HISTORY, check_schema, spark_schema

NAME: Final = "holdfast"


class HoldfastSource(DataSource):
    """History and the broker's other tables; with the option `broker`, a broker to write to."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed: Final = parse_write_options(options) if is_writing(options) else parse_read_options(options)
        if isinstance(self._parsed, ReadOptions):
            check_source(self._parsed)

    @classmethod
    def name(cls) -> str:
        return NAME

    @property
    def _chosen(self) -> ReadOptions:
        if isinstance(self._parsed, WriteOptions):
            raise SettingsError("option broker: is for writing; to read, give path, a broker's data folder")
        return self._parsed

    @property
    def _broker(self) -> WriteOptions:
        if isinstance(self._parsed, ReadOptions):
            raise SettingsError("option broker: name the broker to publish to, as mqtt://host:port")
        return self._parsed

    def schema(self) -> StructType:
        return spark_schema(self._chosen.columns, self._chosen.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        from holdfast.pipeline.source.batch_reader import BatchReader, PushdownReader, TableReader

        check_schema(schema, self._chosen.table)
        if self._chosen.table != HISTORY:
            return TableReader(schema, self._chosen)
        if self._chosen.lease is not None:
            raise SettingsError("option lease: only a stream comes so far that it could say so; leave it out")
        return (PushdownReader if self._chosen.pushdown else BatchReader)(schema, self._chosen)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        if self._chosen.table != HISTORY:
            raise SettingsError(f"option table: {self._chosen.table} cannot be streamed; only {HISTORY} can")
        check_schema(schema)
        from holdfast.pipeline.source.stream_reader import StreamReader

        return StreamReader(schema, self._chosen)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from holdfast.pipeline.sink.batch_writer import BatchWriter

        return BatchWriter(schema, self._broker, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from holdfast.pipeline.sink.stream_writer import StreamWriter

        return StreamWriter(schema, self._broker, overwrite=overwrite)
