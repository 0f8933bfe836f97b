"""Replay: everything that is stored comes to one subscriber again, at QoS 0 and then at QoS 1."""

from __future__ import annotations

import time

from bench.brokers.jobs import Job
from bench.brokers.load import Load
from bench.brokers.stream import LostError
from bench.brokers.usage import Span, Usage

_EVERYTHING = "$replay/earliest/#"


def measure_replay(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    """Figures of each QoS. Requires: the broker stores nothing else."""
    load = Load(job)
    load.open_publishers()
    load.closed_loop(job.seconds, wait_for_delivery=False)
    stored = load.sent()
    load.crowd.close(load.publishers)
    load.publishers = []
    time.sleep(job.settle_s)
    return {f"qos{qos}": _replay(load, usage, stored, qos) for qos in (0, 1)}


def _replay(load: Load, usage: Usage, stored: int, qos: int) -> dict[str, float]:
    load.open_subscribers(subscribe=False)
    span = Span(usage)
    load.crowd.subscribe(load.subscribers, [[_EVERYTHING]], qos)
    load.crowd.until(lambda: load.got() >= stored, what="the rest of the replay")
    figures = span.figures(load.got(), time.monotonic_ns())
    load.crowd.close(load.subscribers)
    load.check_order()
    if load.got() != stored:
        raise LostError(f"{load.got()} messages came, {stored} are stored")
    return figures
