"""A replay on Spark: history, from a lake, a log or both, into a broker, through several connections at a time.

    history ──▶ rounds ──▶ by publisher and topic ──▶ in order ──▶ connection 0 ──▶ broker
                           hash                                   connection 1 ──▶

1. Messages of one publisher on one topic go through one connection, in their order.
2. What is replayed is settled when it begins, by the last position of each shard: what is published meanwhile, also by
   the replay itself, is no part of it. The plan is kept (`replay_state.py`), and a run that goes on does so with it.
3. Each message is taken once by a broker that knows numbers, whatever is killed when. A run that goes on begins where
   the slowest connection was.
4. When a round is done, as many messages were replayed as there were when it was planned. Fewer are an error.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.durable.log import FOR_EVER
from holdfast.model.errors import PermanentError
from holdfast.pipeline.cold import cold
from holdfast.pipeline.joined import joined
from holdfast.pipeline.lake import Lake
from holdfast.pipeline.opening import opened
from holdfast.pipeline.options import parse_options
from holdfast.pipeline.replay_rows import COLUMNS
from holdfast.pipeline.replay_schedule import (
    Beginning,
    Round,
    bucket_us,
    cut_rounds,
    last_number_before,
    offset_of,
)
from holdfast.pipeline.replay_state import Note, Plan, State, taken, write_note
from holdfast.pipeline.replay_task import RESULT, Task, replay_rows
from holdfast.pipeline.source import NAME
from holdfast.pipeline.sql import in_words
from holdfast.pipeline.write_options import WriteOptions
from holdfast.topics.filters import parse_filter
from holdfast.topics.since import parse_since

#: Messages of a round, at most: what Spark sorts at once, on its disks.
ROUND: Final = 5_000_000
#: Seconds between two looks at the notes.
_LOOK_S: Final = 0.2


@dataclass(frozen=True)
class ReplayJob:
    """What is to be replayed, and where to."""

    to: WriteOptions
    #: Of this replay alone.
    state: Path
    #: Of the data source; empty: the lake alone.
    source: dict[str, str]
    lake: Path | None = None
    topic: str | None = None
    since: str = "earliest"
    until: str | None = None
    prefix: str = ""
    speed: Fraction | None = None
    #: None: as many as Spark runs tasks.
    connections: int | None = None
    round_messages: int = ROUND

    def asked(self) -> dict[str, str]:
        """What must not change when it goes on. Times may be relative, and are those of the first run."""
        given = {
            "--data": self.source.get("path"),
            "--endpoint": self.source.get("endpoint"),
            "--lake": None if self.lake is None else str(self.lake),
            "--to": self.to.place,
            "--topic": self.topic,
            "--since": self.since,
            "--until": self.until,
            "--prefix": self.prefix,
        }
        return {key: text for key, text in given.items() if text is not None}


@dataclass
class Outcome:
    """What was done, so far."""

    #: Of the whole replay.
    messages: int = 0
    size_bytes: int = 0
    connections: int = 0
    first_us: int = 0
    last_us: int = 0
    #: Of this run: what was sent, and what had been replayed before it.
    sent: int = 0
    before: int = 0
    #: The latest that a message was sent after it was due, in µs.
    late_us: int = 0


#: Is told the share, the messages so far, and how many there are.
Progress = Callable[[float, int, int], None]


def run_replay(job: ReplayJob, make_spark: Callable[[], SparkSession], progress: Progress) -> Outcome:
    """Replay it, or the rest of it. Spark is started when all else is known to be right."""
    with taken(job.state) as state:
        plan = state.plan(job.asked())
        if plan is not None and state.is_complete:
            return _outcome(plan, state.notes(plan.connections), plan.messages)
        spark = make_spark()
        try:
            if plan is None:
                plan = _Planner(spark, job).plan()
                state.keep(plan)
            outcome = _Run(spark, job, plan, state, progress).run()
        except (PySparkException, Py4JError) as error:
            raise PermanentError(in_words(error)) from error
        state.complete()
        return outcome


def _outcome(plan: Plan, notes: Sequence[Note], before: int) -> Outcome:
    messages, size_bytes = sum(note.messages for note in notes), sum(note.bytes for note in notes)
    return Outcome(messages, size_bytes, plan.connections, plan.first_us, plan.last_us, before=before)


class _Planner:
    """Settles what is replayed."""

    def __init__(self, spark: SparkSession, job: ReplayJob) -> None:
        self._spark: Final = spark
        self._job: Final = job

    def plan(self) -> Plan:
        job = self._job
        now_us = time.time_ns() // 1000
        bounds = self._bounds()
        since_us = parse_since(job.since).resolve(now_us)
        until_us = FOR_EVER if job.until is None else parse_since(job.until).resolve(now_us)
        until_us = min(until_us, max(bounds.values(), default=-1) + 1)
        connections = job.connections or self._spark.sparkContext.defaultParallelism
        plan = Plan(uuid4().hex[:12], job.asked(), bounds, connections, (), 0, 0)
        rounds, first_us, last_us = self._rounds(plan, since_us, until_us) if since_us < until_us else ([], 0, 0)
        return plan._replace(rounds=rounds, first_us=first_us, last_us=last_us)

    def _bounds(self) -> dict[int, int]:
        """The last position of each shard."""
        bounds: dict[int, int] = {}
        if self._job.lake is not None:
            bounds = {shard: offset.position_us for shard, offset in Lake.open(self._job.lake).offsets.items()}
        if self._job.source:
            with opened(parse_options(self._job.source)) as source:
                for shard, head in source.heads().items():
                    bounds[shard] = max(head.position_us, bounds.get(shard, -1))
        return bounds

    def _rounds(self, plan: Plan, since_us: int, until_us: int) -> tuple[list[Round], int, int]:
        rows = messages(self._spark, self._job, plan, since_us, until_us, ("offset",))
        [found] = rows.agg(
            fn.count("*").alias("n"), fn.min("offset").alias("lo"), fn.max("offset").alias("hi")
        ).collect()
        if not found.n:
            return [], 0, 0
        most = self._job.round_messages
        if found.n <= most:
            return [Round(found.lo, found.hi + 1, found.n)], found.lo, found.hi
        width_us = bucket_us(found.lo, found.hi, found.n, most)
        bucket = fn.floor(fn.col("offset") / fn.lit(width_us)).alias("bucket")
        counts = {row.bucket: row["count"] for row in rows.groupBy(bucket).count().collect()}
        return cut_rounds(counts, width_us, most), found.lo, found.hi


def messages(
    spark: SparkSession, job: ReplayJob, plan: Plan, since_us: int, until_us: int, columns: Sequence[str]
) -> DataFrame:
    """The messages of a replay with since <= position < until."""
    names = list(dict.fromkeys([*columns, "offset", "shard", "topic"]))
    given = {**job.source, "startingTime": str(since_us), "endingTime": str(until_us), "columns": ",".join(names)}
    if job.topic is not None:
        given["topicFilter"] = job.topic
    if not job.source:
        assert job.lake is not None
        levels = () if job.topic is None else parse_filter(job.topic.encode()).levels
        rows = cold(spark, Lake.open(job.lake), levels, since_us, until_us, names)
    elif job.lake is None:
        rows = spark.read.format(NAME).options(**given).load()
    else:
        rows = joined(spark, given, job.lake)
    last = [fn.lit(number).cast("long") for pair in sorted(plan.bounds.items()) for number in pair]
    rows = rows.where(fn.col("offset") <= fn.create_map(*last)[fn.col("shard").cast("long")])
    if job.prefix:
        # Copies that an earlier replay made are no history.
        rows = rows.where(~fn.col("topic").startswith(job.prefix))
    return rows.select(*columns)


class _Run:
    """One round after the other."""

    def __init__(self, spark: SparkSession, job: ReplayJob, plan: Plan, state: State, progress: Progress) -> None:
        self._spark: Final = spark
        self._job: Final = job
        self._plan: Final = plan
        self._state: Final = state
        self._progress: Final = progress
        self._notes = state.notes(plan.connections)
        #: Of a replay with a speed, when it has begun.
        self._beginning: Beginning | None = None

    def run(self) -> Outcome:
        plan = self._plan
        outcome = _outcome(plan, (), sum(note.messages for note in self._notes))
        planned = 0
        for one in plan.rounds:
            planned += one.messages
            if min(note.number for note in self._notes) >= last_number_before(one.hi_us):
                continue
            for result in self._replay(one):
                outcome.sent += result["sent"]
                outcome.late_us = max(outcome.late_us, result["late_us"])
            self._check(planned)
        outcome.messages = sum(note.messages for note in self._notes)
        outcome.size_bytes = sum(note.bytes for note in self._notes)
        return outcome

    def _replay(self, one: Round) -> list[Any]:
        """Ensures: every message of the round is acknowledged, and noted."""
        lo_us = max(one.lo_us, offset_of(min(note.number for note in self._notes)))
        rows = messages(self._spark, self._job, self._plan, lo_us, one.hi_us, COLUMNS)
        parts = rows.repartition(self._plan.connections, "client_id", "topic").sortWithinPartitions("offset", "shard")
        job, plan = self._job, self._plan
        folder = str(self._state.folder.absolute())
        task = Task(plan.id, job.to, job.prefix, tuple(self._notes), folder, job.speed, self._beginning)
        # Those of a replay with a speed have to run at the same time.
        frame = parts.mapInArrow(partial(replay_rows, task), from_arrow_schema(RESULT), barrier=job.speed is not None)
        results = self._watched(frame.collect)
        for result in results:
            self._notes[result["connection"]] = Note(last_number_before(one.hi_us), result["messages"], result["bytes"])
            if job.speed is not None:
                self._beginning = Beginning(result["start_us"], result["first_us"])
        for connection, note in enumerate(self._notes):
            write_note(self._state.folder, connection, note)
        return results

    def _check(self, planned: int) -> None:
        replayed = sum(note.messages for note in self._notes)
        if replayed != planned:
            raise PermanentError(
                f"{planned:,} messages were there when the replay was planned, and {replayed:,} when it was made; "
                f"retention has dropped the rest, or the lake was changed"
            )

    def _watched(self, work: Callable[[], list[Any]]) -> list[Any]:
        """Look at the notes while it runs."""
        results: list[list[Any]] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                results.append(work())
            except Exception as error:
                errors.append(error)

        thread = InheritableThread(target=run, name="holdfast-replay", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_LOOK_S)
                done = sum(note.messages for note in self._state.notes(self._plan.connections))
                self._progress(done / max(1, self._plan.messages), done, self._plan.messages)
        except KeyboardInterrupt:
            self._spark.sparkContext.cancelAllJobs()
            thread.join()
            raise
        for error in errors:
            raise error
        return results[0]
