"""The manual clock: time passes when told to, and the wall clock may be set like any other."""

import pytest

from holdfast.model.clock import Clock, ManualClock

pytestmark = pytest.mark.compiled


def both(clock: Clock) -> tuple[int, int]:
    return clock.wall_us(), clock.monotonic_us()


def test_time_stands_still_by_itself() -> None:
    clock = ManualClock(1_000, 5)

    assert both(clock) == (1_000, 5)
    assert both(clock) == (1_000, 5)


def test_both_clocks_advance_together() -> None:
    clock = ManualClock(1_000, 5)

    clock.advance(20)
    clock.advance(0)

    assert both(clock) == (1_020, 25)


@pytest.mark.parametrize("step_us", [-700, 700])
def test_setting_the_wall_clock_lets_no_time_pass(step_us: int) -> None:
    clock = ManualClock(1_000, 5)

    clock.step_wall(step_us)

    assert both(clock) == (1_000 + step_us, 5)


def test_time_does_not_run_backwards() -> None:
    clock = ManualClock(1_000, 5)

    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    assert both(clock) == (1_000, 5)


def test_a_new_clock_shows_a_time_that_cannot_be_mistaken_for_a_duration() -> None:
    wall_us, monotonic_us = both(ManualClock())

    assert wall_us > 10**15
    assert monotonic_us == 0
