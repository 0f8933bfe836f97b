"""SQL over a broker's tables: `history`, `sessions`, `queues`, `retained` as temporary views.

Whoever waits for a statement can look at its progress, and can end it.
"""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.history.tables import QUEUES, SCHEMAS
from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.pipeline.frames import history
from holdfast.pipeline.options import HISTORY
from holdfast.pipeline.source import NAME
from holdfast.pipeline.spark_session import session
from holdfast.pipeline.watched import watched

VIEWS: Final = (HISTORY, *SCHEMAS)
#: PySpark logs every error of a statement, with its stacks, beside raising it.
_LOUD: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_CODES: Final = re.compile(r"^\[[A-Z_.]+\] |;? ?SQLSTATE: \w+|; line \d+ pos \d+;?$", re.MULTILINE)
#: The last line of a worker's traceback, which says what went wrong there.
_RAISED: Final = re.compile(r"^(?:holdfast\.[\w.]*|\w*)(?:Error|Exception): (.+)$", re.MULTILINE)

Progress = Callable[[float | None, str], None]


class SqlError(PermanentError):
    """A statement failed; in words for whoever wrote it."""


class Answer(NamedTuple):
    """The rows of a statement."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    has_more: bool


class Sql:
    """Requires: one statement at a time."""

    def __init__(
        self,
        spark: SparkSession,
        source: Mapping[str, str],
        *,
        lake: Path | None = None,
        columns: str | None = None,
        exact: bool = False,
    ) -> None:
        """With a `lake`, what is archived there is part of `history`; of that only some `columns` are read, if given.

        Spark does not tell a Python source which columns a statement needs.
        """
        self._spark: Final = spark
        for logger in _LOUD:
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        chosen = {HISTORY: {} if columns is None else {"columns": columns}, QUEUES: {"owed": "exact"} if exact else {}}
        for name in VIEWS:
            options = {**source, "table": name, **chosen.get(name, {})}
            spark.read.format(NAME).options(**options).load().createOrReplaceTempView(name)
        if lake is not None:
            wanted = None if columns is None else [one.strip() for one in columns.split(",")]
            history(spark, path=source["path"], columns=wanted, lake=lake).createOrReplaceTempView(HISTORY)

    @classmethod
    def start(
        cls,
        source: Mapping[str, str],
        master: str | None,
        folder: Path,
        *,
        lake: Path | None = None,
        columns: str | None = None,
        exact: bool = False,
    ) -> "Sql":
        """Start Spark; tables that somebody makes lie in `folder`."""
        try:
            spark = session("holdfast-sql", master=master, settings={"spark.sql.warehouse.dir": str(folder)})
            return cls(spark, source, lake=lake, columns=columns, exact=exact)
        except (HoldfastError, PySparkException, Py4JError) as error:
            raise SqlError(in_words(error)) from error

    def schemas(self) -> dict[str, dict[str, str]]:
        """The columns of each view and their types."""
        return {
            name: {field.name: field.dataType.simpleString() for field in self._spark.table(name).schema.fields}
            for name in VIEWS
        }

    def run(self, statement: str, limit: int | None = None, progress: Progress | None = None) -> Answer:
        """SqlError says what is wrong with it. KeyboardInterrupt while it runs ends it."""

        def look() -> None:
            if progress is not None:
                progress(*self._progress())

        try:
            return watched(self._spark, lambda: _answer(self._spark.sql(statement), limit), look)
        except (PySparkException, Py4JError, HoldfastError) as error:
            raise SqlError(in_words(error)) from error

    def _progress(self) -> tuple[float | None, str]:
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        total = sum(stage.numTasks for stage in stages if stage is not None)
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return (done / total, f"{done} of {total} tasks") if total else (None, "")


def _answer(frame: DataFrame, limit: int | None) -> Answer:
    table = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    rows = list(zip(*[column.to_pylist() for column in table.columns], strict=True))
    return Answer(table.column_names, rows if limit is None else rows[:limit], limit is not None and len(rows) > limit)


def in_words(error: BaseException) -> str:
    """What went wrong, without the stacks of Java and Python."""
    text = str(error)
    raised: list[str] = _RAISED.findall(text)
    if raised and "Traceback (most recent call last)" in text:
        return raised[-1]
    text = _CODES.sub("", text.split("\n\nJVM stacktrace")[0].split("\n\tat ")[0]).strip()
    # What is wrong with the words of a statement is shown in it; behind anything else stands Spark's plan.
    return text if "== SQL ==" in text else text.split("\n")[0]
