"""The data source `holdfast`: stored messages as a table of Spark, and as a stream.

    spark.read.format("holdfast").option("topicFilter", "factory/#").load("/var/lib/holdfast")
    spark.readStream.format("holdfast").option("startingTime", "-1h").load("/var/lib/holdfast")
    spark.read.format("holdfast").option("endpoint", "grpc://broker:18815").option("tokenFile", "token").load()

1. Options are checked here, when a table is named: nothing was started yet, and the error says which is wrong.
2. Objects of these classes travel between processes, so none holds anything open while it does.
"""

from collections.abc import MutableMapping
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from holdfast.model.errors import SettingsError
from holdfast.pipeline.batch_reader import BatchReader, PushdownReader
from holdfast.pipeline.opening import check_source
from holdfast.pipeline.options import parse_options
from holdfast.pipeline.schema import check_schema, spark_schema
from holdfast.pipeline.stream_reader import StreamReader

NAME: Final = "holdfast"


class HoldfastSource(DataSource):
    """History as a table."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._chosen: Final = parse_options(options)
        check_source(self._chosen)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return spark_schema(self._chosen.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        if self._chosen.lease is not None:
            raise SettingsError("option lease: only a stream comes so far that it could say so; leave it out")
        return (PushdownReader if self._chosen.pushdown else BatchReader)(schema, self._chosen)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        check_schema(schema)
        return StreamReader(schema, self._chosen)
