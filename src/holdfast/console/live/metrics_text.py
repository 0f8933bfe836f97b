"""`/metrics`: the broker's numbers and the console's own, as Prometheus text or as OpenMetrics.

    Prometheus     # TYPE holdfast_commits_total counter      holdfast_commits_total 5
    OpenMetrics    # TYPE holdfast_commits counter            holdfast_commits_total 5        … # EOF

Names, kinds and help are those of `control.metrics`. A number that was not reported is left out, never shown as 0.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.control.metrics import HISTOGRAM, METRICS, Metric, label_values
from holdfast.control.words import Histogram, Stats

PROMETHEUS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PREFIX: Final = "holdfast_"
_NOTHING: Final[Mapping[str, Any]] = {}


def render_metrics(frames: tuple[Stats | None, Stats], *, openmetrics: bool) -> str:
    """All metrics of the broker's frame, if there is one, and of the console's."""
    lines: list[str] = []
    for metric in METRICS.values():
        samples = [sample for frame in frames if frame is not None for sample in _samples(metric, frame)]
        if samples:
            family = _PREFIX + (metric.name.removesuffix("_total") if openmetrics else metric.name)
            lines += [f"# HELP {family} {_escape_help(metric.help)}", f"# TYPE {family} {metric.kind}", *samples]
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def accepts_openmetrics(accept: str) -> bool:
    """Whether a client asks for OpenMetrics."""
    return "application/openmetrics-text" in accept


def _samples(metric: Metric, stats: Stats) -> Iterator[str]:
    name = _PREFIX + metric.name
    if metric.kind == HISTOGRAM:
        histogram = stats.histograms.get(metric.name)
        if histogram is not None:
            yield from _histogram_samples(name, metric, histogram, "")
        for key, histogram in stats.labelled_histograms.get(metric.name, _NOTHING).items():
            yield from _histogram_samples(name, metric, histogram, _labels(metric, key))
    elif metric.labels:
        for key, value in stats.labelled.get(metric.name, _NOTHING).items():
            yield f"{name}{{{_labels(metric, key)}}} {_number(value)}"
    elif metric.name in stats.numbers:
        yield f"{name} {_number(stats.numbers[metric.name])}"


def _labels(metric: Metric, key: str) -> str:
    values = zip(metric.labels, label_values(metric, key), strict=True)
    return ",".join(f'{label}="{_escape(value)}"' for label, value in values)


def _histogram_samples(name: str, metric: Metric, histogram: Histogram, labels: str) -> Iterator[str]:
    before, alone = (f"{labels},", f"{{{labels}}}") if labels else ("", "")
    seen = 0
    for bound, count in zip((*metric.bounds, math.inf), histogram.counts, strict=False):
        seen += count
        yield f'{name}_bucket{{{before}le="{_number(bound)}"}} {seen}'
    yield f"{name}_sum{alone} {_number(histogram.sum)}"
    yield f"{name}_count{alone} {seen}"


def _number(value: float) -> str:
    """As Prometheus reads it; whole numbers without exponent."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return repr(float(value)) if value != int(value) or abs(value) >= 1e15 else str(int(value))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
