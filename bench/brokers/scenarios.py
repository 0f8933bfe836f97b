"""The scenarios: which load, and which rows of the table its figures make."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.brokers import jobs
from bench.brokers.jobs import Job

#: What a row shows, by the name of its figure.
RATE, CPU, BYTES = "rate", "cpu_us", "bytes"
P50, P99 = "p50_us", "p99_us"

#: Undelivered QoS 0 messages of a publisher: there is no acknowledgement, so delivery itself opens the window.
_UNDELIVERED = 200


@dataclass(frozen=True)
class Row:
    key: str
    label: str
    part: str = "load"
    figure: str = RATE


@dataclass(frozen=True)
class Scenario:
    key: str
    label: str
    job: Job
    rows: tuple[Row, ...]
    #: Whether it needs a broker that has done nothing yet: memory once used is seldom given back.
    fresh: bool = False
    #: Whether it takes minutes: such a one is measured when it is asked for by its name.
    long: bool = False


def _load(key: str, label: str, job: Job) -> Scenario:
    return Scenario(key, label, job, (Row(key, label),))


_PIPELINED = Job()
_BACKLOG = Job(kind=jobs.BACKLOG, pattern=jobs.FAN_IN, subscribers=1, messages=100_000, seconds=8.0, persistent=True)
#: The messages are stored at QoS 1, on 10,240 topics; segments are made of them before they are replayed.
_REPLAY = Job(
    kind=jobs.REPLAY,
    pattern=jobs.FAN_IN,
    subscribers=1,
    topics=1024,
    messages=1_000_000,
    seconds=15.0,
    settle_s=5.0,
)


def _among(key: str, label: str, absent: int) -> Scenario:
    """On a fresh broker, and at the end: these sessions stay."""
    return replace(_load(key, label, replace(_PIPELINED, absent=absent)), fresh=True)


SCENARIOS = (
    _load("qos1", "QoS 1, 10 → 10, pipelined", _PIPELINED),
    _load("qos1_v5", "QoS 1, 10 → 10, pipelined, MQTT 5", replace(_PIPELINED, version=5)),
    _load("qos1_persistent", "QoS 1, 10 → 10, pipelined, sessions kept", replace(_PIPELINED, persistent=True)),
    _load("qos1_single", "QoS 1, one message per send", replace(_PIPELINED, batch=1)),
    _load("qos1_window1", "QoS 1, window of 1, 100 → 100", Job(publishers=100, subscribers=100, window=1)),
    _load("qos1_fan_in", "QoS 1, fan-in 50 → 1", Job(pattern=jobs.FAN_IN, publishers=50, subscribers=1)),
    _load("qos1_fan_out", "QoS 1, fan-out 1 → 100", Job(pattern=jobs.FAN_OUT, publishers=1, subscribers=100)),
    _load("qos0", "QoS 0, 10 → 10", Job(qos=0, undelivered=_UNDELIVERED)),
    _load(
        "qos0_fan_out",
        "QoS 0, fan-out 1 → 100",
        Job(qos=0, undelivered=_UNDELIVERED, pattern=jobs.FAN_OUT, publishers=1, subscribers=100),
    ),
    _load("qos2", "QoS 2, 10 → 10", Job(qos=2)),
    Scenario(
        "backlog",
        "offline backlog of 100,000",
        _BACKLOG,
        (
            Row("backlog_publish", "offline backlog of 100,000: publish", "publish"),
            Row("backlog_drain", "offline backlog of 100,000: drain", "drain"),
        ),
    ),
    Scenario(
        "replay",
        "replay of 1,000,000",
        _REPLAY,
        (
            Row("replay_qos0", "replay of 1,000,000, `#`, to one subscriber: QoS 0", "qos0"),
            Row("replay_qos1", "replay of 1,000,000, `#`, to one subscriber: QoS 1", "qos1"),
        ),
        fresh=True,
    ),
    _load("subscriptions_10k", "QoS 1, 10 → 10, among 10,000 subscriptions", replace(_PIPELINED, ballast=10_000)),
    _load("subscriptions_100k", "QoS 1, 10 → 10, among 100,000 subscriptions", replace(_PIPELINED, ballast=100_000)),
    _load("topics_10k", "QoS 1, 10 → 10, on 10,240 topics", replace(_PIPELINED, topics=1024, known=True)),
    _load("topics_100k", "QoS 1, 10 → 10, on 102,400 topics", replace(_PIPELINED, topics=10_240, known=True)),
    _load("topics_new", "QoS 1, 10 → 10, each topic for the first time", replace(_PIPELINED, topics=10_240)),
    _load("connects", "connect storm", Job(kind=jobs.STORM, clients=5000)),
    _load("churn", "connects and disconnects", Job(kind=jobs.CHURN, clients=5000)),
    Scenario(
        "steady",
        "1,000 messages/s",
        Job(kind=jobs.OPEN, rate=1000, seconds=4.0),
        (
            Row("steady_cpu", "QoS 1, 1,000 messages/s: CPU", figure=CPU),
            Row("steady_p50", "QoS 1, 1,000 messages/s: p50", figure=P50),
            Row("steady_p99", "QoS 1, 1,000 messages/s: p99", figure=P99),
        ),
    ),
    Scenario(
        "idle",
        "memory of a connection",
        Job(kind=jobs.IDLE, clients=1000),
        (Row("idle", "memory per idle connection", figure=BYTES),),
        fresh=True,
    ),
    Scenario(
        "idle_10k",
        "memory of a connection among 10,000",
        Job(kind=jobs.IDLE, clients=8000, already=2000),
        (Row("idle_10k", "memory per idle connection, from 2,000 to 10,000", figure=BYTES),),
        fresh=True,
        long=True,
    ),
    Scenario(
        "sessions",
        "memory of a session",
        Job(kind=jobs.SESSIONS, clients=10_000),
        (Row("sessions", "memory per offline session", figure=BYTES),),
        fresh=True,
    ),
    Scenario(
        "sessions_300k",
        "memory of a session among 300,000",
        Job(kind=jobs.SESSIONS, clients=200_000, already=100_000, limit_s=600.0),
        (Row("sessions_300k", "memory per offline session, from 100,000 to 300,000", figure=BYTES),),
        fresh=True,
        long=True,
    ),
    Scenario(
        "sessions_1m",
        "memory of a session among 1,000,000",
        Job(kind=jobs.SESSIONS, clients=900_000, already=100_000, limit_s=2400.0),
        (Row("sessions_1m", "memory per offline session, from 100,000 to 1,000,000", figure=BYTES),),
        fresh=True,
        long=True,
    ),
    _among("absent_1k", "QoS 1, 10 → 10, among 1,000 offline sessions", 1000),
    _among("absent_10k", "QoS 1, 10 → 10, among 10,000 offline sessions", 10_000),
)


def quick(scenario: Scenario) -> Scenario:
    """The same, too short to tell anything."""
    job = scenario.job
    small = replace(
        job,
        seconds=min(job.seconds, 0.1),
        messages=min(job.messages, 2000),
        ballast=min(job.ballast, 200),
        clients=min(job.clients, 100),
        already=min(job.already, 50),
        topics=min(job.topics, 256),
        absent=min(job.absent, 100),
        settle_s=0.05,
    )
    return replace(scenario, job=small)


def all_rows() -> list[Row]:
    return [row for scenario in SCENARIOS for row in scenario.rows]
