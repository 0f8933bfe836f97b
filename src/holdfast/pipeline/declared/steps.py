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

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming.readwriter import DataStreamWriter

from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.pipeline.declared.declaration import DECODE, QUARANTINED, Declaration, OnFail, PayloadFormat
from holdfast.pipeline.declared.decoder import decode_messages
from holdfast.pipeline.declared.sparkplug import NAMESPACE
from holdfast.pipeline.declared.sparkplug_aliases import Aliases
from holdfast.pipeline.declared.state import PipelineState
from holdfast.pipeline.declared.table import PipelineTable
from holdfast.pipeline.declared.table_files import RESULT_TYPE, RULE, WHY, StepFiles, WriteTask, gather_results
from holdfast.pipeline.lake.delta_files import check_files
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.spark.errors import translate_error
from holdfast.pipeline.spark.fault_points import fault


@dataclass
class StepCounts:
    rows_in: int = 0
    rows_out: int = 0
    messages: int = 0
    batches: int = 0
    #: Too old for their windows when they came; as Spark counts them, so some may be counted as one.
    late: int = 0
    failed: dict[str, int] = field(default_factory=dict)


#: Called when a step begins, and after each of its batches, with its name and counts.
StepProgress = Callable[[str, StepCounts], None]


class PipelineStep:
    """One step, run by a query of Spark."""

    def __init__(self, name: str, progress: StepProgress) -> None:
        self.name: Final = name
        self.counts: Final = StepCounts()
        self._progress: Final = progress
        #: What was raised in a batch: Spark gives it back as a text only.
        self._error: BaseException | None = None

    def run(self, sink: DataStreamWriter, checkpoint: str) -> None:
        """Take what is there, and end."""
        self._progress(self.name, self.counts)
        sink = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        try:
            query = sink.start()
        except PySparkException as error:
            raise translate_error(error, f"step {self.name}") from error
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if isinstance(self._error, HoldfastError):
                raise self._error from None
            raise translate_error(error, f"step {self.name}") from error
        finally:
            query.stop()
        for progress in query.recentProgress:
            self.counts.rows_in += progress.numInputRows
            self.counts.late += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)


class BatchStep(PipelineStep, ABC):
    """A step that writes its batches itself."""

    @abstractmethod
    def batch(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, unless it is there already."""

    def run_batches(self, rows: DataFrame, checkpoint: str) -> None:
        self.run(rows.writeStream.foreachBatch(self._write).outputMode("append"), checkpoint)

    def _write(self, rows: DataFrame, batch: int) -> None:
        try:
            self.batch(rows, batch)
        except BaseException as error:
            self._error = error
            raise
        self.counts.batches += 1
        self._progress(self.name, self.counts)
        fault(f"run-done-{self.name}")


def write_batch(rows: DataFrame, job: WriteTask) -> StepFiles:
    """Write the rows of a batch to files, in Spark's workers."""
    written = gather_results([row.result for row in rows.mapInArrow(job, RESULT_TYPE).collect()])
    for target, files in ((job.rows, written.rows), (job.quarantine, written.quarantine)):
        if target is not None:
            check_files(LakeStore(target.folder), files)
    return written


class TableStep(BatchStep):
    """From one table into another, with state: windows, or seen keys."""

    def __init__(self, name: str, progress: StepProgress, into: PipelineTable, columns: list[str], time: str) -> None:
        super().__init__(name, progress)
        self._into: Final = into
        self._target: Final = into.target(columns, time)

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


class DecodeStep(BatchStep):
    """From the log, decoded and judged by the rules, into `into` and `quarantine`.

    It keeps no state in Spark, so a batch is an ordinary table here. Rows and quarantine are two tables with a
    transaction each: a batch that was killed between the two is completed, not repeated.
    """

    def __init__(
        self,
        declared: Declaration,
        state: PipelineState,
        progress: StepProgress,
        into: PipelineTable,
        quarantine: PipelineTable,
    ) -> None:
        super().__init__(DECODE, progress)
        self._declared: Final = declared
        self._state: Final = state
        self._into: Final = into
        self._quarantine: Final = quarantine

    def batch(self, messages: DataFrame, batch: int) -> None:
        if self._into.has(batch) and self._quarantine.has(batch):
            return
        aliases = self._aliases(messages, batch)
        rows = apply_rules(decode_messages(messages, self._declared.decode, aliases), self._declared)
        rules = self._declared.rules
        kept = (DECODE, *(rule.name for rule in rules if rule.on_fail == OnFail.QUARANTINE))
        # What is there already is left out, and the rest is what it was: rows are judged the same each time.
        into = None if self._into.has(batch) else self._into.target(self._declared.row_types(), "ts")
        aside = None if self._quarantine.has(batch) else self._quarantine.target(QUARANTINED, "ts")
        written = write_batch(rows, WriteTask(into, aside, kept))
        for rule in rules:
            if rule.on_fail == OnFail.FAIL and rule.name in written.failed:
                topic, shard, serial = written.examples[rule.name]
                raise PermanentError(
                    f"{self._declared.where_is(rule.place)}: rule {rule.name} fails the pipeline: "
                    f"{written.failed[rule.name]:,} rows do not meet {rule.where!r}, such as message {serial} of shard "
                    f"{shard}, topic {topic!r}"
                )
        fault(f"run-written-{self.name}")
        if aside is not None:
            self._quarantine.commit(batch, written.quarantine, {"step": self.name, "failed": written.failed})
        fault(f"run-quarantined-{self.name}")
        if into is not None:
            self._into.commit(batch, written.rows, {"step": self.name, "rows": written.passed})
        fault(f"run-committed-{self.name}")
        self.counts.messages += written.messages
        self.counts.rows_out += written.passed
        for name, count in written.failed.items():
            self.counts.failed[name] = self.counts.failed.get(name, 0) + count

    def _aliases(self, messages: DataFrame, batch: int) -> Aliases | None:
        """Those that the batch needs, with the births that it has itself."""
        if self._declared.decode.format != PayloadFormat.SPARKPLUG_B:
            return None
        aliases = Aliases.before(self._state.aliases, batch)
        births = messages.where(sql.col("topic").rlike(f"^{NAMESPACE}/[^/]*/[ND]BIRTH/"))
        found = births.select("topic", sql.unix_micros("ts").alias("at"), "payload").toLocalIterator()
        aliases.learn((row["topic"], row["at"], bytes(row["payload"] or b"")) for row in found)
        aliases.save(self._state.aliases, batch)
        return aliases


def apply_rules(rows: DataFrame, declared: Declaration) -> DataFrame:
    """With the rule that a row fails first in `_rule`, null if it passes, and the reason in `_why`."""
    failing: Column = sql.when(sql.col(WHY).isNotNull(), sql.lit(DECODE))
    for rule in declared.rules:
        # A condition that is neither true nor false is not met.
        met = sql.coalesce(sql.expr(f"({rule.where}\n)"), sql.lit(False))
        failing = failing.when(~met, sql.lit(rule.name))
    rows = rows.withColumn(RULE, failing)
    values = sql.to_json(sql.struct(*(sql.col(name) for name in declared.decode.types())))
    reason: Column = sql.col(WHY)
    for rule in declared.rules:
        text = sql.concat(sql.lit(f"not true: {rule.where}; "), sql.coalesce(values, sql.lit("{}")))
        reason = sql.when(sql.col(RULE) == rule.name, text).otherwise(reason)
    return rows.withColumn(WHY, reason)
