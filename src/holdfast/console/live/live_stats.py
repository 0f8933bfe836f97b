"""The broker's last numbers, with their age and their rates. An old frame is kept and shown as old, never as empty."""

from collections import deque
from typing import Final, NamedTuple

import msgspec

from holdfast.control.metrics import BROKER_METRICS, COUNTER, METRICS
from holdfast.control.words import Histogram, Stats
from holdfast.model.time import SECOND_US

#: Rates are taken over this time.
RATE_US: Final = 5 * SECOND_US
_LABELLED_COUNTERS: Final = tuple(metric.name for metric in BROKER_METRICS if metric.kind == COUNTER and metric.labels)
#: A frame that is older than this is no sign of life.
FRESH_S: Final = 5.0


class _Frame(NamedTuple):
    stats: Stats
    came_s: float


class LiveStats:
    """Takes a frame a second and keeps those of the last seconds."""

    def __init__(self) -> None:
        self._frames: Final[deque[_Frame]] = deque()

    def take(self, stats: Stats, now_s: float) -> None:
        """A new frame. One from a broker that was started again begins new series."""
        frames = self._frames
        if frames and (stats.at_us < frames[-1].stats.at_us or _started(stats) != _started(frames[-1].stats)):
            frames.clear()
        frames.append(_Frame(stats, now_s))
        while len(frames) > 2 and stats.at_us - frames[1].stats.at_us >= RATE_US:
            frames.popleft()

    @property
    def last(self) -> Stats | None:
        """The newest frame; None if none ever came."""
        return self._frames[-1].stats if self._frames else None

    @property
    def previous(self) -> Stats | None:
        """The frame before the newest, of the same run of the broker."""
        return self._frames[-2].stats if len(self._frames) > 1 else None

    def age_s(self, now_s: float) -> float | None:
        """Seconds since the newest frame came; None if none ever came."""
        return max(0.0, now_s - self._frames[-1].came_s) if self._frames else None

    def is_fresh(self, now_s: float) -> bool:
        """Whether the broker has shown a sign of life lately."""
        age_s = self.age_s(now_s)
        return age_s is not None and age_s <= FRESH_S

    def rates(self) -> dict[str, float]:
        """Counters per second, over the last seconds; those with a label added up."""
        if len(self._frames) < 2:
            return {}
        first, last = self._frames[0].stats, self._frames[-1].stats
        return counter_rates(first, last)

    def quantile(self, name: str, share: float) -> float | None:
        """A quantile of a histogram over the last seconds; None if nothing happened or it is not known."""
        if len(self._frames) < 2:
            return None
        first, last = self._frames[0].stats.histograms.get(name), self._frames[-1].stats.histograms.get(name)
        return None if last is None else quantile_between(first, last, METRICS[name].bounds, share)

    def shown(self, now_s: float) -> dict[str, object]:
        """What `GET stats` answers; `as_of_us` and `age_s` are None if no frame ever came."""
        age_s = self.age_s(now_s)
        if not self._frames:
            return {"as_of_us": None, "age_s": None, "numbers": {}, "labelled": {}, "histograms": {}, "rates": {}}
        last = self._frames[-1].stats
        return {
            "as_of_us": last.at_us,
            "age_s": age_s,
            "state": last.state,
            "detail": last.detail,
            "numbers": last.numbers,
            "labelled": last.labelled,
            "histograms": {name: _shown(name, histogram) for name, histogram in last.histograms.items()},
            "rates": self.rates(),
        }


def counter_rates(first: Stats, last: Stats) -> dict[str, float]:
    """Counters per second between two frames; those with a label added up. Empty if no time has passed.

    What has a label counts for itself: a process that ended takes nothing off the others.
    """
    elapsed_s = (last.at_us - first.at_us) / SECOND_US
    if elapsed_s <= 0:
        return {}
    before, now = first.numbers, last.numbers
    counted = {name: _increase(before.get(name, 0.0), value) for name, value in now.items() if _is_counter(name)}
    # A counter without a label's value has counted nothing yet: the broker sends values that there are.
    for name in _LABELLED_COUNTERS:
        earlier, later = first.labelled.get(name, {}), last.labelled.get(name, {})
        counted[name] = sum(_increase(earlier.get(label, 0.0), value) for label, value in later.items())
    return {name: count / elapsed_s for name, count in counted.items()}


def quantile_between(first: Histogram | None, last: Histogram, bounds: tuple[float, ...], share: float) -> float | None:
    """The bound that `share` of what happened between two frames does not exceed; None if nothing happened.

    It is the upper bound of a bucket, so the truth is at most that; above the last bound it is the last one.
    """
    earlier = first.counts if first is not None and len(first.counts) == len(last.counts) else (0,) * len(last.counts)
    counts = [now - then for now, then in zip(last.counts, earlier, strict=True)]
    total = sum(counts)
    if total <= 0 or not bounds:
        return None
    seen = 0
    for bound, count in zip((*bounds, bounds[-1]), counts, strict=False):
        seen += count
        if seen >= share * total:
            return bound
    return bounds[-1]


def _started(stats: Stats) -> float:
    return stats.numbers.get("start_time_seconds", 0.0)


def _increase(before: float, now: float) -> float:
    return max(0.0, now - before)


def _is_counter(name: str) -> bool:
    metric = METRICS.get(name)
    return metric is not None and metric.kind == COUNTER


def _shown(name: str, histogram: Histogram) -> dict[str, object]:
    metric = METRICS.get(name)
    return {"bounds_s": () if metric is None else metric.bounds, **msgspec.structs.asdict(histogram)}
