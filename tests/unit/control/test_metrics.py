"""The table of metrics: names that Prometheus takes, each once, and few enough series."""

import re

import pytest

from holdfast.control.metrics import BROKER_METRICS, CONSOLE_METRICS, COUNTER, HISTOGRAM, METRICS, Metric

ALL = (*BROKER_METRICS, *CONSOLE_METRICS)


def test_each_name_stands_for_one_metric() -> None:
    assert len(METRICS) == len(ALL)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_metric_is_one_that_prometheus_takes(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert not metric.label or re.fullmatch(r"[a-z]+", metric.label)
    assert metric.help.endswith(".")


@pytest.mark.parametrize("metric", [one for one in ALL if one.kind == HISTOGRAM], ids=lambda metric: metric.name)
def test_bounds_of_a_histogram_grow(metric: Metric) -> None:
    assert metric.bounds
    assert list(metric.bounds) == sorted(set(metric.bounds))
