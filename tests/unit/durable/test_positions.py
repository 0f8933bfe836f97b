"""Positions: strictly increasing, whatever the clock does and whatever a crash takes away."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.durable.positions import (
    CEILING_STEP_US,
    MAX_LEAP_US,
    ShardClock,
    TrustedTime,
    generation_start,
)
from holdfast.model.errors import MisuseError

pytestmark = pytest.mark.compiled

T = 1_700_000_000_000_000
SECOND_US = 1_000_000


@given(st.lists(st.integers(0, 2 * T), min_size=1, max_size=50))
def test_positions_increase_strictly_whatever_the_clock_says(times: list[int]) -> None:
    """L14"""
    clock = ShardClock(0, 0)
    given_out = [clock.next(now_us) for now_us in times]

    assert all(later > earlier for earlier, later in pairwise(given_out))
    assert all(position >= now_us for position, now_us in zip(given_out, times, strict=True))


def test_a_position_is_the_time_as_long_as_time_goes_on() -> None:
    """L14: and one more than the last where it does not."""
    clock = ShardClock(0, 0)

    assert [clock.next(now_us) for now_us in (T, T + 5, T + 5, T, T + 7)] == [T, T + 5, T + 6, T + 7, T + 8]


def test_a_clock_goes_on_above_the_ceiling_and_above_the_log() -> None:
    """Q9: also if the log was emptied, and if the time is far behind."""
    assert ShardClock(T, 0).next(5) == T + 1
    assert ShardClock(T, T + 9).next(5) == T + 10
    assert ShardClock(T, 0).next(2 * T) == 2 * T


def test_a_new_ceiling_is_wanted_in_good_time_and_lies_ten_seconds_ahead() -> None:
    clock = ShardClock(0, 0)

    assert clock.wanted_ceiling(T) == T + CEILING_STEP_US
    assert clock.needs_ceiling(clock.next(T))

    clock.raise_ceiling(T + CEILING_STEP_US)

    assert not clock.needs_ceiling(T + CEILING_STEP_US)
    assert clock.needs_ceiling(T + CEILING_STEP_US + 1)
    assert clock.wanted_ceiling(T + 5 * SECOND_US) == 0
    assert clock.wanted_ceiling(T + 5 * SECOND_US + 1) == T + 15 * SECOND_US + 1


def test_a_ceiling_is_never_lowered() -> None:
    clock = ShardClock(T, 0)
    clock.raise_ceiling(T - 1)

    assert clock.ceiling_us == T


def test_a_generation_begins_above_everything_given_out_and_nothing_is_below_from_then_on() -> None:
    clocks = [ShardClock(0, 0), ShardClock(0, T + 50)]
    clocks[0].next(T)

    start_us = generation_start(clocks, T + 10)

    assert start_us == T + 51
    for clock in clocks:
        clock.raise_floor(start_us)
    assert [clock.next(T + 11) for clock in clocks] == [T + 51, T + 51]
    assert [clock.next(T + 99) for clock in clocks] == [T + 99, T + 99]


def test_a_generation_cannot_begin_below_what_was_given_out() -> None:
    with pytest.raises(MisuseError, match="cannot begin"):
        ShardClock(T, 0).raise_floor(T)


class PowerLoss(RuleBasedStateMachine):
    """Q9: no position is seen twice or goes down, after power loss and after retention emptied the shard.

    One shard on a machine that can lose everything that is not synced. A batch takes positions and is written. Its
    readers see them when it is synced; if the zone's durability is `os` or `memory`, at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_us = T
        self.clock = ShardClock(0, 0)
        self.waits = True
        self.synced_ceiling_us = 0
        self.synced_tail_us = 0
        self.written_ceiling_us = 0
        self.unsynced: list[int] = []
        self.seen: list[int] = []

    @initialize(waits=st.booleans())
    def configure(self, waits: bool) -> None:
        self.waits = waits

    @rule(step_us=st.integers(-(10**12), 10**12) | st.integers(-3, 3) | st.integers(0, 20 * SECOND_US))
    def the_clock_moves(self, step_us: int) -> None:
        self.now_us = max(1, self.now_us + step_us)

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        for _index in range(count):
            self.written_ceiling_us = max(self.written_ceiling_us, self.clock.wanted_ceiling(self.now_us))
            if not self.waits and self.clock.needs_ceiling(self.clock.earliest(self.now_us)):
                self.sync()
            position_us = self.clock.next(self.now_us)
            self.unsynced.append(position_us)
            if not self.waits:
                self.seen.append(position_us)

    @rule()
    def sync(self) -> None:
        self.synced_ceiling_us = max(self.synced_ceiling_us, self.written_ceiling_us)
        self.clock.raise_ceiling(self.synced_ceiling_us)
        if self.unsynced:
            self.synced_tail_us = self.unsynced[-1]
        if self.waits:
            self.seen += self.unsynced
        self.unsynced = []

    @rule()
    def retention_empties_the_shard(self) -> None:
        if not self.unsynced:
            self.synced_tail_us = 0

    @rule()
    def a_generation_begins(self) -> None:
        self.clock.raise_floor(generation_start([self.clock], self.now_us))

    @rule(waits=st.booleans())
    def the_power_fails(self, waits: bool) -> None:
        """The zone may have another durability afterwards."""
        self.unsynced = []
        self.written_ceiling_us = 0
        self.waits = waits
        self.clock = ShardClock(self.synced_ceiling_us, self.synced_tail_us)

    @rule()
    def the_process_is_killed(self) -> None:
        """What was written is there: the operating system has it."""
        self.sync()
        self.clock = ShardClock(self.synced_ceiling_us, self.synced_tail_us)

    @invariant()
    def what_was_seen_only_increases(self) -> None:
        assert all(later > earlier for earlier, later in pairwise(self.seen))

    @invariant()
    def the_next_is_above_everything_seen(self) -> None:
        assert not self.seen or self.clock.earliest(self.now_us) > self.seen[-1]


