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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.replay_plan import Planner, ReplayJob, messages
from holdfast.pipeline.replay_rows import COLUMNS
from holdfast.pipeline.replay_schedule import Beginning, Round, last_number_before, offset_of
from holdfast.pipeline.replay_state import Note, Plan, State, taken, write_note
from holdfast.pipeline.replay_task import RESULT, Task, replay_rows
from holdfast.pipeline.spark_session import session
from holdfast.pipeline.sql import in_words
from holdfast.pipeline.watched import watched


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


def run_replay(job: ReplayJob, master: str | None, begin: Callable[[str], None], progress: Progress) -> Outcome:
    """Replay it, or the rest of it. Spark is started if there is anything to do; `begin` is told what takes a while."""
    with taken(job.state) as state:
        plan = state.plan(job.asked())
        if plan is not None and state.is_complete:
            return _outcome(plan, state.notes(plan.connections), plan.messages)
        begin("starting Spark")
        spark = session("holdfast-replay", master=master)
        try:
            if plan is None:
                begin("counting")
                plan = Planner(spark, job).plan()
                state.keep(plan)
            _check_room(spark, job, plan)
            outcome = _Run(spark, job, plan, state, progress).run()
        except (PySparkException, Py4JError) as error:
            raise PermanentError(in_words(error)) from error
        state.complete()
        return outcome


def _check_room(spark: SparkSession, job: ReplayJob, plan: Plan) -> None:
    """Spark itself waits for minutes before it says so."""
    tasks = spark.sparkContext.defaultParallelism
    if job.speed is not None and plan.connections > tasks:
        raise SettingsError(
            f"with --speed all {plan.connections} connections have to run at the same time, and Spark runs {tasks} "
            f"tasks; give fewer --connections under another --name, a larger --master, or no speed"
        )


def _outcome(plan: Plan, notes: Sequence[Note], before: int) -> Outcome:
    messages, size_bytes = sum(note.messages for note in notes), sum(note.bytes for note in notes)
    return Outcome(messages, size_bytes, plan.connections, plan.first_us, plan.last_us, before=before)


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
        results = watched(self._spark, frame.collect, self._look)
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
                f"{'retention has dropped the rest' if replayed < planned else 'the log or the lake was changed'}"
            )

    def _look(self) -> None:
        done = sum(note.messages for note in self._state.notes(self._plan.connections))
        self._progress(done / max(1, self._plan.messages), done, self._plan.messages)
