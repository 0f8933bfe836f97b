"""The steps of a pipeline, each a query of Spark with a checkpoint of its own, from one table into the next.

    decode        log          ──▶ accepted (or rows), quarantine
    deduplicate   accepted     ──▶ rows                               where it is declared
    NAME          rows         ──▶ NAME                               for each aggregate
    publish_N     any of them  ──▶ a broker                           for each such sink

How a kill is survived: Spark notes what a batch reads before it begins, and that it is done when the function below has
returned. A batch that was begun is repeated, with the same rows. Then

1. a table that has the batch is not written again (`table.py`); one that has not gets it whole;
2. the query runs nevertheless if it has a state of its own (windows, what was seen): Spark keeps that by batch, too;
3. a message that the broker has is not taken again (`stream_writer.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.model.errors import HoldfastError
from holdfast.pipeline.declared.table import Table
from holdfast.pipeline.declared.table_files import TOLD_TYPE, Target, Writing, Written, gathered
from holdfast.pipeline.declared.table_stream import NAME as TABLE_SOURCE
from holdfast.pipeline.faults import fault
from holdfast.pipeline.spark_errors import translated


@dataclass
class Counts:
    """What a step did in this run."""

    rows_in: int = 0
    rows_out: int = 0
    messages: int = 0
    batches: int = 0
    #: Too old for their windows when they came; as Spark counts them, so some may be counted as one.
    late: int = 0
    failed: dict[str, int] = field(default_factory=dict)


#: Is told after each batch.
Told = Callable[[str, Counts], None]


class Step:
    """One step. `make` gives what is to be written, of a stream or of one batch of it."""

    def __init__(self, name: str, told: Told) -> None:
        self.name: Final = name
        self.counts: Final = Counts()
        self._told: Final = told
        #: What was raised in a batch: Spark gives it back as a text only.
        self.error: BaseException | None = None

    def run(self, start: Callable[[], StreamingQuery]) -> None:
        """Take what is there, and end."""
        try:
            query = start()
        except PySparkException as error:
            raise translated(error, f"step {self.name}") from error
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if isinstance(self.error, HoldfastError):
                raise self.error from None
            raise translated(error, f"step {self.name}") from error
        finally:
            query.stop()
        for progress in query.recentProgress:
            self.counts.rows_in += progress.numInputRows
            self.counts.late += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)

    def guarded(self, batch_of: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """As `foreachBatch` takes it."""

        def run(rows: DataFrame, batch: int) -> None:
            try:
                batch_of(rows, batch)
            except BaseException as error:
                self.error = error
                raise
            self.counts.batches += 1
            self._told(self.name, self.counts)
            fault(f"run-done-{self.name}")

        return run


def write(rows: DataFrame, job: Writing) -> Written:
    """Write the rows of a batch to files, in Spark's workers."""
    return gathered([row.told for row in rows.mapInArrow(job, TOLD_TYPE).collect()])


class TableStep(Step):
    """From one table into another, with a state of its own: windows, or what was seen."""

    def __init__(self, name: str, told: Told, into: Table, target: Target) -> None:
        super().__init__(name, told)
        self._into: Final = into
        self._target: Final = target

    def batch(self, rows: DataFrame, batch: int) -> None:
        if self._into.has(batch):
            # Spark's own state of this batch may not be on disk yet: the query has to run.
            self.counts.rows_out += rows.count()
            return
        written = write(rows, Writing(self._target))
        fault(f"run-written-{self.name}")
        if written.rows:
            self._into.commit(batch, written.rows, {"step": self.name, "rows": written.passed})
            fault(f"run-committed-{self.name}")
        self.counts.rows_out += written.passed


def stream_of(spark: SparkSession, table: Table, schema: StructType, most_rows: int) -> DataFrame:
    """The rows of a table, as they come."""
    options = {"path": str(table.folder), "maxRows": str(most_rows)}
    return spark.readStream.format(TABLE_SOURCE).schema(schema).options(**options).load()


def started(rows: DataFrame, checkpoint: str, batch: Callable[[DataFrame, int], None]) -> Callable[[], StreamingQuery]:
    sink = rows.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint).outputMode("append")
    return lambda: sink.trigger(availableNow=True).start()


def publishing(
    rows: DataFrame, topic: Any, payload: Any, options: Mapping[str, str], checkpoint: str
) -> Callable[[], StreamingQuery]:
    messages = rows.select(topic.alias("topic"), payload.alias("payload"))
    # Rows have the order of the table, in which they come each time.
    sink = messages.writeStream.format("holdfast").options(**options, orderBy="none")
    return lambda: sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def as_json(rows: DataFrame) -> Any:
    """All columns, as a message for whoever gave no payload."""
    return sql.to_json(sql.struct(*(sql.col(name) for name in rows.columns)))
