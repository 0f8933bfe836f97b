"""Progress of work on Spark: a caller can watch a query while it runs, and end it."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

#: Receives the share that is done, from 0 to 1 or None if that is not known, and what is being done.
Progress = Callable[[float | None, str], None]
#: Seconds between two looks.
_LOOK_S: Final = 0.2
_T = TypeVar("_T")


def no_progress(_share: float | None, _text: str) -> None:
    """A Progress that shows nothing."""


class WatchedWork(Generic[_T]):
    """Work on Spark, in a thread that begins at once. Requires: `wait`, or `cancel`."""

    def __init__(self, spark: SparkSession, work: Callable[[], _T]) -> None:
        self._spark: Final = spark
        self._results: Final[list[_T]] = []
        self._errors: Final[list[BaseException]] = []

        def run() -> None:
            try:
                self._results.append(work())
            except BaseException as error:
                self._errors.append(error)

        self._thread: Final = InheritableThread(target=run, name="holdfast-watched", daemon=True)
        self._thread.start()

    def wait(self, look: Callable[[], None]) -> _T:
        """The result of the work, while `look` is called now and then.

        KeyboardInterrupt, also one that `look` raises, cancels the jobs of Spark.
        """
        try:
            while self._thread.is_alive():
                self._thread.join(_LOOK_S)
                look()
        except KeyboardInterrupt:
            self.cancel()
            raise
        for error in self._errors:
            raise error
        return self._results.pop()

    def cancel(self) -> None:
        """End it, and every other job of the session. Ensures: it has ended."""
        if self._thread.is_alive():
            self._spark.sparkContext.cancelAllJobs()
            self._thread.join()


def run_watched(spark: SparkSession, work: Callable[[], _T], look: Callable[[], None]) -> _T:
    """The result of `work`, which runs in a thread, while `look` is called now and then.

    KeyboardInterrupt, also one that `look` raises, cancels the jobs of Spark.
    """
    return WatchedWork(spark, work).wait(look)


def count_tasks(spark: SparkSession) -> tuple[int, int]:
    """Of the active stages: the tasks that are done, and all tasks."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
