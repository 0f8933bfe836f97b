"""SQL over a broker's tables: `history`, `sessions`, `queues`, `retained` as temporary views.

A statement loads the views that it uses. Of `history` it reads the columns that it uses, and the log applies its
conditions where it can (`statement_reads.py`). Statements whose plan is not understood see all of everything.

A caller can watch the progress of a statement, and can end it. An answer is a table for people to look at, all at once
(`run`), or rows without end for programs (`stream`).
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from holdfast.history.tables.tables import QUEUES, SCHEMAS
from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.source.schema import HISTORY, spark_schema
from holdfast.pipeline.spark.errors import SPARK_ERRORS, describe_error
from holdfast.pipeline.spark.executor_folder import check_executors_read
from holdfast.pipeline.spark.progress import JobProgress, no_progress
from holdfast.pipeline.spark.session import session
from holdfast.pipeline.spark.watched_work import run_watched
from holdfast.pipeline.sql.row_stream import BOUNDED, PARTITION_MESSAGES, LimitedRows, Rows, stream_rows
from holdfast.pipeline.sql.statement_reads import StandIns, ViewReads, with_constants

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

VIEWS: Final = (HISTORY, *SCHEMAS)
#: The column of `history` that costs least: a statement that counts rows needs one.
_CHEAPEST: Final = "shard"
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
    #: The columns that `history` has; None: all but those on request.
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
        self._lake: Final = job.lake
        self._options: Final = {name: {**job.source, "table": name, **given.get(name, {})} for name in VIEWS}
        #: Whole tables, of the views that were used: each load asks a Python process of Spark.
        self._frames: Final[dict[str, DataFrame]] = {}
        self._schemas: Final = {
            name: spark_schema(parse_read_options(options).columns, name) for name, options in self._options.items()
        }
        if job.lake is not None:
            # A lake has null in columns that are newer than its rows.
            self._schemas[HISTORY] = self._whole(HISTORY).schema
        self._stand_ins: Final = StandIns(spark, self._schemas)

    @classmethod
    def start(cls, job: SqlJob, master: str | None, warehouse: Path, progress: JobProgress = no_progress) -> "Sql":
        """Start Spark; tables that a statement creates lie in the folder `warehouse`."""
        try:
            settings = {"spark.sql.warehouse.dir": str(warehouse)}
            spark = session("holdfast-sql", master=master, settings=settings, say=progress.say)
            check_executors_read(spark, job.source)
            return cls(spark, job)
        except (HoldfastError, *SPARK_ERRORS) as error:
            raise SqlError(describe_error(error)) from error

    def schemas(self) -> dict[str, dict[str, str]]:
        """The columns of each view and their types."""
        return {
            name: {field.name: field.dataType.simpleString() for field in schema.fields}
            for name, schema in self._schemas.items()
        }

    def run(self, statement: str, limit: int | None = None, progress: JobProgress = no_progress) -> QueryResult:
        """SqlError says what is wrong with it. KeyboardInterrupt while it runs ends it."""
        with _statement_errors():
            self._begin(progress)
            return run_watched(self._spark, lambda: _answer(self._query(statement), limit))

    def stream(self, statement: str, limit: int | None = None, progress: JobProgress = no_progress) -> LimitedRows:
        """The same for any number of rows; errors come with the rows, too. Requires: read to the end, or closed."""
        with _statement_errors():
            self._begin(progress)
            frame = run_watched(self._spark, lambda: self._query(statement))
            columns = list(frame.columns)
            if limit is not None and limit < PARTITION_MESSAGES:
                frame = frame.limit(limit + 1)  # Spark sorts no more than these; they come in one partition
            return LimitedRows(columns, self._batches(frame), limit)

    def _batches(self, frame: DataFrame) -> Iterator[Rows]:
        found = stream_rows(self._spark, frame)
        with _statement_errors(), _settings(self._spark, BOUNDED), closing(found):
            yield from found

    def _query(self, statement: str) -> DataFrame:
        """The answer of a statement, over what it reads."""
        reads = self._stand_ins.reads_of(statement)
        for name in VIEWS if reads is None else reads:
            if reads is None or name != HISTORY:
                self._whole(name).createOrReplaceTempView(name)
            else:
                self._narrow(reads[name]).createOrReplaceTempView(name)
        return self._spark.sql(statement)

    def _whole(self, view: str) -> DataFrame:
        if view not in self._frames:
            self._frames[view] = self._load(view, {})
        return self._frames[view]

    def _narrow(self, reads: ViewReads) -> DataFrame:
        """History for one statement."""
        narrow = {"columns": ",".join(reads.columns or [_CHEAPEST])}
        if reads.is_single and self._lake is None:
            narrow["pushdown"] = "true"
        return with_constants(self._load(HISTORY, narrow), self._schemas[HISTORY])

    def _load(self, view: str, narrow: Mapping[str, str]) -> DataFrame:
        options = {**self._options[view], **narrow}
        if view == HISTORY and self._lake is not None:
            from holdfast.pipeline.lake.lake_reader import union_history  # Delta is loaded where there is a lake

            return union_history(self._spark, {**options, "failOnDataLoss": "true"}, self._lake)
        return self._spark.read.format(NAME).options(**options).load()

    def _begin(self, progress: JobProgress) -> None:
        progress(0.0, "running the statement", until=1.0, reads=True)
        progress.watch(self._spark)


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
