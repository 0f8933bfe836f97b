"""What is measured, under which key, and which goal it has."""

from __future__ import annotations

from dataclasses import dataclass

from bench.brokers import jobs
from bench.brokers.jobs import Job
from bench.storage.rows import MEGABYTES, MICROSECONDS, MILLISECONDS, PER_SECOND

OURS, NATS = "holdfast", "nats"


@dataclass(frozen=True)
class LoadRow:
    """The same load on both clusters."""

    key: str
    label: str
    job: Job
    #: Our rate is at least so many times theirs.
    goal: float


LOADS = (
    LoadRow("persistent", "QoS 1, 10 → 10, pipelined, sessions kept", Job(persistent=True), 10.0),
    LoadRow("single", "QoS 1, one message per send", Job(batch=1), 5.0),
    LoadRow("window1", "QoS 1, window of 1, 100 → 100", Job(publishers=100, subscribers=100, window=1), 5.0),
    LoadRow("qos2", "QoS 2, 10 → 10", Job(qos=2), 5.0),
)
#: How long NATS may take for what is still on its way when publishers stop.
LOAD_LIMIT_S = 120.0

STEADY = Job(kind=jobs.OPEN, rate=1000, seconds=4.0, limit_s=60.0)


@dataclass(frozen=True)
class FigureRow:
    """A figure of ours and what it is compared with; the goal is one of their ratio, or of the figure alone."""

    key: str
    label: str
    unit: str
    against: str = ""
    against_label: str = ""
    at_least: float | None = None
    at_most: float | None = None


FIGURES = (
    FigureRow(
        "holdfast/persistent/rate",
        "QoS 1, pipelined, sessions kept",
        PER_SECOND,
        "appends/rate",
        "records alone",
        at_least=0.3,
    ),
    FigureRow("ack/p50", "1,000 messages/s: PUBACK, median", MICROSECONDS, "append/p50", "an append", at_most=2.0),
    FigureRow("ack/p99", "1,000 messages/s: PUBACK, p99", MICROSECONDS, "append/p99", "an append", at_most=4.0),
    FigureRow("apply/cpu", "CPU of a node without clients, a message", MICROSECONDS, at_most=6.0),
    FigureRow("linear/connects", "connects, linear", PER_SECOND, "cas/connects", "compare-and-set", at_least=5.0),
    FigureRow("linear/reconnects", "reconnects, linear", PER_SECOND, "cas/reconnects", "compare-and-set", at_least=5.0),
    FigureRow("linear/one_id", "all with one id, linear", PER_SECOND, "cas/one_id", "compare-and-set", at_least=1.0),
    FigureRow("linear/connects", "connects, linear", PER_SECOND, "eventual/connects", "eventual", at_least=0.8),
    FigureRow("linear/reconnects", "reconnects, linear", PER_SECOND, "eventual/reconnects", "eventual", at_least=0.8),
    FigureRow("linear/one_id", "all with one id, linear", PER_SECOND, "eventual/one_id", "eventual", at_least=0.8),
    FigureRow("replicants/connects", "connects, 3 cores and 3 replicants", PER_SECOND, "linear/connects", "3 cores"),
    FigureRow("replicants/reconnects", "reconnects, 3 and 3", PER_SECOND, "linear/reconnects", "3 cores"),
    FigureRow("replicants/one_id", "all with one id, 3 and 3", PER_SECOND, "linear/one_id", "3 cores"),
    FigureRow("failover/node", "a node is killed: CONNACK elsewhere, p99", MILLISECONDS, at_most=2000.0),
    FigureRow("failover/server", "… and its NATS server with it", MILLISECONDS, at_most=10_000.0),
    FigureRow("catch_up/rate", "a node catches up", PER_SECOND, "published/rate", "published", at_least=3.0),
    FigureRow("channels/memory", "memory for 100,000 channels elsewhere", MEGABYTES, at_most=5.0),
)


def keys() -> list[str]:
    """Every key of a report."""
    loads = [f"{peer}/{row.key}/{figure}" for row in LOADS for peer in (OURS, NATS) for figure in ("rate", "cpu")]
    others = [key for row in FIGURES for key in (row.key, row.against) if key]
    return sorted({*loads, *others, "record/bytes", "record/messages"})
