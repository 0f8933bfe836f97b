"""Steps of a job: when they begin and end, what is done of them, and a share that never goes back.

What Spark itself says is in tests/spark/test_progress.py.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.pipeline.spark.progress import CountedBatches, JobProgress, JobState, TaskCounter, no_progress


class LocalSpark:
    """Accumulators of Spark, without it."""

    class Sum:
        def __init__(self) -> None:
            self.value = 0

        def add(self, number: int) -> None:
            self.value += number

    def __init__(self) -> None:
        self.sparkContext: Final = self

    def accumulator(self, _zero: int) -> "LocalSpark.Sum":
        return LocalSpark.Sum()


@pytest.fixture
def spark() -> Any:
    return LocalSpark()


def test_a_step_is_told_when_it_begins_and_when_it_ends(spark: Any) -> None:
    told: list[JobState] = []
    progress = JobProgress(told.append)

    progress(0.0, "first", until=0.5, rows=200)
    progress.counter(spark).add(100, 5_000)
    progress(0.5, "second")
    progress.close(done=True)

    assert told == [
        JobState("first", 0.0, None, None, turns=True, number=1),
        JobState("first", 0.25, 100, 5_000, turns=True, number=1),
        JobState("second", 0.5, None, None, turns=True, number=2),
        JobState("second", 1.0, None, None, turns=True, number=2),
    ]


def test_the_share_never_goes_back() -> None:
    told: list[JobState] = []
    progress = JobProgress(told.append)

    progress(0.6, "late")
    progress(0.2, "early")
    progress.say("unknown")

    assert [state.share for state in told] == [0.6] * 5


def test_what_the_job_knows_is_told(spark: Any) -> None:
    told: list[JobState] = []
    progress = JobProgress(told.append)

    progress(0.0, "publishing", rows=10)
    progress.update(share=0.4, rows=4, size_bytes=400)

    assert told[-1] == JobState("publishing", 0.4, 4, 400, number=1)
    assert progress.counter(spark) is progress.counter(spark), "one sum for all passes of a step"


def test_a_step_that_goes_on_is_not_begun_again() -> None:
    told: list[JobState] = []
    progress = JobProgress(told.append)

    for _look in range(3):
        progress.say("the broker ingests it")

    assert len(told) == 1


def test_a_step_that_comes_again_is_another_one() -> None:
    """Small files are replaced in several passes, and a pipeline of one step may have many rounds."""
    told: list[JobState] = []
    progress = JobProgress(told.append)

    for _pass in range(2):
        progress(None, "replacing small files", rows=10)
        progress.update(rows=7)

    assert [(state.number, state.rows) for state in told] == [(1, None), (1, 7), (1, 7), (2, None), (2, 7)]


def test_a_step_goes_on_behind_what_interrupts_it(spark: Any) -> None:
    """Spark is started when there are tasks for it."""
    told: list[JobState] = []
    progress = JobProgress(told.append)

    progress(0.0, "archiving", until=1.0, rows=10)
    with progress.interlude():
        progress.say("starting Spark")
    progress.counter(spark).add(5)
    progress.close(done=True)

    assert [state.step for state in told] == ["archiving", "archiving", "starting Spark", "archiving", "archiving"]
    assert (told[-1].rows, told[-1].share) == (5, 1.0)


def test_nothing_is_told_of_a_job_that_failed_or_behind_the_end() -> None:
    told: list[JobState] = []
    progress = JobProgress(told.append)
    progress(0.5, "half")
    progress.close(done=False)

    progress(0.7, "more")
    progress.update(rows=1)
    progress.close(done=True)

    assert [state.share for state in told] == [0.5]


def test_progress_that_nobody_is_told_of_starts_nothing(spark: Any) -> None:
    before = threading.active_count()

    no_progress(0.0, "step", until=1.0)
    no_progress.watch(spark)

    assert threading.active_count() == before


@pytest.mark.parametrize(("given", "rows"), [(False, 3), (True, 6)])
def test_batches_are_counted_that_come_in_or_that_go_out(spark: Any, *, given: bool, rows: int) -> None:
    counter = TaskCounter(spark)

    def twice(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            yield batch

    found = list(CountedBatches(twice, counter, given=given)(iter([pa.RecordBatch.from_pydict({"a": [1, 2, 3]})])))

    assert len(found) == 2
    assert counter.sums() == (rows, 0)
