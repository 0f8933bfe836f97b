"""How a job runs: its tasks on Spark, its rounds once or again and again."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.spark.errors import SPARK_ERRORS, last_line
from holdfast.pipeline.spark.session import session

#: Runs work on tasks, and returns the result of each.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


class SparkRunner:
    """Runs tasks on Spark: `work` and the tasks travel to the workers, and only their results come back."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Final = spark

    @classmethod
    def start(cls, name: str, master: str | None) -> "SparkRunner":
        return cls(session(name, master=master))

    def __call__(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        try:
            return self._spark.sparkContext.parallelize(tasks, len(tasks)).map(work).collect()
        except SPARK_ERRORS as error:
            raise TransientError(f"Spark failed: {last_line(error)}") from error


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
