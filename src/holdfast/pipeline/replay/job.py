"""A replay on Spark: history, from a lake, a log or both, into a broker, through several connections at a time.

    history ──▶ rounds ──▶ by publisher and topic ──▶ in order ──▶ connection 0 ──▶ broker
                           hash                                   connection 1 ──▶

1. Messages of one publisher on one topic go through one connection, in their order.
2. What is replayed is settled when it begins, by the last position of each shard: what is published meanwhile, also by
   the replay itself, is no part of it. The plan is kept (`state.py`), and a run that goes on does so with it.
3. Each message is taken once by a broker that knows numbers, whatever is killed when. A run that goes on begins where
   the slowest connection was.
4. When a round is done, as many messages were replayed as there were when it was planned. Fewer are an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.history.tables.tables import SESSIONS, TableQuery
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.replay.plan import ReplayJob, make_plan, read_messages
from holdfast.pipeline.replay.rows import COLUMNS
from holdfast.pipeline.replay.schedule import ReplayRound, ReplayStart, last_number_before, offset_of
from holdfast.pipeline.replay.state import ConnectionProgress, ReplayPlan, ReplayState, open_state, write_note
from holdfast.pipeline.replay.task import RESULT, ReplayTask, replay_rows
from holdfast.pipeline.sink.broker_client import check_connection
from holdfast.pipeline.sink.write_options import WriteOptions
from holdfast.pipeline.source.history_source import table_rows
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.spark.errors import permanent_errors
from holdfast.pipeline.spark.executor_folder import check_executors_read
from holdfast.pipeline.spark.progress import JobProgress
from holdfast.pipeline.spark.session import session
from holdfast.pipeline.spark.watched_work import run_watched

#: Seconds after which the session of `check_broker` ends by itself, if this process is killed.
_EXPIRY_S: Final = 60
_QUERY: Final = TableQuery(SESSIONS, ("client_id",))


@dataclass
class ReplayOutcome:
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


def run_replay(job: ReplayJob, master: str | None, progress: JobProgress) -> ReplayOutcome:
    """Replay, or go on with a replay. Spark is started if there is anything to do."""
    with open_state(job.state) as state:
        plan = state.plan(job.asked())
        if plan is not None and state.is_complete:
            return _outcome(plan, state.notes(plan.connections), plan.messages)
        spark = session("holdfast-replay", master=master, say=progress.say)
        progress.watch(spark)
        check_executors_read(spark, job.source)
        with permanent_errors():
            if plan is None:
                progress(0.0, "counting messages", reads=True)
                plan = make_plan(spark, job)
                state.keep(plan)
            _check_room(spark, job, plan)
            outcome = _Run(spark, job, plan, state, progress).run()
        state.complete()
        return outcome


def _check_room(spark: SparkSession, job: ReplayJob, plan: ReplayPlan) -> None:
    """Spark itself waits for minutes before it says so."""
    tasks = spark.sparkContext.defaultParallelism
    if job.speed is not None and plan.connections > tasks:
        raise SettingsError(
            f"with --speed all {plan.connections} connections have to run at the same time, and Spark runs {tasks} "
            f"tasks; give fewer --connections under another --name, a larger --master, or no speed"
        )


def _outcome(plan: ReplayPlan, notes: Sequence[ConnectionProgress], before: int) -> ReplayOutcome:
    messages, size_bytes = sum(note.messages for note in notes), sum(note.bytes for note in notes)
    return ReplayOutcome(messages, size_bytes, plan.connections, plan.first_us, plan.last_us, before=before)


class _Run:
    def __init__(
        self, spark: SparkSession, job: ReplayJob, plan: ReplayPlan, state: ReplayState, progress: JobProgress
    ) -> None:
        self._spark: Final = spark
        self._job: Final = job
        self._plan: Final = plan
        self._state: Final = state
        self._progress: Final = progress
        self._notes = state.notes(plan.connections)
        #: Of a replay with a speed, when it has begun.
        self._beginning: ReplayStart | None = None

    def run(self) -> ReplayOutcome:
        plan = self._plan
        outcome = _outcome(plan, (), sum(note.messages for note in self._notes))
        planned = 0
        share = outcome.before / max(1, plan.messages)
        self._progress(share, "publishing messages", rows=plan.messages, done=outcome.before)
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

    def _replay(self, one: ReplayRound) -> list[Any]:
        """Ensures: every message of the round is acknowledged, and noted."""
        lo_us = max(one.lo_us, offset_of(min(note.number for note in self._notes)))
        rows = read_messages(self._spark, self._job, self._plan, lo_us, one.hi_us, COLUMNS)
        parts = rows.repartition(self._plan.connections, "client_id", "topic").sortWithinPartitions("offset", "shard")
        job, plan = self._job, self._plan
        folder = str(self._state.folder.absolute())
        task = ReplayTask(plan.id, job.to, job.prefix, tuple(self._notes), folder, job.speed, self._beginning)
        # Those of a replay with a speed have to run at the same time.
        frame = parts.mapInArrow(partial(replay_rows, task), from_arrow_schema(RESULT), barrier=job.speed is not None)
        results = run_watched(self._spark, frame.collect, self._look)
        for result in results:
            self._notes[result["connection"]] = ConnectionProgress(
                last_number_before(one.hi_us), result["messages"], result["bytes"]
            )
            if job.speed is not None:
                self._beginning = ReplayStart(result["start_us"], result["first_us"])
        for connection, note in enumerate(self._notes):
            write_note(self._state.folder, connection, note)
        self._look()
        return results

    def _check(self, planned: int) -> None:
        replayed = sum(note.messages for note in self._notes)
        if replayed != planned:
            raise PermanentError(
                f"{planned:,} messages were there when the replay was planned, and {replayed:,} when it was made; "
                f"{'retention has dropped the rest' if replayed < planned else 'the log or the lake was changed'}"
            )

    def _look(self) -> None:
        notes = self._state.notes(self._plan.connections)
        done, size_bytes = sum(note.messages for note in notes), sum(note.bytes for note in notes)
        self._progress.update(share=done / max(1, self._plan.messages), rows=done, size_bytes=size_bytes)


# ---- the broker


def check_broker(to: WriteOptions, read: ReadOptions | None) -> bool:
    """Connect to the broker; whether it is the one whose history `read` names. LostError, RefusedError: no connection.

    An address does not show that: a machine has many names, and ports are mapped. So a session is begun at the broker
    and looked for in the history. The session is ended again, and no message is published.
    """
    check_connection(to, f"replay-knocks-{uuid4().hex[:16]}")
    if read is None:
        return False
    client_id = f"replay-asks-{uuid4().hex[:16]}"
    check_connection(to, client_id, session_expiry_s=_EXPIRY_S)
    try:
        # A listener may put a mount point in front of a client id.
        return any(
            name.endswith(client_id) for batch in table_rows(read, _QUERY) for name in batch.column(0).to_pylist()
        )
    finally:
        check_connection(to, client_id)
