"""Processes that are kept running."""

import asyncio

import pytest

from holdfast.node.processes.supervision import end_task, keep_running


def test_it_is_started_again_after_growing_pauses_until_it_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr("holdfast.node.processes.supervision.asyncio.sleep", sleep)
    outcomes = iter([1, None, 1, 1, 1, 1, 1, 1, 0])

    async def run() -> int:
        outcome = next(outcomes)
        if outcome is None:
            raise OSError("no")
        return outcome

    asyncio.run(keep_running("test", run, ends=lambda status: status == 0))
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_ending_the_task_ends_the_run() -> None:
    ended: list[bool] = []

    async def run() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return 0

    async def work() -> None:
        task = asyncio.create_task(keep_running("test", run))
        await asyncio.sleep(0)
        await end_task(task)
        await end_task(None)

    asyncio.run(work())
    assert ended == [True]
