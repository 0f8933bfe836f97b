"""Rule 4: record time follows clocks that agree, and no clock alone."""

import pytest

from holdfast.durable.state_machine.record_time import advance_clock
from holdfast.records.cluster.rows import ClockRow
from tests.unit.durable.state_machine.vnode import S, T

pytestmark = pytest.mark.compiled

YEARS = 10 * 365 * 24 * 3600 * S
MINUTES = 600 * S


def clock(time_us: int = T, *, stamp_us: int = T, node: int = 1, claimed_us: int = T, other_us: int = T) -> ClockRow:
    return ClockRow(time_us, stamp_us, node, claimed_us, other_us, 0)


def times(*records: tuple[int, int, int]) -> list[int]:
    """Record times of (node, stamp, writer's time), behind one record at T of node 1 and one of node 2."""
    row = advance_clock(advance_clock(None, 1, T, T), 2, T, T)
    found: list[int] = []
    for node, stamp_us, writer_us in records:
        row = advance_clock(row, node, stamp_us, writer_us)
        found.append(row.time_us)
    return found


def test_the_first_record_sets_the_time() -> None:
    assert advance_clock(None, 1, T, T - 5).time_us == T - 5
    assert advance_clock(None, 1, T, -7).time_us == 1


def test_a_record_claims_the_lesser_of_stamp_and_writers_time() -> None:
    assert times((1, T + 9, T + 5)) == [T + 5]
    assert times((1, T + 5, T + 9)) == [T + 5]


def test_time_never_goes_back() -> None:
    assert times((1, T + 9, T + 9), (2, T - MINUTES, T + 9), (2, T + 20, T + 1)) == [T + 9, T + 9, T + 9]


def test_a_step_of_30_s_is_followed() -> None:
    assert times((1, T + 30 * S, T + 30 * S)) == [T + 30 * S]


def test_a_writer_whose_clock_is_ahead_is_held_by_the_stamps() -> None:
    """A12: alone."""
    assert times((1, T + S, T + YEARS)) == [T + S]


def test_a_server_whose_clock_is_ahead_is_held_by_the_writers() -> None:
    """A12: alone."""
    assert times((1, T + YEARS, T + S), (2, T + YEARS + S, T + 2 * S)) == [T + S, T + 2 * S]


@pytest.mark.parametrize("off_us", [MINUTES, YEARS])
def test_a_writer_and_a_server_that_are_ahead_together_gain_30_s_once(off_us: int) -> None:
    """A12: writer and server share one wrong clock; the other nodes' claims hold the time."""
    ahead = [(1, T + off_us + number * S, T + off_us + number * S) for number in range(5)]
    honest = [(2, T + off_us + number * S, T + number * S) for number in range(5)]
    mixed = [record for pair in zip(ahead, honest, strict=True) for record in pair]
    found = times(*mixed)
    assert found == sorted(found)
    assert found[0] == T + 30 * S
    assert found[-1] == T + 34 * S


def test_without_other_records_time_goes_on_by_the_stamps() -> None:
    """A12: the other nodes are away, and time still goes on at its pace."""
    ahead = T + YEARS
    assert times((1, ahead, ahead), (1, ahead + 7 * S, ahead + 7 * S)) == [T + 30 * S, T + 37 * S]


def test_a_pause_that_another_node_confirms_is_followed() -> None:
    """All logs stood still for an hour: the first record gains 30 s, the second has the present."""
    hour = T + 3600 * S
    assert times((1, hour, hour), (2, hour + S, hour + S)) == [T + 30 * S, hour]


def test_a_leap_is_followed_only_as_far_as_the_other_node_claims_it() -> None:
    row = clock(node=2, claimed_us=T + 100 * S)
    assert advance_clock(row, 1, T + MINUTES, T + MINUTES).time_us == T + 100 * S
    assert advance_clock(row, 2, T + MINUTES, T + MINUTES).time_us == T + 30 * S


def test_a_node_does_not_confirm_itself() -> None:
    """The newest record of another node counts, however many the writer has put between."""
    late = T + MINUTES
    assert times((1, late, late), (1, late, late), (1, late, late)) == [T + 30 * S] * 3


@pytest.mark.parametrize("off_us", [MINUTES, YEARS])
def test_time_goes_on_while_the_only_writer_has_a_slow_clock(off_us: int) -> None:
    """A12: it would jump when another node writes again, and end what began meanwhile."""
    slow = [(1, T + second * S, T + second * S - off_us) for second in (5, 10, 15)]
    assert times(*slow, (2, T + 340 * S, T + 340 * S - off_us)) == [T + 5 * S, T + 10 * S, T + 15 * S, T + 45 * S]


@pytest.mark.parametrize("off_us", [MINUTES, YEARS])
def test_time_goes_on_while_the_stamps_are_slow(off_us: int) -> None:
    """A12: the change of the stream's leader itself moves nothing, there and back."""
    slow = [(1, T + second * S - off_us, T + second * S) for second in (0, 5, 10)]
    assert times(*slow, (1, T + 12 * S, T + 12 * S)) == [T, T + 5 * S, T + 10 * S, T + 12 * S]


def test_stamps_that_come_back_carry_a_slow_writer_to_the_present_and_no_further() -> None:
    """A12: a leap of the stamps is no time that has passed."""
    assert times((1, T - MINUTES, T - MINUTES), (1, T + 20, T - MINUTES)) == [T, T + 20]


def test_time_stands_still_for_30_s_at_most() -> None:
    """Clocks of nodes that are ready differ by less."""
    behind = [(1, T + second * S, T + (second - 30) * S) for second in (0, 10, 20, 30, 31)]
    assert times(*behind) == [T, T, T, T, T + S]


def test_stamps_that_go_back_move_nothing() -> None:
    row = clock(stamp_us=T + MINUTES)
    assert advance_clock(row, 1, T + 60 * S, T + 60 * S).time_us == T
