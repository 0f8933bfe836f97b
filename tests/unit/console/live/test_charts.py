"""Charts on disk."""

from pathlib import Path

from holdfast.console.live.charts import LATE_S, SERIES, Charts
from holdfast.control.metrics import METRICS
from holdfast.control.words import Histogram
from holdfast.model.time import SECOND_US
from tests.unit.console.stats_frames import BEGIN_S, frame


def read(charts: Charts, name: str, from_s: int, to_s: int) -> tuple[int, list[float | None]]:
    now_us = (BEGIN_S + 20) * SECOND_US
    found = charts.read([name], (BEGIN_S + from_s) * SECOND_US, (BEGIN_S + to_s) * SECOND_US, now_us)
    values = found["values"]
    assert isinstance(values, list)
    assert isinstance(found["step_s"], int)
    return found["step_s"], values[0]


def test_counters_are_rates_and_a_stopped_broker_is_a_gap(tmp_path: Path) -> None:
    charts = Charts(tmp_path)
    before = frame(0, messages_received_total=100)
    charts.take(before, None)
    charts.take(frame(1, messages_received_total=150), before)
    charts.take(frame(4, messages_received_total=0, started=2), None)
    assert read(charts, "messages_received_total", 0, 4) == (1, [None, 50.0, None, None, None])
    assert read(charts, "start_time_seconds", 0, 4)[1] == [1.0, 1.0, None, None, 2.0]


def test_a_frame_that_is_a_little_late_leaves_no_gap_and_one_that_is_very_late_does(tmp_path: Path) -> None:
    charts = Charts(tmp_path)
    first, late, very_late = (frame(second, clients_behind=second) for second in (0, LATE_S, 2 * LATE_S + 1))
    charts.take(first, None)
    charts.take(late, first)
    charts.take(very_late, late)
    assert read(charts, "clients_behind", 0, LATE_S)[1] == [0.0, *[float(LATE_S)] * LATE_S]
    assert read(charts, "clients_behind", LATE_S + 1, 2 * LATE_S + 1)[1] == [*[None] * LATE_S, 2.0 * LATE_S + 1]


def test_longer_ranges_are_read_by_longer_steps(tmp_path: Path) -> None:
    charts = Charts(tmp_path)
    for second in range(20):
        charts.take(frame(second, clients_behind=second), None)
    assert read(charts, "clients_behind", 0, 19)[0] == 1
    step_s, values = read(charts, "clients_behind", -80_000, 10)
    assert (step_s, values[-2:]) == (10, [4.5, 14.5])
    step_s, values = read(charts, "clients_behind", -30 * 86_400, 0)
    assert (step_s, len(values), values[-1]) == (60, 10080, 9.5)


def test_a_short_range_long_ago_is_read_where_it_still_is(tmp_path: Path) -> None:
    charts = Charts(tmp_path)
    charts.take(frame(-7200, clients_behind=3), None)
    assert read(charts, "clients_behind", -7200, -7191) == (10, [3.0])


def test_quantiles_are_those_of_the_second(tmp_path: Path) -> None:
    bounds = METRICS["commit_seconds"].bounds
    counts = [0] * (len(bounds) + 1)
    counts[2] = 1000
    before = frame(0, histograms={"commit_seconds": Histogram(tuple(counts), 1.0)})
    counts[5] += 10
    charts = Charts(tmp_path)
    charts.take(frame(1, histograms={"commit_seconds": Histogram(tuple(counts), 2.0)}), before)
    value = read(charts, "commit_seconds_p50", 1, 1)[1][0]
    assert value is not None
    assert abs(value - bounds[5]) < 1e-6


def test_all_rings_together_stay_below_their_budget(tmp_path: Path) -> None:
    Charts(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 14_000_000


def test_every_number_of_the_broker_has_a_series() -> None:
    assert {"connections", "messages_received_total", "commit_seconds_p99", "drops_total"} <= set(SERIES)
