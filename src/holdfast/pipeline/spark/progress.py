"""How far a job is: it names its steps, Spark and its tasks say how much of each is done, and somebody is told.

    progress(0.2, "messages of the log", until=0.4, rows=1_200_000)    a step begins
    counter = progress.counter(spark)                                  … counter.add(10_000) in its tasks
    progress.update(rows=300_000)                                      or the job itself knows it
        │
        └──▶ tell(JobState(step, share, rows, size_bytes))             when a step begins and ends, and now and then

1. The share of a job never goes back. One that goes on until it is stopped has none.
2. Rows and bytes are those of the step: what its tasks have counted, or what Spark has read for it in its longest
   stage. They come when tasks end, some earlier. A task that is run again may be counted twice: these sums are for
   people, and no result.
3. What cannot be asked of Spark is not known, and no error of the job.

It does not import Spark: commands show that they are at work before they do.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds between two looks at Spark.
_LOOK_S: Final = 0.5
#: Milliseconds that its last words about a step are waited for.
_LAST_WORDS_MS: Final = 2_000


class JobState(NamedTuple):
    """How far a job is."""

    step: str
    #: Of the whole job, 0 to 1; None: not known.
    share: float | None = None
    #: Of the step, so far; None: not known, or it has none.
    rows: int | None = None
    size_bytes: int | None = None
    #: Whether the step has just begun or ended: worth telling at once.
    turns: bool = False
    #: Of the step: others may have the same name.
    number: int = 0


class TaskCounter:
    """Counts in tasks. It travels with their work; a number is added to the sum when its task has ended."""

    def __init__(self, spark: "SparkSession") -> None:
        self._rows: Final = spark.sparkContext.accumulator(0)
        self._bytes: Final = spark.sparkContext.accumulator(0)

    def add(self, rows: int, size_bytes: int = 0) -> None:
        """In a task."""
        self._rows.add(rows)
        self._bytes.add(size_bytes)

    def sums(self) -> tuple[int, int]:
        """In the driver: rows, and bytes."""
        return self._rows.value, self._bytes.value


class CountedBatches:
    """Work on record batches, for `mapInArrow`, that counts the rows it is given, or gives."""

    def __init__(self, work: Callable[[Any], Iterator[Any]], counter: TaskCounter, *, given: bool = False) -> None:
        self._work: Final = work
        self._counter: Final = counter
        self._given: Final = given

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        if self._given:
            return self._count(self._work(batches))
        return self._work(self._count(batches))

    def _count(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._counter.add(batch.num_rows)
            yield batch


@dataclass
class _Step:
    text: str
    number: int = 0
    share: float | None = None
    until: float | None = None
    #: As many are expected; None: not known.
    expected: int | None = None
    #: Rows that Spark has read are rows of this step.
    reads: bool = False
    counter: TaskCounter | None = None
    rows: int | None = None
    size_bytes: int | None = None
    #: The part of the step that is done.
    part: float | None = None


class JobProgress:
    """Requires: `close`, after `watch`."""

    def __init__(self, tell: Callable[[JobState], None] | None = None, *, endless: bool = False) -> None:
        """`tell` is called by several threads, one at a time. A job that is `endless` has no share."""
        self._tell: Final = tell
        self._endless: Final = endless
        self._lock: Final = threading.RLock()
        self._closed: Final = threading.Event()
        self._numbers: Final = count(1)
        self._step = _Step("")
        self._share: float | None = None
        self._stages: _Stages | None = None

    def __call__(
        self,
        share: float | None,
        step: str,
        *,
        until: float | None = None,
        rows: int | None = None,
        done: int | None = None,
        reads: bool = False,
    ) -> None:
        """A step begins. `share`: of the job that is done before it; `until`: with it; `rows`: that it will have, of
        which an earlier run has `done` some.
        """
        if self._tell is None:
            return
        with self._lock:
            if self._step.text:
                self._look(turns=True)
            if self._stages is not None:
                self._stages.begin()
            self._step = _Step(step, next(self._numbers), share, until, rows, reads, rows=done)
            self._report(turns=True)

    @contextmanager
    def interlude(self) -> Iterator[None]:
        """What begins in the block interrupts a step, which goes on behind it."""
        step = self._step
        yield
        if self._tell is not None:
            with self._lock:
                self._step = step
                self._report(turns=True)

    def say(self, text: str) -> None:
        """A step begins of which nothing else is known, unless it goes on already."""
        if text != self._step.text:
            self(None, text)

    def update(self, *, share: float | None = None, rows: int | None = None, size_bytes: int | None = None) -> None:
        """What the job itself knows of the step; `share`: of the whole job."""
        if self._tell is None:
            return
        with self._lock:
            self._step.share = self._step.share if share is None else share
            self._step.rows = self._step.rows if rows is None else rows
            self._step.size_bytes = self._step.size_bytes if size_bytes is None else size_bytes
            self._report()

    def counter(self, spark: "SparkSession") -> TaskCounter:
        """For the tasks of this step; the same one for all of them."""
        if self._step.counter is None:
            self._step.counter = TaskCounter(spark)
        return self._step.counter

    def watch(self, spark: "SparkSession") -> None:
        """Look at Spark now and then, until `close`."""
        if self._tell is None or self._stages is not None:
            return
        self._stages = _Stages(spark)
        threading.Thread(target=self._watch, name="holdfast-progress", daemon=True).start()

    def close(self, *, done: bool) -> None:
        """Tell nothing from here on, but that it is `done`."""
        with self._lock:
            if done and not self._closed.is_set() and self._step.text:
                self._look(turns=True, share=1.0)
            self._closed.set()

    # ---- looking

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_S):
            with self._lock:
                self._look()

    def _look(self, *, turns: bool = False, share: float | None = None) -> None:
        step = self._step
        if self._stages is not None:
            done = self._stages.look(last=turns)
            step.part = done.tasks_done / done.tasks if done.tasks else None
            if step.reads and done.rows:
                step.rows, step.size_bytes = max(done.rows, step.rows or 0), done.size_bytes or step.size_bytes
        if step.counter is not None:
            rows, size_bytes = step.counter.sums()
            if rows or size_bytes:
                step.rows, step.size_bytes = max(rows, step.rows or 0), max(size_bytes, step.size_bytes or 0) or None
        self._report(turns=turns, share=share)

    def _report(self, *, turns: bool = False, share: float | None = None) -> None:
        if self._tell is None or self._closed.is_set():
            return
        step = self._step
        if share is None:
            share = step.share
            if share is not None and step.until is not None:
                part = step.part
                if step.expected and step.rows is not None:
                    part = min(1.0, step.rows / step.expected)
                share += (step.until - share) * (part or 0.0)
        if share is not None and not self._endless:
            self._share = max(share, self._share or 0.0)
        self._tell(JobState(step.text, self._share, step.rows, step.size_bytes, turns, step.number))


#: Progress that is not shown.
no_progress: Final = JobProgress()


# ---- what Spark says


class _StageTotals(NamedTuple):
    tasks_done: int = 0
    tasks: int = 0
    #: That were read from files and sources.
    rows: int = 0
    size_bytes: int = 0


class _Stages:
    """The stages of a step, by Spark's own bookkeeping, which it has with and without its page."""

    def __init__(self, spark: "SparkSession") -> None:
        context = spark.sparkContext
        self._tracker: Final = context.statusTracker()
        machine: Any = context._jsc
        self._store: Final = machine.sc().statusStore()
        self._bus: Final = machine.sc().listenerBus()
        self._known: dict[int, _StageTotals] = {}
        self._active: set[int] = set()
        self._total = _StageTotals()
        #: The last job before the step.
        self._job = -1
        self.begin()

    def begin(self) -> None:
        """A step begins: the stages so far are not of it."""
        self._known.clear()
        self._active.clear()
        self._total = _StageTotals()
        with suppress(*_spark_errors()):
            self._job = max(self._tracker.getJobIdsForGroup(), default=-1)

    def look(self, *, last: bool = False) -> _StageTotals:
        """What stages of the step have done; `last`: all of it. An error leaves what was known."""
        try:
            now = set(self._tracker.getActiveStageIds())
            if last:
                self._bus.waitUntilEmpty(_LAST_WORDS_MS)
                now |= self._all_stages()
            for stage in now | self._active:
                with suppress(*_spark_errors()):
                    self._known[stage] = self._ask(stage)
            self._active = now
            if self._known:
                found = list(self._known.values())
                # Some steps read twice, or read again what Spark has kept of the first time.
                longest = max(found, key=lambda stage: stage.rows)
                tasks_done, tasks = sum(stage.tasks_done for stage in found), sum(stage.tasks for stage in found)
                self._total = _StageTotals(tasks_done, tasks, longest.rows, longest.size_bytes)
        except _spark_errors():
            pass  # Spark has ended, or is about to: who waits for its results gets the error
        return self._total

    def _all_stages(self) -> set[int]:
        """Also those that began and ended between two looks, but for those of streams."""
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup() if job > self._job]
        return {stage for job in jobs if job is not None for stage in job.stageIds}

    def _ask(self, stage: int) -> _StageTotals:
        data = self._store.lastStageAttempt(stage)
        return _StageTotals(data.numCompleteTasks(), data.numTasks(), data.inputRecords(), data.inputBytes())


def _spark_errors() -> tuple[type[Exception], ...]:
    """Spark has ended, or does not know a stage any more."""
    from holdfast.pipeline.spark.errors import SPARK_ERRORS

    return (*SPARK_ERRORS, OSError)
