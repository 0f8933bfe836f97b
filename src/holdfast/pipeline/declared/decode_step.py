"""The first step: the log, decoded, judged by the rules.

It keeps no state in Spark, so a batch is an ordinary table here. Rows and quarantine are two tables with a
transaction each: a batch that was killed between the two is completed, not repeated.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from holdfast.model.errors import PermanentError
from holdfast.pipeline.declared.declaration import DECODE, QUARANTINED, Declaration, OnFail, PayloadFormat
from holdfast.pipeline.declared.decoder import decode_messages
from holdfast.pipeline.declared.sparkplug import NAMESPACE
from holdfast.pipeline.declared.sparkplug_aliases import Aliases
from holdfast.pipeline.declared.state import PipelineState
from holdfast.pipeline.declared.steps import PipelineStep, StepProgress, write_batch
from holdfast.pipeline.declared.table import PipelineTable
from holdfast.pipeline.declared.table_files import RULE, WHY, WriteTask, make_target
from holdfast.pipeline.spark.fault_points import fault


class DecodeStep(PipelineStep):
    """From the log into `into` and `quarantine`."""

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
        into = None if self._into.has(batch) else make_target(self._into.folder, self._declared.row_types(), "ts")
        aside = None if self._quarantine.has(batch) else make_target(self._quarantine.folder, QUARANTINED, "ts")
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
