"""Paces of replays and of backlogs, by a clock that tests set."""

import pytest

from holdfast.durable.queues.client_queue import BacklogEnd
from holdfast.exchange.pace import MILLION, Drain, Pace

pytestmark = pytest.mark.compiled

SECOND_US = 1_000_000


@pytest.mark.parametrize(("speed", "factor"), [(MILLION, 1), (10 * MILLION, 10), (MILLION // 2, 0.5)])
def test_a_message_is_due_when_its_time_has_come_at_that_speed(speed: int, factor: float) -> None:
    pace = Pace(speed, 0)
    assert not pace.begun()
    pace.begin(100 * SECOND_US, 7)
    assert pace.begun()

    due_us = pace.due_us(110 * SECOND_US)

    assert due_us == 7 + int(10 / factor * SECOND_US)
    assert pace.at_us(due_us) == 110 * SECOND_US
    assert pace.at_us(7) == 100 * SECOND_US


def test_a_replay_reaches_the_present() -> None:
    pace = Pace(10 * MILLION, 0)
    pace.begin(0, 0)

    assert not pace.at_present(SECOND_US, 11 * SECOND_US)
    assert pace.at_present(SECOND_US, 10 * SECOND_US)


def test_a_backlog_goes_out_at_its_rate() -> None:
    drain = Drain(0, BacklogEnd({}, 9))
    assert drain.allowed(10, 0) == 1, "the first one may go at once"
    drain.take(1)
    assert drain.allowed(10, SECOND_US // 20) == 0
    assert drain.wait_us(10) == SECOND_US // 20
    assert drain.allowed(10, SECOND_US // 10) == 1


def test_no_more_goes_at_once_than_is_due_in_a_tenth_of_a_second() -> None:
    drain = Drain(0, BacklogEnd({}, 9))

    assert drain.allowed(1000, 60 * SECOND_US) == 100
    drain.take(100)
    assert drain.allowed(1000, 60 * SECOND_US) == 0
