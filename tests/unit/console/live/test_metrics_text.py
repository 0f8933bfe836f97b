"""`/metrics`."""

import re

from holdfast.console.live.metrics_text import accepts_openmetrics, render_metrics
from holdfast.console.live.own_numbers import OwnNumbers
from holdfast.control.metrics import BROKER_METRICS, DURATION_BOUNDS, GAUGE, HISTOGRAM
from holdfast.control.words import Histogram, Stats

_SAMPLE = re.compile(r'holdfast_\w+(\{\w+="([^"\\\n]|\\.)*"\})? (\+Inf|NaN|-?[0-9.e+]+)')


def everything() -> Stats:
    numbers, labelled, histograms = {}, {}, {}
    for metric in BROKER_METRICS:
        if metric.kind == HISTOGRAM:
            histograms[metric.name] = Histogram((1,) * (len(metric.bounds) + 1), 0.5)
        elif metric.label:
            labelled[metric.name] = {"a": 1.0, 'we"ird\\\n': 2.5}
        else:
            numbers[metric.name] = 3.0
    return Stats(0, numbers, labelled, histograms)


def own() -> Stats:
    numbers = OwnNumbers()
    numbers.answered(200, 0.003)
    return numbers.frame("1.2", 0.5, {"disk_low": 1.0}, is_up=True)


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
    assert 'holdfast_build_info{version="1.2"} 1' in text
    assert "holdfast_connections" not in text
    assert GAUGE in text


def test_it_stays_small() -> None:
    assert len(render_metrics((everything(), own()), openmetrics=False)) < 100_000
