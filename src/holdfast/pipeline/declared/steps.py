"""The steps of a pipeline, each a query of Spark with its own checkpoint, from one table into the next.

    decode        log          ──▶ accepted (or rows), quarantine
    deduplicate   accepted     ──▶ rows                               where it is declared
    NAME          rows         ──▶ NAME                               for each aggregate
    publish_N     any of them  ──▶ a broker                           for each such sink

How a kill is survived: Spark notes what a batch reads before it begins, and that it is done when the function below has
returned. A batch that was begun is repeated, with the same rows. Then

1. a table that has the batch is not written again (`table.py`); one that has not gets it whole;
2. the query runs nevertheless if it keeps state (windows, seen keys): Spark keeps that by batch, too;
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
from holdfast.pipeline.declared.table import PipelineTable
from holdfast.pipeline.declared.table_files import RESULT_TYPE, StepFiles, TableTarget, WriteTask, gather_results
from holdfast.pipeline.declared.table_stream import NAME as TABLE_SOURCE
from holdfast.pipeline.spark.errors import translate_error
from holdfast.pipeline.spark.fault_points import fault


@dataclass
class StepCounts:
    """What a step did in this run."""

    rows_in: int = 0
    rows_out: int = 0
    messages: int = 0
    batches: int = 0
    #: Too old for their windows when they came; as Spark counts them, so some may be counted as one.
    late: int = 0
    failed: dict[str, int] = field(default_factory=dict)


#: Called after each batch with the step's name and counts.
StepProgress = Callable[[str, StepCounts], None]


class PipelineStep:
    """One step. `make` gives what is to be written, of a stream or of one batch of it."""

    def __init__(self, name: str, progress: StepProgress) -> None:
        self.name: Final = name
        self.counts: Final = StepCounts()
        self._progress: Final = progress
        #: What was raised in a batch: Spark gives it back as a text only.
        self.error: BaseException | None = None

    def run(self, start: Callable[[], StreamingQuery]) -> None:
        """Take what is there, and end."""
        try:
            query = start()
        except PySparkException as error:
            raise translate_error(error, f"step {self.name}") from error
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if isinstance(self.error, HoldfastError):
                raise self.error from None
            raise translate_error(error, f"step {self.name}") from error
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
            self._progress(self.name, self.counts)
            fault(f"run-done-{self.name}")

        return run


def write_batch(rows: DataFrame, job: WriteTask) -> StepFiles:
    """Write the rows of a batch to files, in Spark's workers."""
    return gather_results([row.result for row in rows.mapInArrow(job, RESULT_TYPE).collect()])


class TableStep(PipelineStep):
    """From one table into another, with state: windows, or seen keys."""

    def __init__(self, name: str, progress: StepProgress, into: PipelineTable, target: TableTarget) -> None:
        super().__init__(name, progress)
        self._into: Final = into
        self._target: Final = target

    def batch(self, rows: DataFrame, batch: int) -> None:
        if self._into.has(batch):
            # Spark's own state of this batch may not be on disk yet: the query has to run.
            self.counts.rows_out += rows.count()
            return
        written = write_batch(rows, WriteTask(self._target))
        fault(f"run-written-{self.name}")
        if written.rows:
            self._into.commit(batch, written.rows, {"step": self.name, "rows": written.passed})
            fault(f"run-committed-{self.name}")
        self.counts.rows_out += written.passed


def read_table_stream(spark: SparkSession, table: PipelineTable, schema: StructType, most_rows: int) -> DataFrame:
    """The rows of a table, as they come."""
    options = {"path": str(table.folder), "maxRows": str(most_rows)}
    return spark.readStream.format(TABLE_SOURCE).schema(schema).options(**options).load()


def start_query(
    rows: DataFrame, checkpoint: str, batch: Callable[[DataFrame, int], None]
) -> Callable[[], StreamingQuery]:
    sink = rows.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint).outputMode("append")
    return lambda: sink.trigger(availableNow=True).start()


def start_publishing(
    rows: DataFrame, topic: Any, payload: Any, options: Mapping[str, str], checkpoint: str
) -> Callable[[], StreamingQuery]:
    messages = rows.select(topic.alias("topic"), payload.alias("payload"))
    # Rows have the order of the table, in which they come each time.
    sink = messages.writeStream.format("holdfast").options(**options, orderBy="none")
    return lambda: sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def as_json(rows: DataFrame) -> Any:
    """All columns as JSON: the payload of a sink that declares none."""
    return sql.to_json(sql.struct(*(sql.col(name) for name in rows.columns)))
