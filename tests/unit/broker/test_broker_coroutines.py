"""Coroutines that begin at once: the same results as in a task, without one where nothing waits."""

import asyncio

import pytest

from holdfast.broker.broker import run_to_first_await


def test_what_never_waits_is_done_at_once() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("done")

    assert run_to_first_await(work()) is None
    assert done == ["done"]


def test_what_waits_goes_on_when_it_is_awaited() -> None:
    async def scenario() -> object:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[int] = loop.create_future()
        second: asyncio.Future[int] = loop.create_future()

        async def work() -> int:
            return await first + await second

        rest = run_to_first_await(work())
        assert rest is not None
        loop.call_soon(first.set_result, 1)
        loop.call_soon(second.set_result, 2)
        return await rest

    assert asyncio.run(scenario()) == 3


def test_an_error_passes_through_at_once_or_later() -> None:
    async def fail() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        run_to_first_await(fail())

    async def scenario() -> None:
        async def fail_later() -> None:
            await asyncio.sleep(0)
            raise ValueError("later")

        rest = run_to_first_await(fail_later())
        assert rest is not None
        await rest

    with pytest.raises(ValueError, match="later"):
        asyncio.run(scenario())


def test_cancelling_reaches_the_coroutine() -> None:
    seen: list[str] = []

    async def scenario() -> None:
        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        rest = run_to_first_await(work())
        assert rest is not None

        async def finish() -> None:
            await rest

        task = asyncio.create_task(finish())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(scenario())
    assert seen == ["cancelled"]
