"""The data source `holdfast`."""

from pyspark.sql.datasource import DataSource


class HoldfastSource(DataSource):
    """History as a Spark table."""

    @classmethod
    def name(cls) -> str:
        return "holdfast"
