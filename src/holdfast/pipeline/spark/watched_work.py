"""Work on Spark in a thread, so that Ctrl-C is noticed and ends it."""

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

#: Seconds between two looks.
_LOOK_S: Final = 0.2
_T = TypeVar("_T")


class WatchedWork(Generic[_T]):
    """Work on Spark, in a thread that begins at once. Requires: `wait`, or `cancel`."""

    def __init__(self, spark: SparkSession, work: Callable[[], _T]) -> None:
        self._spark: Final = spark
        self._results: Final[list[_T]] = []
        self._errors: Final[list[BaseException]] = []
        #: Not `Thread.join`: Python takes a thread for ended if Ctrl-C comes while it is waited for.
        self._ended: Final = threading.Event()

        def run() -> None:
            try:
                self._results.append(work())
            except BaseException as error:
                self._errors.append(error)
            finally:
                self._ended.set()

        InheritableThread(target=run, name="holdfast-watched", daemon=True).start()

    def wait(self, look: Callable[[], None] = lambda: None) -> _T:
        """The result of the work, while `look` is called now and then.

        KeyboardInterrupt, also one that `look` raises, cancels the jobs of Spark.
        """
        try:
            while not self._ended.wait(_LOOK_S):
                look()
        except KeyboardInterrupt:
            self.cancel()
            raise
        for error in self._errors:
            raise error
        return self._results.pop()

    def cancel(self) -> None:
        """End it, and every other job of the session. Ensures: it has ended."""
        while not self._ended.is_set():
            # Again, until it has ended: a statement that is being planned has no job yet.
            self._spark.sparkContext.cancelAllJobs()
            self._ended.wait(_LOOK_S)


def run_watched(spark: SparkSession, work: Callable[[], _T], look: Callable[[], None] = lambda: None) -> _T:
    """The result of `work`, which runs in a thread, while `look` is called now and then.

    KeyboardInterrupt, also one that `look` raises, cancels the jobs of Spark.
    """
    return WatchedWork(spark, work).wait(look)
