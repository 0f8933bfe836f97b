"""The table of metrics: names that Prometheus takes, each once, and few enough series."""

import re

import pytest

from holdfast.control.metrics import (
    BROKER_METRICS,
    CONSOLE_METRICS,
    COUNTER,
    HISTOGRAM,
    METRICS,
    Metric,
    label_key,
    label_values,
)

ALL = (*BROKER_METRICS, *CONSOLE_METRICS)


def test_each_name_stands_for_one_metric() -> None:
    assert len(METRICS) == len(ALL)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_metric_is_one_that_prometheus_takes(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
    assert metric.help.endswith(".")


def test_keys_of_several_labels_come_apart_again() -> None:
    requests = METRICS["console_requests_total"]
    assert label_values(requests, label_key("clients", "200")) == ["clients", "200"]
    assert label_values(METRICS["connections"], label_key("a,b")) == ["a,b"]


@pytest.mark.parametrize("metric", [one for one in ALL if one.kind == HISTOGRAM], ids=lambda metric: metric.name)
def test_bounds_of_a_histogram_grow(metric: Metric) -> None:
    assert metric.bounds
    assert list(metric.bounds) == sorted(set(metric.bounds))