TestPowerLoss = PowerLoss.TestCase
TestPowerLoss.settings = settings(stateful_step_count=25)


def test_small_steps_and_every_step_back_are_followed() -> None:
    time = TrustedTime(T, 0)

    assert time.now_us(T + 5, 5) == T + 5
    assert time.now_us(T + MAX_LEAP_US, 10) == T + MAX_LEAP_US
    assert time.now_us(T - 10**12, 20) == T - 10**12
    assert time.leap_us == 0


def test_a_long_silence_is_no_leap() -> None:
    time = TrustedTime(T, 0)

    assert time.now_us(T + 10**12, 10**12) == T + 10**12
    assert time.leap_us == 0


def test_a_leap_ahead_raises_the_alarm_and_is_not_followed() -> None:
    time = TrustedTime(T, 0)
    leap_us = MAX_LEAP_US + 1

    assert time.now_us(T + leap_us + 7, 7) == T + 7
    assert time.leap_us == leap_us
    assert time.now_us(T + leap_us + 9, 9) == T + 9


def test_a_leap_is_followed_once_it_is_confirmed() -> None:
    time = TrustedTime(T, 0)
    time.now_us(T + 10**12, 1)
    time.confirm()

    assert time.leap_us == 0
    assert time.now_us(T + 10**12 + 1, 2) == T + 10**12 + 1
    assert time.leap_us == 0


def test_the_alarm_ends_when_the_clock_comes_back() -> None:
    time = TrustedTime(T, 0)
    time.now_us(T + 10**12, 1)

    assert time.now_us(T + 2, 2) == T + 2
    assert time.leap_us == 0


def test_a_clock_set_back_and_then_right_again_has_not_leapt() -> None:
    time = TrustedTime(T, 0)
    time.now_us(T - 10**12, 1)

    assert time.now_us(T + 2, 2) == T + 2
    assert time.leap_us == 0


def test_confirming_a_clock_that_runs_behind_changes_nothing() -> None:
    time = TrustedTime(T, 0)
    time.now_us(T - 10**12, 1)
    time.confirm()

    assert time.now_us(T + 2, 2) == T + 2
    assert time.leap_us == 0
