"""The loop of worlds in memory comes to rest, or says that it never will."""

import asyncio

import pytest

from tests.still_loop import StillLoop


def test_what_becomes_ready_meanwhile_is_run() -> None:
    loop = StillLoop()
    ran: list[int] = []

    def count_down(left: int) -> None:
        ran.append(left)
        if left:
            loop.call_soon(count_down, left - 1)

    loop.call_soon(count_down, 3)
    loop.settle()
    loop.close()
    assert ran == [3, 2, 1, 0]


def test_a_world_that_is_busy_without_end_is_a_failure() -> None:
    loop = StillLoop()

    def again() -> None:
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(AssertionError, match="still something to do"):
        loop.settle()
    loop.close()


def test_waiting_for_what_nothing_brings_about_is_a_failure() -> None:
    loop = StillLoop()
    with pytest.raises(AssertionError, match="nothing in it can bring about"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_timer_of_the_loop_expires() -> None:
    loop = StillLoop()
    assert loop.run_until_complete(asyncio.sleep(0.001, result=7)) == 7
    loop.close()
