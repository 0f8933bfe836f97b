"""How a job runs: its tasks on Spark, its rounds once or again and again.

Spark itself is imported when it is needed: the history process loads the jobs' modules and runs none.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.spark.progress import JobProgress, TaskCounter, no_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Runs work on tasks, and returns the result of each.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
#: The rows and bytes that a task, given first, and its result stand for.
Measure = Callable[[Any, Any], tuple[int, int]]


@runtime_checkable
class MeasuredWork(Protocol):
    """Work that knows for itself what its tasks stand for, and not as the job measures its other tasks."""

    def __call__(self, task: Any, /) -> Any: ...

    def measure(self, task: Any, result: Any, /) -> tuple[int, int]: ...


class SparkRunner:
    """Runs tasks on Spark: `work` and the tasks travel to the workers, and only their results come back."""

    def __init__(
        self, spark: "SparkSession", progress: JobProgress = no_progress, measure: Measure | None = None
    ) -> None:
        """With `measure` the step of the job counts what its tasks have done."""
        self._spark: Final = spark
        self._progress: Final = progress
        self._measure: Final = measure

    @classmethod
    def start(
        cls,
        name: str,
        master: str | None,
        progress: JobProgress,
        measure: Measure,
        source: Mapping[str, str] | None = None,
        lake: Path | None = None,
    ) -> "SparkRunner":
        """`source`: options of what its tasks read, which executors have to reach. `lake`: a folder they write to."""
        from holdfast.pipeline.spark.executor_folder import check_executors_read, check_executors_share
        from holdfast.pipeline.spark.session import session

        # The step that needs Spark goes on when it is there.
        with progress.interlude():
            spark = session(name, master=master, say=progress.say)
        progress.watch(spark)
        check_executors_read(spark, source or {})
        if lake is not None:
            check_executors_share(spark, lake)
        return cls(spark, progress, measure)

    def __call__(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        from holdfast.pipeline.spark.errors import SPARK_ERRORS, last_line

        if self._measure is not None:
            measure = work.measure if isinstance(work, MeasuredWork) else self._measure
            work = partial(_measured, work, measure, self._progress.counter(self._spark))
        try:
            return self._spark.sparkContext.parallelize(tasks, len(tasks)).map(work).collect()
        except SPARK_ERRORS as error:
            raise TransientError(f"Spark failed: {last_line(error)}") from error


def _measured(work: Callable[[Any], Any], measure: Measure, counter: TaskCounter, task: Any) -> Any:
    """In a worker. A task that gives an error has done nothing."""
    result = work(task)
    if not isinstance(result, Exception):
        counter.add(*measure(task, result))
    return result


class LazyRunner:
    """A runner that is made when there is something to run: starting Spark takes seconds."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make: Final = make
        self._made: Runner | None = None

    def __call__(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if not tasks:
            return []
        if self._made is None:
            self._made = self._make()
        return self._made(work, tasks)


def raise_permanent(results: Sequence[Any]) -> list[Any]:
    """The results of tasks; a task returns a PermanentError so that Spark does not try it again."""
    for result in results:
        if isinstance(result, PermanentError):
            raise result
    return list(results)


def rounds(every_s: float | None, pause: Callable[[float], bool] | None = None) -> Iterator[None]:
    """One round, or one each `every_s` until `pause` returns false."""
    while True:
        began_s = time.monotonic()
        yield
        if every_s is None or not (pause or _sleep)(max(0.0, began_s + every_s - time.monotonic())):
            return


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
