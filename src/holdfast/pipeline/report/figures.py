"""The figures of a report: everything that its page shows, and nothing that grows with the history.

Spark adds up (`traffic.py`, `broker_state.py`); these are the results, a few hundred rows at most.
"""

from dataclasses import dataclass, field
from datetime import datetime

from holdfast.model.time import datetime_of


def moment_of(us: int | None) -> datetime | None:
    return None if us is None else datetime_of(us)


@dataclass(frozen=True)
class Totals:
    """All messages of the report together."""

    messages: int = 0
    size_bytes: int = 0
    topics: int = 0
    publishers: int = 0
    first: datetime | None = None
    last: datetime | None = None
    #: Messages by QoS, and those with the retain flag or an expiry.
    qos: tuple[int, int, int] = (0, 0, 0)
    retain: int = 0
    expiring: int = 0

    @property
    def span_s(self) -> float:
        return 0.0 if self.first is None or self.last is None else (self.last - self.first).total_seconds()


@dataclass(frozen=True)
class TrafficShare:
    """A topic, a publisher, a pattern: what of the whole it is."""

    name: str
    messages: int
    size_bytes: int
    topics: int = 0
    publishers: int = 0
    last: datetime | None = None


@dataclass(frozen=True)
class Series:
    """Messages of one kind in each slice of time, by the number of the slice."""

    name: str
    counts: dict[int, int]


@dataclass(frozen=True)
class Timeline:
    """Slices of equal width from `start` on."""

    start: datetime
    slice_s: int
    slices: int
    series: list[Series]


@dataclass(frozen=True)
class Sizes:
    """Payloads by size: bin n holds those of less than 2**n bytes that no smaller bin holds."""

    bins: dict[int, int]
    median: int
    p90: int
    p99: int
    largest: int


@dataclass(frozen=True)
class Silence:
    """How regularly a publisher was heard."""

    client_id: str
    messages: int
    #: Seconds between two messages, as a rule.
    usual_s: float
    longest_s: float
    since: datetime
    until: datetime
    #: Silences of more than ten times the usual.
    gaps: int
    #: From its last message to the end of the report.
    quiet_s: float


@dataclass(frozen=True)
class Lateness:
    """Messages that say in their payload when they were made, and how long before they were stored that was."""

    messages: int
    median_s: float
    p99_s: float
    largest_s: float
    #: More than a minute late.
    late: int
    worst: list[tuple[str, int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class DropReason:
    """What was dropped, refused or ended for one reason."""

    reason: str
    words: str
    count: int
    last: datetime
    clients: list[tuple[str, int]]


@dataclass(frozen=True)
class QueueFigures:
    """A session that is owed messages."""

    owner: str
    connected: bool | None
    at_most: int
    behind_since: datetime | None
    inflight: int


@dataclass(frozen=True)
class BrokerState:
    sessions: int = 0
    connected: int = 0
    subscriptions: int = 0
    wills: int = 0
    groups: int = 0
    queues: list[QueueFigures] = field(default_factory=list)
    retained: int = 0
    retained_bytes: int = 0
    retained_trees: list[TrafficShare] = field(default_factory=list)


@dataclass(frozen=True)
class Figures:
    title: str
    source: str
    made: datetime
    totals: Totals
    timeline: Timeline | None = None
    #: Of which the busiest follow.
    pattern_count: int = 0
    patterns: list[TrafficShare] = field(default_factory=list)
    topics: list[TrafficShare] = field(default_factory=list)
    publishers: list[TrafficShare] = field(default_factory=list)
    zones: list[TrafficShare] = field(default_factory=list)
    sizes: Sizes | None = None
    #: By day (in UTC, counted from 1970) and hour.
    hours: dict[tuple[int, int], int] = field(default_factory=dict)
    silences: list[Silence] = field(default_factory=list)
    lateness: Lateness | None = None
    reasons: list[DropReason] = field(default_factory=list)
    broker: BrokerState = field(default_factory=BrokerState)
