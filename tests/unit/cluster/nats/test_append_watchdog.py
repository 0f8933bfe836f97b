"""When a leader that answers no append is asked to step down."""

from holdfast.cluster.nats.append_watchdog import AppendWatchdog
from holdfast.model.clock import ManualClock

S = 1_000_000


def unanswered(watchdog: AppendWatchdog, clock: ManualClock, after_s: int) -> bool:
    """An append that began now, and has no answer after some seconds."""
    began_us = clock.monotonic_us()
    clock.advance(after_s * S)
    return watchdog.unanswered(began_us)


def test_a_leader_is_asked_after_thirty_seconds_without_an_answer() -> None:
    clock = ManualClock()
    watchdog = AppendWatchdog(clock)
    assert not unanswered(watchdog, clock, 29)
    assert unanswered(watchdog, clock, 1)


def test_one_answer_begins_the_count_again() -> None:
    clock = ManualClock()
    watchdog = AppendWatchdog(clock)
    assert not unanswered(watchdog, clock, 29)
    watchdog.answered()
    assert not unanswered(watchdog, clock, 29)
    assert unanswered(watchdog, clock, 1)


def test_a_leader_is_asked_once_a_minute_at_most() -> None:
    clock = ManualClock()
    watchdog = AppendWatchdog(clock)
    assert unanswered(watchdog, clock, 30)
    assert not unanswered(watchdog, clock, 59)
    assert unanswered(watchdog, clock, 1)


def test_the_pause_between_two_requests_outlives_an_answer() -> None:
    clock = ManualClock()
    watchdog = AppendWatchdog(clock)
    assert unanswered(watchdog, clock, 30)
    watchdog.answered()
    assert not unanswered(watchdog, clock, 31)
