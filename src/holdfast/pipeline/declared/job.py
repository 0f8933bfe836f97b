"""The job of a declared pipeline: lock the state folder, make the tables, run the steps in order, once or repeatedly.

A round takes what is there: each step runs until it has read what the step before it has written. Tables that only lie
between steps are emptied at the end of a round, when all have read them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.model.errors import TransientError
from holdfast.pipeline.declared.declaration import ALSO_READ, BASE, DECODE, QUARANTINE, ROWS, Declaration
from holdfast.pipeline.declared.expression_check import aggregate_windows, check_expressions, fill_topic
from holdfast.pipeline.declared.state import PipelineState, check_state, mark_tables_made, open_state
from holdfast.pipeline.declared.steps import DecodeStep, PipelineStep, StepCounts, TableStep
from holdfast.pipeline.declared.table import PipelineTable
from holdfast.pipeline.declared.table_stream import NAME as TABLE_SOURCE
from holdfast.pipeline.declared.table_stream import TableSource
from holdfast.pipeline.lake.upkeep import compact, remove_orphans
from holdfast.pipeline.lake.writer import lock_folder
from holdfast.pipeline.source.data_source import NAME, HoldfastSource
from holdfast.pipeline.source.history_source import check_source
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.errors import spark_errors
from holdfast.pipeline.spark.log import LOGGER
from holdfast.pipeline.spark.runner import SparkRunner, rounds

#: Between the rules and the rows, where duplicates are taken out.
ACCEPTED: Final = "accepted"
DEDUPLICATE: Final = "deduplicate"
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # An expression that cannot be computed is null, and not the end of the pipeline.
    "spark.sql.ansi.enabled": "false",
    # Counts are added up from these.
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    # One row of text a file: small payloads and large ones alike.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
}


#: By Spark's context: a source cannot be registered twice.
_SESSIONS: Final[WeakKeyDictionary[SparkContext, SparkSession]] = WeakKeyDictionary()


@dataclass
class RunOutcome:
    messages: int = 0
    #: Rows whose payload was decoded, and of these the ones that passed all rules.
    decoded: int = 0
    passed: int = 0
    #: By rule.
    quarantined: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    #: By aggregate.
    windows: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    #: By sink.
    published: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    #: Files that a killed run left.
    swept: int = 0
    #: Small files that were replaced by larger ones.
    compacted: int = 0


#: Receives the step that begins or has done a batch, and its counts in this round.
Progress = Callable[[str, StepCounts], None]


def check_run(declared: Declaration) -> None:
    """SettingsError, before Spark is started, if the source cannot be read or the state is that of something else."""
    check_state(declared)
    check_source(parse_read_options(declared.source.options))


def run_declared(
    declared: Declaration,
    spark: SparkSession,
    every_s: float | None = None,
    progress: Progress | None = None,
) -> RunOutcome:
    """Run once, or until it is stopped. Requires: `check_run`."""
    with spark_errors():
        own = _own_session(spark)
        schemas = check_expressions(own, declared)
        schemas[ACCEPTED] = schemas[ROWS]
        with lock_folder(declared.state, "run of this pipeline") as was_left:
            state = open_state(declared)
            tables = _tables(declared, state, schemas)
            state = mark_tables_made(state, declared)
            run = _Run(declared, own, state, tables, schemas, progress or (lambda _step, _counts: None))
            if was_left:
                run.outcome.swept = sum(remove_orphans(table) for table in tables.values())
            for _round in rounds(every_s):
                try:
                    run.round()
                except TransientError as error:
                    if every_s is None:
                        raise
                    LOGGER.warning("the pipeline tries again: %s", error)
        return run.outcome


def _own_session(spark: SparkSession) -> SparkSession:
    """A session with its own settings and sources, so that others in the process keep theirs; one for all runs."""
    context = spark.sparkContext
    own = _SESSIONS.get(context)
    if own is None:
        own = _SESSIONS[context] = spark.newSession()
        for key, value in _SETTINGS.items():
            own.conf.set(key, value)
        own.dataSource.register(HoldfastSource)
        own.dataSource.register(TableSource)
    return own


def _tables(declared: Declaration, state: PipelineState, schemas: Mapping[str, StructType]) -> dict[str, PipelineTable]:
    asked = {sink.of: sink.path for sink in declared.tables}
    names = [QUARANTINE, ROWS, *(each.name for each in declared.aggregates)]
    if declared.deduplicate is not None:
        names.append(ACCEPTED)
    made = {}
    for name in names:
        schema = to_arrow_schema(schemas[name], timezone="UTC")
        folder = asked.get(name) or state.table(name)
        made[name] = PipelineTable.open_or_make(folder, name, state.id, schema, is_new=not state.is_made)
    return made


@dataclass(frozen=True)
class _Run:
    declared: Declaration
    spark: SparkSession
    state: PipelineState
    tables: dict[str, PipelineTable]
    schemas: Mapping[str, StructType]
    progress: Progress
    outcome: RunOutcome = field(default_factory=RunOutcome)

    def round(self) -> None:
        for table in self.tables.values():
            table.refresh()
        self._decode()
        self._deduplicate()
        self._aggregate()
        self._publish()
        kept = {QUARANTINE, *(sink.of for sink in self.declared.tables)}
        for name, table in self.tables.items():
            if name not in kept:
                table.empty()
        for name, table in self.tables.items():
            if name in kept:
                self.outcome.compacted += compact(table, SparkRunner(self.spark))
        self.outcome.rounds += 1

    def _decode(self) -> None:
        into = self.tables[ROWS if self.declared.deduplicate is None else ACCEPTED]
        step = DecodeStep(self.declared, self.state, self.progress, into, self.tables[QUARANTINE])
        options = {
            **self.declared.source.options,
            "columns": ",".join((*BASE, *ALSO_READ)),
            "maxRowsPerTrigger": str(self.declared.batch_rows),
            # Rows of a shard that was read less far would be late for windows, and for what was seen.
            "inStep": "true",
        }
        messages = self.spark.readStream.format(NAME).options(**options).load()
        step.run_batches(messages, self.state.checkpoint(step.name))
        self.outcome.messages += step.counts.messages
        failed = step.counts.failed
        self.outcome.passed += step.counts.rows_out
        self.outcome.decoded += step.counts.rows_out + sum(failed.values()) - failed.get(DECODE, 0)
        dropping = {rule.name for rule in self.declared.rules if rule.on_fail == "drop"}
        for rule, count in failed.items():
            _add(self.outcome.dropped if rule in dropping else self.outcome.quarantined, rule, count)

    def _deduplicate(self) -> None:
        wanted = self.declared.deduplicate
        if wanted is None:
            return
        columns = self.schemas[ROWS].fieldNames()
        step = TableStep(DEDUPLICATE, self.progress, self.tables[ROWS], columns, "ts")
        rows = self._stream(ACCEPTED).withWatermark("ts", wanted.within)
        rows = rows.dropDuplicatesWithinWatermark(list(wanted.by))
        step.run_batches(rows, self.state.checkpoint(step.name))
        counts = step.counts
        self.outcome.duplicates += counts.rows_in - counts.rows_out - counts.late
        if counts.late:
            _add(self.outcome.late, DEDUPLICATE, counts.late)

    def _aggregate(self) -> None:
        for each in self.declared.aggregates:
            columns = self.schemas[each.name].fieldNames()
            step = TableStep(each.name, self.progress, self.tables[each.name], columns, "window_start")
            rows = self._stream(ROWS).where(sql.col(each.time).isNotNull()).withWatermark(each.time, each.watermark)
            step.run_batches(aggregate_windows(rows, each), self.state.checkpoint(step.name))
            _add(self.outcome.windows, each.name, step.counts.rows_out)
            if step.counts.late:
                _add(self.outcome.late, each.name, step.counts.late)

    def _publish(self) -> None:
        for sink in self.declared.publishes:
            step = PipelineStep(sink.name, self.progress)
            rows = self._stream(sink.of)
            payload = sql.to_json(sql.struct(*rows.columns)) if sink.payload is None else sql.expr(sink.payload)
            messages = rows.select(fill_topic(sink.topic).alias("topic"), payload.alias("payload"))
            # Rows have the order of the table, in which they come each time.
            writer = messages.writeStream.format(NAME).options(**sink.options, orderBy="none")
            step.run(writer, self.state.checkpoint(step.name))
            _add(self.outcome.published, sink.name, step.counts.rows_in)

    def _stream(self, name: str) -> DataFrame:
        """The rows of a table, as they come."""
        options = {"path": str(self.tables[name].folder), "maxRows": str(self.declared.batch_rows)}
        return self.spark.readStream.format(TABLE_SOURCE).schema(self.schemas[name]).options(**options).load()


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count
