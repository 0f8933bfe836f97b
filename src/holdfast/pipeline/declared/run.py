"""A run of a declared pipeline: take the state folder, make the tables, run the steps in their order, once or for ever.

A round takes what is there: each step runs until it has read what the step before it has written. Tables that only lie
between steps are emptied at the end of a round, when all have read them.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.model.errors import TransientError
from holdfast.pipeline.archive_run import turns
from holdfast.pipeline.declared.checking import aggregated, check_expressions, filled
from holdfast.pipeline.declared.declaration import ALSO_READ, BASE, DECODE, QUARANTINE, ROWS, Declaration
from holdfast.pipeline.declared.decode_step import DecodeStep
from holdfast.pipeline.declared.state import State, check_state, open_state, tables_made
from holdfast.pipeline.declared.steps import Counts, Step, TableStep, as_json, publishing, started, stream_of
from holdfast.pipeline.declared.table import Table
from holdfast.pipeline.declared.table_files import DAY, target
from holdfast.pipeline.declared.table_stream import TableSource
from holdfast.pipeline.lake_upkeep import compact, sweep, writing
from holdfast.pipeline.opening import check_source
from holdfast.pipeline.options import parse_options
from holdfast.pipeline.reporting import LOGGER
from holdfast.pipeline.source import NAME, HoldfastSource
from holdfast.pipeline.spark_errors import translated

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
class Outcome:
    """What a run did, so far."""

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
    #: Files that somebody left who died.
    swept: int = 0
    #: Small files that were replaced by larger ones.
    compacted: int = 0


#: Is told which step has done a batch, and what it did so far in this round.
Progress = Callable[[str, Counts], None]


def check_run(declared: Declaration) -> None:
    """SettingsError, before Spark is started, if the source cannot be read or the state is that of something else."""
    check_state(declared)
    check_source(parse_options(declared.source.options))


def run_declared(
    declared: Declaration,
    spark: SparkSession,
    every_s: float | None = None,
    progress: Progress | None = None,
    pause: Callable[[float], bool] | None = None,
) -> Outcome:
    """Run once, or until `pause` says no. Requires: `check_run`."""
    try:
        return _run_declared(declared, _own_session(spark), every_s, progress or _silent, pause or _sleep)
    except (Py4JError, PySparkException) as error:
        raise translated(error, "Spark failed") from error


def _run_declared(
    declared: Declaration,
    own: SparkSession,
    every_s: float | None,
    progress: Progress,
    pause: Callable[[float], bool],
) -> Outcome:
    schemas = check_expressions(own, declared)
    with writing(declared.state, "run of this pipeline") as was_left:
        state = open_state(declared)
        tables = _tables(declared, state, schemas)
        state = tables_made(state, declared)
        run = _Run(declared, own, state, tables, schemas, progress)
        if was_left:
            run.outcome.swept = sum(sweep(table) for table in tables.values())
        for _turn in turns(every_s, pause):
            try:
                run.round()
            except TransientError as error:
                if every_s is None:
                    raise
                LOGGER.warning("the pipeline tries again: %s", error)
    return run.outcome


def _own_session(spark: SparkSession) -> SparkSession:
    """With settings and sources of its own; whoever runs beside it has theirs. One for all runs of a process."""
    context = spark.sparkContext
    own = _SESSIONS.get(context)
    if own is None:
        own = _SESSIONS[context] = spark.newSession()
        for key, value in _SETTINGS.items():
            own.conf.set(key, value)
        own.dataSource.register(HoldfastSource)
        own.dataSource.register(TableSource)
    return own


def _tables(declared: Declaration, state: State, schemas: Mapping[str, StructType]) -> dict[str, Table]:
    asked = {sink.of: sink.path for sink in declared.tables}
    names = [QUARANTINE, ROWS, *(each.name for each in declared.aggregates)]
    if declared.deduplicate is not None:
        names.append(ACCEPTED)
    made = {}
    for name in names:
        schema = to_arrow_schema(schemas[ROWS if name == ACCEPTED else name], timezone="UTC")
        folder = asked.get(name) or state.table(name)
        made[name] = Table.open_or_make(folder, name, state.id, schema, is_new=not state.is_made)
    return made


class _Run:
    def __init__(
        self,
        declared: Declaration,
        spark: SparkSession,
        state: State,
        tables: dict[str, Table],
        schemas: Mapping[str, StructType],
        progress: Progress,
    ) -> None:
        self.outcome: Final = Outcome()
        self._declared: Final = declared
        self._spark: Final = spark
        self._state: Final = state
        self._tables: Final = tables
        self._schemas: Final = schemas
        self._progress: Final = progress
        kept = {QUARANTINE, *(sink.of for sink in declared.tables)}
        self._kept: Final = [table for name, table in tables.items() if name in kept]
        self._between: Final = [table for name, table in tables.items() if name not in kept]

    def round(self) -> None:
        for table in self._tables.values():
            table.refresh()
        self._decode()
        self._deduplicate()
        self._aggregate()
        self._publish()
        for table in self._between:
            table.empty()
        for table in self._kept:
            self.outcome.compacted += compact(table, partitions=(DAY,))
        self.outcome.rounds += 1

    # ---- steps

    def _decode(self) -> None:
        into = self._tables[ROWS if self._declared.deduplicate is None else ACCEPTED]
        step = DecodeStep(self._declared, self._state, self._progress, into, self._tables[QUARANTINE])
        options = {
            **self._declared.source.options,
            "columns": ",".join((*BASE, *ALSO_READ)),
            "maxRowsPerTrigger": str(self._declared.batch_rows),
            # Rows of a shard that was read less far would be late for windows, and for what was seen.
            "inStep": "true",
        }
        messages = self._spark.readStream.format(NAME).options(**options).load()
        self._run(step, started(messages, self._state.checkpoint(step.name), step.guarded(step.batch)))
        self.outcome.messages += step.counts.messages
        failed = step.counts.failed
        self.outcome.passed += step.counts.rows_out
        self.outcome.decoded += step.counts.rows_out + sum(failed.values()) - failed.get(DECODE, 0)
        dropping = {rule.name for rule in self._declared.rules if rule.on_fail == "drop"}
        for rule, count in failed.items():
            _add(self.outcome.dropped if rule in dropping else self.outcome.quarantined, rule, count)

    def _deduplicate(self) -> None:
        wanted = self._declared.deduplicate
        if wanted is None:
            return
        step = TableStep(DEDUPLICATE, self._progress, self._tables[ROWS], self._target(ROWS, "ts"))
        rows = self._stream(ACCEPTED).withWatermark("ts", wanted.within)
        rows = rows.dropDuplicatesWithinWatermark(list(wanted.by))
        self._run(step, started(rows, self._state.checkpoint(step.name), step.guarded(step.batch)))
        counts = step.counts
        self.outcome.duplicates += counts.rows_in - counts.rows_out - counts.late
        if counts.late:
            _add(self.outcome.late, DEDUPLICATE, counts.late)

    def _aggregate(self) -> None:
        for each in self._declared.aggregates:
            step = TableStep(
                each.name, self._progress, self._tables[each.name], self._target(each.name, "window_start")
            )
            rows = self._stream(ROWS).where(sql.col(each.time).isNotNull()).withWatermark(each.time, each.watermark)
            found = aggregated(rows, each)
            self._run(step, started(found, self._state.checkpoint(step.name), step.guarded(step.batch)))
            _add(self.outcome.windows, each.name, step.counts.rows_out)
            if step.counts.late:
                _add(self.outcome.late, each.name, step.counts.late)

    def _publish(self) -> None:
        for sink in self._declared.publishes:
            step = Step(sink.name, self._progress)
            rows = self._stream(sink.of)
            payload: Any = as_json(rows) if sink.payload is None else sql.expr(sink.payload)
            checkpoint = self._state.checkpoint(step.name)
            self._run(step, publishing(rows, filled(sink.topic), payload, sink.options, checkpoint))
            _add(self.outcome.published, sink.name, step.counts.rows_in)

    # ---- within

    def _run(self, step: Step, start: Any) -> None:
        step.run(start)

    def _target(self, name: str, time_column: str) -> Any:
        return target(self._tables[name].folder, dict.fromkeys(self._schemas[name].fieldNames(), ""), time_column)

    def _stream(self, name: str) -> Any:
        schema = self._schemas[ROWS if name == ACCEPTED else name]
        return stream_of(self._spark, self._tables[name], schema, self._declared.batch_rows)


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


def _silent(_step: str, _counts: Counts) -> None:
    pass


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
