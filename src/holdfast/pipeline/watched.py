"""Work of Spark that somebody waits for, who can look at its progress meanwhile, and can end it."""

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

#: Seconds between two looks.
_LOOK_S: Final = 0.2
_T = TypeVar("_T")


def watched(spark: SparkSession, work: Callable[[], _T], look: Callable[[], None]) -> _T:
    """What `work` gives, which runs in a thread of its own. KeyboardInterrupt, also one of `look`, ends it."""
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
