"""`/metrics`."""

import re

from holdfast.console.live.alarms import NAMES
from holdfast.console.live.metrics_text import accepts_openmetrics, render_metrics
from holdfast.console.live.own_numbers import OwnNumbers, Seen
from holdfast.console.past.history_link import HistoryNumbers
from holdfast.console.web.app import ROUTES, TIMED_ROUTES
from holdfast.control.metrics import BROKER_METRICS, DURATION_BOUNDS, GAUGE, HISTOGRAM
from holdfast.control.words import Histogram, Stats
from tests.unit.console.fake_broker import NODE

_LABEL = r'\w+="(?:[^"\\\n]|\\.)*"'
_SAMPLE = re.compile(rf"holdfast_\w+(\{{{_LABEL}(,{_LABEL})*\}})? (\+Inf|NaN|-?[0-9.e+]+)")


def everything() -> Stats:
    numbers, labelled, histograms = {}, {}, {}
    for metric in BROKER_METRICS:
        if metric.kind == HISTOGRAM:
            histograms[metric.name] = Histogram((1,) * (len(metric.bounds) + 1), 0.5)
        elif metric.labels:
            labelled[metric.name] = {"a": 1.0, 'we"ird\\\n': 2.5}
        else:
            numbers[metric.name] = 3.0
    return Stats(0, numbers, labelled, histograms)


def own() -> Stats:
    numbers = OwnNumbers()
    numbers.answered("clients", 200, 0.003)
    numbers.answered("clients", 404, 0.3)
    numbers.answered("stream", 200, None)
    history = HistoryNumbers(2, {"process_cpu_seconds_total": 7.0})
    return numbers.frame(Seen(True, 0.5, {"disk_low"}, {"disk_low": 5.5, "poisoned": 7.0}, NODE, history))


def test_every_line_is_what_prometheus_reads() -> None:
    for openmetrics in (False, True):
        lines = render_metrics((everything(), own()), openmetrics=openmetrics).splitlines()
        for line in lines:
            assert line.startswith(("# HELP ", "# TYPE ")) or line == "# EOF" or _SAMPLE.fullmatch(line), line


def test_every_metric_of_the_table_is_there_once() -> None:
    text = render_metrics((everything(), own()), openmetrics=False)
    for metric in BROKER_METRICS:
        assert text.count(f"# TYPE holdfast_{metric.name} {metric.kind}\n") == 1


def test_openmetrics_names_counters_without_total_and_ends() -> None:
    text = render_metrics((everything(), own()), openmetrics=True)
    assert "# TYPE holdfast_commits counter\n" in text
    assert "\nholdfast_commits_total 3\n" in text
    assert text.endswith("# EOF\n")
    assert accepts_openmetrics("application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
    assert not accepts_openmetrics("*/*")


def test_buckets_add_up() -> None:
    text = render_metrics((everything(), own()), openmetrics=False)
    count = len(DURATION_BOUNDS) + 1
    assert f'holdfast_commit_seconds_bucket{{le="+Inf"}} {count}\n' in text
    assert 'holdfast_commit_seconds_bucket{le="0.0001"} 1\n' in text
    assert f"holdfast_commit_seconds_count {count}\n" in text


def test_labels_are_escaped() -> None:
    assert 'holdfast_connections{listener="we\\"ird\\\\\\n"} 2.5\n' in render_metrics(
        (everything(), own()), openmetrics=False
    )


def test_what_was_not_reported_is_left_out() -> None:
    text = render_metrics((None, own()), openmetrics=False)
    assert "holdfast_up 1" in text
    assert 'holdfast_build_info{version="1.2.3",compiled="true"} 1\n' in text
    assert 'holdfast_alarm_active{alarm="disk_low"} 1\n' in text
    assert 'holdfast_alarm_last_raised_timestamp_seconds{alarm="poisoned"} 7\n' in text
    assert "holdfast_connections" not in text
    assert GAUGE in text


def test_requests_are_told_apart_by_route_and_status_code() -> None:
    text = render_metrics((None, own()), openmetrics=False)
    assert 'holdfast_console_requests_total{route="clients",code="200"} 1\n' in text
    assert 'holdfast_console_requests_total{route="clients",code="404"} 1\n' in text
    assert 'holdfast_console_requests_total{route="stream",code="200"} 1\n' in text
    assert 'holdfast_console_request_seconds_bucket{route="clients",le="0.005"} 1\n' in text
    assert 'holdfast_console_request_seconds_bucket{route="clients",le="+Inf"} 2\n' in text
    assert 'holdfast_console_request_seconds_sum{route="clients"} 0.303\n' in text
    assert 'holdfast_console_request_seconds_count{route="clients"} 2\n' in text
    assert 'request_seconds_count{route="stream"}' not in text


def test_a_number_of_several_processes_has_them_all_below_one_type() -> None:
    broker = Stats(0, {}, {"process_cpu_seconds_total": {"broker": 5.0}}, {})
    text = render_metrics((broker, own()), openmetrics=False)
    name = "holdfast_process_cpu_seconds_total"
    found = [line for line in text.splitlines() if line.startswith(name)]
    assert found[:2] == [f'{name}{{process="broker"}} 5', f'{name}{{process="history"}} 7']
    assert found[2].startswith(f'{name}{{process="console"}} ')
    assert text.count(f"# TYPE {name} ") == 1
    assert "holdfast_history_readers_busy 2\n" in text


def test_it_stays_small_and_has_few_series_whatever_was_asked_for() -> None:
    numbers = OwnNumbers()
    for route in sorted(ROUTES):
        for code in (200, 404):
            numbers.answered(route, code, 0.1 if route in TIMED_ROUTES else None)
    text = render_metrics(
        (everything(), numbers.frame(Seen(True, 0.5, NAMES, dict.fromkeys(NAMES, 1.7e9), NODE))), openmetrics=False
    )
    assert len(text) < 100_000
    assert len([line for line in text.splitlines() if not line.startswith("#")]) < 500
