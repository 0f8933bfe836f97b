"""Tasks run when there are any, an error that no retry helps is raised, and rounds go on until they are paused."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast.model.errors import PermanentError
from holdfast.pipeline.spark.runner import LazyRunner, Runner, raise_permanent, rounds


def here(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    return [work(task) for task in tasks]


def test_spark_is_not_started_without_tasks_and_once_with_some() -> None:
    started = 0

    def start() -> Runner:
        nonlocal started
        started += 1
        return here

    runner = LazyRunner(start)
    assert runner(str, []) == []
    assert started == 0
    assert runner(str, [1, 2]) + runner(str, [3]) == ["1", "2", "3"]
    assert started == 1


def test_a_permanent_error_among_the_results_is_raised() -> None:
    assert raise_permanent([1, 2]) == [1, 2]
    with pytest.raises(PermanentError, match="damaged"):
        raise_permanent([1, PermanentError("damaged")])


def test_there_is_one_round_or_one_each_interval_until_the_pause_ends_it() -> None:
    assert len(list(rounds(None, lambda _seconds: pytest.fail("it paused")))) == 1
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) < 3

    assert len(list(rounds(60.0, pause))) == 3
    assert all(0 < seconds <= 60 for seconds in pauses)
