"""Progress of work on Spark: a caller can watch a query while it runs, and end it."""

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

#: Receives the share that is done, from 0 to 1 or None if that is not known, and what is being done.
Progress = Callable[[float | None, str], None]
#: Seconds between two looks.
_LOOK_S: Final = 0.2
_T = TypeVar("_T")


def no_progress(_share: float | None, _text: str) -> None:
    """A Progress that shows nothing."""


def run_watched(spark: SparkSession, work: Callable[[], _T], look: Callable[[], None]) -> _T:
    """The result of `work`, which runs in a thread, while `look` is called now and then.

    KeyboardInterrupt, also one that `look` raises, cancels the jobs of Spark.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = InheritableThread(target=run, name="holdfast-watched", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_S)
            look()
    except KeyboardInterrupt:
        spark.sparkContext.cancelAllJobs()
        thread.join()
        raise
    for error in errors:
        raise error
    return results[0]


def count_tasks(spark: SparkSession) -> tuple[int, int]:
    """Of the active stages: the tasks that are done, and all tasks."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
