"""How long a writer waits before its next record."""

import pytest

from holdfast.cluster.vnodes.append_pace import LONGEST_PAUSE_US, AppendPace

pytestmark = pytest.mark.compiled

MS = 1000
S = 1_000_000


def paced(*took_us: int, every_us: int = 10 * MS) -> AppendPace:
    pace = AppendPace()
    for number, one in enumerate(took_us):
        pace.answered(one, (number + 1) * every_us)
    return pace


def test_nothing_is_known_before_the_first_answer() -> None:
    assert AppendPace().pause_us() == 0


def test_a_log_that_answers_as_quickly_as_it_can_is_not_waited_for() -> None:
    assert paced(*[MS] * 50).pause_us() == 0
    assert paced(*[MS, MS + MS // 3] * 50).pause_us() == 0


def test_a_log_that_is_busy_is_left_more_time_the_longer_it_takes() -> None:
    slow = paced(MS, *[3 * MS] * 20).pause_us()
    slower = paced(MS, *[5 * MS] * 20).pause_us()
    assert 3 * MS < slow < slower <= LONGEST_PAUSE_US


def test_a_pause_is_bounded() -> None:
    assert paced(MS, *[9 * S] * 20).pause_us() == LONGEST_PAUSE_US


def test_one_late_answer_is_forgotten_within_some_more() -> None:
    assert paced(*[MS] * 10, 10 * MS).pause_us() > 0
    assert paced(*[MS] * 10, 10 * MS, *[MS] * 10).pause_us() == 0


def test_a_log_that_became_slow_for_good_is_measured_by_what_it_can_do_now() -> None:
    """A server moved to another site: the least time of half a minute ago is no measure."""
    assert paced(*[MS] * 10, *[5 * MS] * 100, every_us=S).pause_us() == 0
