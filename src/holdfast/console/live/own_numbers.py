"""The console's own numbers: requests, times, processor and memory; and those of the history process."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.console.past.history_link import HistoryNumbers
from holdfast.control.metrics import METRICS, label_key
from holdfast.control.words import Histogram, NodeInfo, Stats
from holdfast.files.process_numbers import process_numbers
from holdfast.model.histogram import HistogramCounts

_BOUNDS: Final = METRICS["console_request_seconds"].bounds


@dataclass(frozen=True)
class Seen:
    """What the console sees of others at one moment."""

    is_up: bool
    #: Seconds since the broker's last frame; None if none ever came.
    age_s: float | None
    #: The names of active alarms.
    alarms: Collection[str] = ()
    #: When each alarm was last raised, in seconds since 1970.
    raised_s: Mapping[str, float] = field(default_factory=dict)
    #: What the broker said of itself last.
    node: NodeInfo | None = None
    #: None while the history process does not run.
    history: HistoryNumbers | None = None


class OwnNumbers:
    """Counts what the console answers."""

    def __init__(self) -> None:
        self._by_route_and_code: Final[dict[str, float]] = {}
        self._times: Final[dict[str, HistogramCounts]] = {}

    def answered(self, route: str, code: int, seconds: float | None) -> None:
        """A request was answered. An event stream has no duration (None)."""
        key = label_key(route, str(code))
        self._by_route_and_code[key] = self._by_route_and_code.get(key, 0) + 1
        if seconds is not None:
            times = self._times.get(route)
            if times is None:
                times = self._times[route] = HistogramCounts(_BOUNDS)
            times.add(seconds)

    def frame(self, seen: Seen) -> Stats:
        """The numbers of this moment, in the form of the broker's."""
        numbers = {"up": float(seen.is_up)}
        if seen.age_s is not None:
            numbers["frame_age_seconds"] = seen.age_s
        history = seen.history
        if history is not None:
            numbers["history_readers_busy"] = history.busy
        labelled = {
            "alarm_active": dict.fromkeys(sorted(seen.alarms), 1.0),
            "alarm_last_raised_timestamp_seconds": dict(sorted(seen.raised_s.items())),
            "console_requests_total": dict(self._by_route_and_code),
        }
        if seen.node is not None:
            labelled["build_info"] = {label_key(seen.node.version, str(seen.node.compiled).lower()): 1.0}
        for process, found in (("history", {} if history is None else history.process), ("console", process_numbers())):
            for name, value in found.items():
                labelled.setdefault(name, {})[process] = value
        times = {route: Histogram(tuple(counted.counts), counted.sum) for route, counted in self._times.items()}
        return Stats(0, numbers, labelled, {}, labelled_histograms={"console_request_seconds": times})
