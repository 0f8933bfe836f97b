"""SQL over a broker's tables: `history`, `sessions`, `queues`, `retained` as temporary views.

A caller can watch the progress of a statement, and can end it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from holdfast.history.tables.tables import QUEUES, SCHEMAS
from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.history_frame import history
from holdfast.pipeline.source.schema import HISTORY
from holdfast.pipeline.spark.errors import SPARK_ERRORS, describe_error
from holdfast.pipeline.spark.progress import Progress, count_tasks, run_watched
from holdfast.pipeline.spark.session import session

VIEWS: Final = (HISTORY, *SCHEMAS)
#: PySpark logs every error of a statement, with its stacks, besides raising it.
_LOUD: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class SqlError(PermanentError):
    """A statement failed; the text is for its author."""


class QueryResult(NamedTuple):
    columns: list[str]
    rows: list[tuple[Any, ...]]
    has_more: bool


@dataclass(frozen=True)
class SqlJob:
    #: Options of the data source.
    source: Mapping[str, str]
    #: What is archived there is part of `history`.
    lake: Path | None = None
    #: The columns of `history` to read: Spark does not tell a Python source which ones a statement needs.
    columns: str | None = None
    #: Count what queues are owed message by message.
    exact: bool = False


class Sql:
    """The views, in one session of Spark. Requires: one statement at a time."""

    def __init__(self, spark: SparkSession, job: SqlJob) -> None:
        self._spark: Final = spark
        for logger in _LOUD:
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        given = {
            HISTORY: {} if job.columns is None else {"columns": job.columns},
            QUEUES: {"owed": "exact"} if job.exact else {},
        }
        for name in VIEWS:
            options = {**job.source, "table": name, **given.get(name, {})}
            spark.read.format(NAME).options(**options).load().createOrReplaceTempView(name)
        if job.lake is not None:
            columns = None if job.columns is None else [name.strip() for name in job.columns.split(",")]
            rows = history(spark, path=job.source["path"], columns=columns, lake=job.lake)
            rows.createOrReplaceTempView(HISTORY)

    @classmethod
    def start(cls, job: SqlJob, master: str | None, warehouse: Path) -> "Sql":
        """Start Spark; tables that a statement creates lie in the folder `warehouse`."""
        try:
            spark = session("holdfast-sql", master=master, settings={"spark.sql.warehouse.dir": str(warehouse)})
            return cls(spark, job)
        except (HoldfastError, *SPARK_ERRORS) as error:
            raise SqlError(describe_error(error)) from error

    def schemas(self) -> dict[str, dict[str, str]]:
        """The columns of each view and their types."""
        return {
            name: {field.name: field.dataType.simpleString() for field in self._spark.table(name).schema.fields}
            for name in VIEWS
        }

    def run(self, statement: str, limit: int | None = None, progress: Progress | None = None) -> QueryResult:
        """SqlError says what is wrong with it. KeyboardInterrupt while it runs ends it."""

        def look() -> None:
            if progress is not None:
                done, total = count_tasks(self._spark)
                progress(done / total if total else None, f"{done} of {total} tasks" if total else "")

        try:
            return run_watched(self._spark, lambda: _answer(self._spark.sql(statement), limit), look)
        except (HoldfastError, *SPARK_ERRORS) as error:
            raise SqlError(describe_error(error)) from error


def _answer(frame: DataFrame, limit: int | None) -> QueryResult:
    table = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    rows = list(zip(*[column.to_pylist() for column in table.columns], strict=True))
    return QueryResult(
        table.column_names, rows if limit is None else rows[:limit], limit is not None and len(rows) > limit
    )
