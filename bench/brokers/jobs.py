"""A job for the generator: one load, one broker, once. Goes to its process as JSON and comes back as figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

#: Who publishes to whom.
PAIRS = "pairs"
FAN_IN = "fan_in"
FAN_OUT = "fan_out"

#: What is done.
CLOSED = "closed"
OPEN = "open"
BACKLOG = "backlog"
REPLAY = "replay"
STORM = "storm"
CHURN = "churn"
IDLE = "idle"
SESSIONS = "sessions"


@dataclass(frozen=True)
class Job:
    kind: str = CLOSED
    pattern: str = PAIRS
    version: int = 4
    qos: int = 1
    publishers: int = 10
    subscribers: int = 10
    #: QoS 1 and 2: messages of a publisher without acknowledgement.
    window: int = 100
    #: Messages of a publisher that have not reached the subscribers; 0 for no bound. QoS 0 needs one.
    undelivered: int = 0
    #: Messages in one send at most.
    batch: int = 64
    #: Publishers send for so long, or so many messages in all, whatever ends first.
    seconds: float = 1.5
    messages: int = 10_000_000
    #: Messages per second of all publishers together, in an open loop.
    rate: int = 0
    #: Whether subscribers keep their sessions.
    persistent: bool = False
    #: Topics of a publisher, which take turns; a multiple of 256, or 0 for a single one.
    topics: int = 0
    #: Whether each topic was used once before the clock starts.
    known: bool = False
    #: Subscriptions of others that are there meanwhile, and sessions of others who are away.
    ballast: int = 0
    absent: int = 0
    #: Connections or sessions, where these are counted.
    clients: int = 0
    #: Storms: whether these clients were there before, and whether all of them have one id, so that most are refused or
    #: replaced.
    returning: bool = False
    one_id: bool = False
    #: Of these, so many that come before memory is counted: what is set up once, and buffers, are there by then.
    already: int = 50
    #: For the broker to tidy up before its memory is read.
    settle_s: float = 1.0
    #: A generator that works longer than this hangs.
    limit_s: float = 60.0
    #: Of every node of the broker: clients are spread over them.
    ports: Sequence[int] = ()
    #: Whose processor time and memory count, and whether that of their children does.
    pids: Sequence[int] = ()
    alone: bool = False


@dataclass
class Outcome:
    """Figures by part: most jobs have the one part `load`. A problem makes them worthless."""

    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    problem: str = ""


def encode_job(job: Job) -> str:
    return json.dumps(asdict(job))


def decode_job(line: str) -> Job:
    return Job(**json.loads(line))


def encode_outcome(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome))


def decode_outcome(line: str) -> Outcome:
    return Outcome(**json.loads(line))
