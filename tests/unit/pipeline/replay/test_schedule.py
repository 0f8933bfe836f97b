"""When messages are due, their numbers, and rounds: rules that need neither a clock nor Spark."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.sessions.publish_numbers import MAX_NUMBER
from holdfast.model.errors import PermanentError
from holdfast.pipeline.replay.schedule import (
    ReplayRound,
    ReplaySchedule,
    ReplayStart,
    agree_on_start,
    bucket_width_us,
    cut_rounds,
    last_number_before,
    number_of,
    offset_of,
)

NOW_US = 1_794_800_000_000_000
POSITIONS = st.integers(0, 1 << 52)
SHARDS = st.integers(0, 2047)


@pytest.mark.parametrize(
    ("speed", "due"),
    [("1", [0, 1_000_000, 3_500_000]), ("10", [0, 100_000, 350_000]), ("0.5", [0, 2_000_000, 7_000_000])],
)
def test_distances_are_those_of_history_divided_by_the_speed(speed: str, due: list[int]) -> None:
    schedule = ReplaySchedule(ReplayStart(NOW_US, 5_000_000), Fraction(speed))

    assert [schedule.due_us(5_000_000 + at_us) - NOW_US for at_us in (0, 1_000_000, 3_500_000)] == due


@given(st.lists(POSITIONS, min_size=2, max_size=20), st.fractions(Fraction(1, 1000), 1000))
def test_nothing_overtakes_and_no_distance_is_off_by_more_than_a_microsecond(
    positions: list[int], speed: Fraction
) -> None:
    schedule = ReplaySchedule(ReplayStart(NOW_US, min(positions)), speed)

    for earlier, later in pairwise(sorted(positions)):
        distance = schedule.due_us(later) - schedule.due_us(earlier)
        assert distance >= 0
        assert abs(distance - (later - earlier) / speed) <= 1


def test_all_begin_when_the_last_is_ready_and_with_the_first_message_of_any() -> None:
    assert agree_on_start([(10, 500), (30, None), (20, 400)]) == ReplayStart(30, 400)
    assert agree_on_start([(10, None)]) == ReplayStart(10, 0)


@given(POSITIONS.filter(bool), SHARDS, POSITIONS.filter(bool), SHARDS)
def test_numbers_are_in_the_order_of_time_and_each_stands_for_one_message(
    one_us: int, one: int, other_us: int, other: int
) -> None:
    numbers = [number_of(min(one_us, 1 << 51), one), number_of(min(other_us, 1 << 51), other)]

    assert all(0 <= number <= MAX_NUMBER for number in numbers)
    assert (numbers[0] < numbers[1]) == ((min(one_us, 1 << 51), one) < (min(other_us, 1 << 51), other))
    assert offset_of(numbers[0]) == min(one_us, 1 << 51)
    assert (numbers[0] <= last_number_before(other_us)) == (min(one_us, 1 << 51) < other_us)


@pytest.mark.parametrize(("offset_us", "shard"), [(NOW_US, 2048), (1 << 52, 0)])
def test_a_place_without_a_number_is_refused(offset_us: int, shard: int) -> None:
    with pytest.raises(PermanentError, match="there is no number"):
        number_of(offset_us, shard)


@given(st.lists(st.integers(NOW_US, NOW_US + 10_000), min_size=1, max_size=200), st.integers(1, 50))
def test_every_message_is_in_one_round_and_rounds_touch(positions: list[int], most: int) -> None:
    width_us = bucket_width_us(min(positions), max(positions), len(positions), most)
    counts: dict[int, int] = {}
    for position in positions:
        counts[position // width_us] = counts.get(position // width_us, 0) + 1

    rounds = cut_rounds(counts, width_us, most)

    for one in rounds:
        assert one.messages == sum(one.lo_us <= position < one.hi_us for position in positions)
        # More than asked for only if it could not be cut.
        assert one.messages <= most or one.messages == max(counts.values()) or one.messages in counts.values()
    assert sum(one.messages for one in rounds) == len(positions)
    assert all(one.hi_us == after.lo_us for one, after in pairwise(rounds))


def test_rounds_are_filled_up() -> None:
    assert cut_rounds({7: 3, 8: 4, 20: 5, 21: 1}, 10, 7) == [ReplayRound(70, 90, 7), ReplayRound(90, 220, 6)]
