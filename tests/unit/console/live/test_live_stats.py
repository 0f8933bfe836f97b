"""The broker's last numbers."""

from msgspec.structs import replace

from holdfast.console.live.live_stats import LiveStats, quantile_between
from holdfast.control.words import Histogram
from tests.unit.console.stats_frames import frame


def test_nothing_is_shown_as_nothing_and_not_as_zero() -> None:
    live = LiveStats()
    assert live.shown(0)["as_of_us"] is None
    assert not live.is_fresh(0)


def test_an_old_frame_is_kept_with_its_age() -> None:
    live = LiveStats()
    live.take(frame(0, retained_messages=7), 100.0)
    shown = live.shown(160.0)
    assert shown["age_s"] == 60.0
    assert shown["numbers"] == {"start_time_seconds": 1.0, "retained_messages": 7}
    assert live.is_fresh(105.0)
    assert not live.is_fresh(105.1)


def test_rates_are_those_of_the_last_five_seconds() -> None:
    live = LiveStats()
    for second, total in enumerate((0, 1000, 1010, 1020, 1030, 1040, 1050)):
        live.take(frame(second, messages_received_total=total), second)
    assert live.rates()["messages_received_total"] == 10.0


def test_a_counter_whose_label_has_no_value_yet_has_counted_nothing() -> None:
    live = LiveStats()
    live.take(frame(0), 0)
    live.take(frame(1), 1)
    assert live.rates()["drops_total"] == 0.0


def test_a_process_that_ends_takes_nothing_off_the_rate_of_the_others() -> None:
    live = LiveStats()
    for second, seconds in enumerate(
        ({"broker": 10.0, "segments": 50.0}, {"broker": 10.5}, {"broker": 11.0, "x": 2.0})
    ):
        live.take(replace(frame(second), labelled={"process_cpu_seconds_total": seconds}), second)
    assert live.rates()["process_cpu_seconds_total"] == 1.5


def test_a_broker_that_was_started_again_has_no_negative_rate() -> None:
    live = LiveStats()
    live.take(frame(0, messages_received_total=1000), 0)
    live.take(frame(1, started=2, messages_received_total=5), 1)
    assert live.rates() == {}
    assert live.previous is None


def test_a_quantile_is_the_bound_that_is_not_exceeded() -> None:
    bounds = (1.0, 2.0, 4.0)
    assert quantile_between(None, Histogram((9, 0, 1, 0), 0), bounds, 0.5) == 1.0
    assert quantile_between(None, Histogram((9, 0, 1, 0), 0), bounds, 0.99) == 4.0
    assert quantile_between(None, Histogram((0, 0, 0, 3), 0), bounds, 0.5) == 4.0
    assert quantile_between(Histogram((9, 0, 0, 0), 0), Histogram((9, 1, 0, 0), 0), bounds, 0.5) == 2.0
    assert quantile_between(Histogram((9, 0, 0, 0), 0), Histogram((9, 0, 0, 0), 0), bounds, 0.5) is None
