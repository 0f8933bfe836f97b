"""Deadlines fire in order, and by themselves."""

import asyncio

import pytest

from holdfast.broker.deadlines import Deadlines
from holdfast.model.clock import ManualClock
from holdfast.node.system_clock import SystemClock

pytestmark = pytest.mark.compiled


def test_deadlines_fire_in_the_order_of_their_time_and_cancelled_ones_do_not() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    fired: list[str] = []
    deadlines.after(300, lambda: fired.append("late"))
    deadlines.after(100, lambda: fired.append("early"))
    deadlines.after(200, lambda: fired.append("never")).cancel()
    deadlines.after(100, lambda: fired.append("early too"))
    deadlines.fire()
    assert fired == []
    clock.advance(250)
    deadlines.fire()
    assert fired == ["early", "early too"]
    clock.advance(50)
    deadlines.fire()
    assert fired == ["early", "early too", "late"]


def test_deadlines_wake_the_loop_by_themselves() -> None:
    async def scenario() -> None:
        deadlines = Deadlines(SystemClock())
        deadlines.start(asyncio.get_running_loop())
        fired = asyncio.Event()
        deadlines.after(3_600_000_000, lambda: None)
        deadlines.after(1000, fired.set)
        async with asyncio.timeout(30):
            await fired.wait()
        assert fired.is_set()
        deadlines.stop()

    asyncio.run(scenario())
