"""SQL over a broker's tables: `history`, `sessions`, `queues`, `retained` as temporary views.

A caller can watch the progress of a statement, and can end it. An answer is a table for people to look at, all at once
(`run`), or rows without end for programs (`stream`).
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from holdfast.history.tables.tables import QUEUES, SCHEMAS
from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.schema import HISTORY
from holdfast.pipeline.spark.errors import SPARK_ERRORS, describe_error
from holdfast.pipeline.spark.progress import Progress, count_tasks, run_watched
from holdfast.pipeline.spark.session import session
from holdfast.pipeline.sql.row_stream import BOUNDED, PARTITION_MESSAGES, LimitedRows, Rows, stream_rows

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

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
    lake: "LakeAddress | None" = None
    #: The columns of `history` to read: Spark does not tell a Python source which ones a statement needs.
    columns: str | None = None
    #: Count what queues are owed message by message.
    exact: bool = False
    #: Answers are streamed: then a partition of `history` has few messages.
    streams: bool = False


class Sql:
    """The views, in one session of Spark. Requires: one statement at a time."""

    def __init__(self, spark: SparkSession, job: SqlJob) -> None:
        self._spark: Final = spark
        for logger in _LOUD:
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        few = {"rowsPerPartition": str(PARTITION_MESSAGES)} if job.streams else {}
        chosen = {} if job.columns is None else {"columns": job.columns}
        given = {
            HISTORY: {**few, **chosen},
            QUEUES: {"owed": "exact"} if job.exact else {},
        }
        for name in VIEWS:
            options = {**job.source, "table": name, **given.get(name, {})}
            spark.read.format(NAME).options(**options).load().createOrReplaceTempView(name)
        if job.lake is not None:
            from holdfast.pipeline.lake.lake_reader import union_history  # Delta is loaded where there is a lake

            whole = {"path": job.source["path"], "failOnDataLoss": "true", **few, **chosen}
            union_history(spark, whole, job.lake).createOrReplaceTempView(HISTORY)

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
        with _statement_errors():
            return run_watched(self._spark, lambda: _answer(self._spark.sql(statement), limit), self._look(progress))

    def stream(self, statement: str, limit: int | None = None, progress: Progress | None = None) -> LimitedRows:
        """The same for any number of rows; errors come with the rows, too. Requires: read to the end, or closed."""
        with _statement_errors():
            frame = run_watched(self._spark, lambda: self._spark.sql(statement), self._look(progress))
            columns = list(frame.columns)
            if limit is not None and limit < PARTITION_MESSAGES:
                frame = frame.limit(limit + 1)  # Spark sorts no more than these; they come in one partition
            return LimitedRows(columns, self._batches(frame, progress), limit)

    def _batches(self, frame: DataFrame, progress: Progress | None) -> Iterator[Rows]:
        found = stream_rows(self._spark, frame, self._look(progress))
        with _statement_errors(), _settings(self._spark, BOUNDED), closing(found):
            yield from found

    def _look(self, progress: Progress | None) -> Callable[[], None]:
        def look() -> None:
            if progress is not None:
                done, total = count_tasks(self._spark)
                progress(done / total if total else None, f"{done} of {total} tasks" if total else "")

        return look


@contextmanager
def _statement_errors() -> Iterator[None]:
    try:
        yield
    except (HoldfastError, *SPARK_ERRORS) as error:
        raise SqlError(describe_error(error)) from error


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session, for as long as the block takes."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, text in before.items():
            if text is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, text)


def _answer(frame: DataFrame, limit: int | None) -> QueryResult:
    table = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    rows = list(zip(*[column.to_pylist() for column in table.columns], strict=True))
    return QueryResult(
        table.column_names, rows if limit is None else rows[:limit], limit is not None and len(rows) > limit
    )
