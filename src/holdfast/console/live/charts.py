"""What charts show, kept on disk: the last hour by seconds, the last day by 10 s, the last week by minutes.

    frame a second ─▶ row ─▶ seconds.ring ─ mean of 10 s ─▶ tens.ring ─ mean of 60 s ─▶ minutes.ring

1. Counters are kept as rates per second, gauges as they are, histograms as quantiles of the second (`…_p50`, `…_p99`).
   Values with a label are added up.
2. Time in which no frame came is a gap, and stays one: nothing is drawn between the last frame of a stopped broker and
   the first of the next. A frame that is a little late leaves none: it counts for the seconds that it has skipped.
3. The files have a fixed size, about 5 MB together (`ring_file`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from holdfast.console.live.live_stats import counter_rates, quantile_between
from holdfast.console.live.ring_file import RingFile, Row
from holdfast.control.metrics import BROKER_METRICS, COUNTER, HISTOGRAM, METRICS
from holdfast.control.words import Stats
from holdfast.model.time import SECOND_US

_QUANTILES: Final = {"_p50": 0.5, "_p99": 0.99}


def _names() -> tuple[str, ...]:
    names: list[str] = []
    for metric in BROKER_METRICS:
        if metric.kind == HISTOGRAM:
            names += [metric.name + suffix for suffix in _QUANTILES]
        else:
            names.append(metric.name)
    return tuple(names)


#: The names of all series, in the order of their columns.
SERIES: Final = _names()

#: Seconds from one frame to the next that are no gap. Frames come once a second, at best.
LATE_S: Final = 3
#: File, seconds of a step, steps kept.
_RINGS: Final = (("seconds.ring", 1, 3600), ("tens.ring", 10, 8640), ("minutes.ring", 60, 10080))


class Charts:
    """The series of a broker. `folder` must exist."""

    def __init__(self, folder: Path) -> None:
        """OSError if the files cannot be opened or made."""
        self._rings: Final = [RingFile(folder / name, step_s, slots, SERIES) for name, step_s, slots in _RINGS]
        #: For each ring behind the first: the step that is gathered, and its rows so far.
        self._gathered: Final[list[tuple[int, list[Row]]]] = [(0, []) for _ring in self._rings[1:]]

    def take(self, stats: Stats, previous: Stats | None) -> None:
        """The row of a frame. OSError if it cannot be written."""
        at_s = stats.at_us // SECOND_US
        row = make_row(stats, previous)
        self._rings[0].write(at_s, row)
        if previous is not None and 1 < at_s - previous.at_us // SECOND_US <= LATE_S:
            for skipped_s in range(previous.at_us // SECOND_US + 1, at_s):
                self._rings[0].write(skipped_s, row)
        for index, ring in enumerate(self._rings[1:]):
            number, rows = self._gathered[index]
            if at_s // ring.step_s != number:
                number, rows = at_s // ring.step_s, []
                self._gathered[index] = (number, rows)
            rows.append(row)
            # Written with every frame, so that a process that is killed loses nothing.
            ring.write(number, _mean(rows))

    def read(self, names: Sequence[str], from_us: int, to_us: int, now_us: int) -> dict[str, object]:
        """Series between two times, by the finest ring that reaches back far enough from now.

        Requires: each name is one of SERIES, and `from_us` is not behind `to_us`. What the longest ring does not reach
        is left out: `from_us` of the answer says where it begins.
        """
        from_s, now_s = from_us // SECOND_US, now_us // SECOND_US
        reaching = (ring for ring in self._rings if now_s - from_s < ring.step_s * ring.slots)
        ring = next(reaching, self._rings[-1])
        last = to_us // SECOND_US // ring.step_s
        first = max(from_s // ring.step_s, last - ring.slots + 1)
        rows = ring.read(first, last)
        columns = [SERIES.index(name) for name in names]
        values = [[None if row is None else row[column] for row in rows] for column in columns]
        return {
            "step_s": ring.step_s,
            "from_us": first * ring.step_s * SECOND_US,
            "names": list(names),
            "values": values,
        }

    def close(self) -> None:
        for ring in self._rings:
            ring.close()


def make_row(stats: Stats, previous: Stats | None) -> Row:
    """A value for each of SERIES. Without a previous frame, rates and quantiles are unknown."""
    rates = {} if previous is None else counter_rates(previous, stats)
    return tuple(_value(name, stats, previous, rates) for name in SERIES)


def _value(name: str, stats: Stats, previous: Stats | None, rates: dict[str, float]) -> float | None:
    metric = METRICS.get(name)
    if metric is None:
        return _quantile(name, stats, previous)
    if metric.kind == COUNTER:
        return rates.get(name)
    if metric.labels:
        values = stats.labelled.get(name)
        return None if values is None else float(sum(values.values()))
    return stats.numbers.get(name)


def _quantile(name: str, stats: Stats, previous: Stats | None) -> float | None:
    metric, suffix = METRICS[name[:-4]], name[-4:]
    now = stats.histograms.get(metric.name)
    if now is None or previous is None:
        return None
    return quantile_between(previous.histograms.get(metric.name), now, metric.bounds, _QUANTILES[suffix])


def _mean(rows: list[Row]) -> Row:
    """The mean of each column, unknown values left out; of a quantile the largest."""
    return tuple(_summary(name, column) for name, column in zip(SERIES, zip(*rows, strict=True), strict=True))


def _summary(name: str, column: tuple[float | None, ...]) -> float | None:
    known = [value for value in column if value is not None]
    if not known:
        return None
    return max(known) if name.endswith(tuple(_QUANTILES)) else sum(known) / len(known)
