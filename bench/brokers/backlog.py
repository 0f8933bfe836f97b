"""A backlog: a subscriber with a session is away, messages pile up for it, and it comes back to fetch them."""

from __future__ import annotations

import time

from bench.brokers.jobs import Job
from bench.brokers.load import Load
from bench.brokers.stream import LostError
from bench.brokers.usage import Span, Usage


def measure_backlog(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    """Figures of publishing and of draining."""
    load = Load(job)
    load.open_subscribers()
    load.crowd.close(load.subscribers)
    load.subscribers = []
    load.open_publishers()
    span = Span(usage)
    ended_ns = load.closed_loop(job.seconds, wait_for_delivery=False)
    stored = load.sent()
    published = span.figures(stored, ended_ns)
    span = Span(usage)
    load.open_subscribers(subscribe=False)
    while load.got() < stored * job.subscribers:
        _step(load)
    drained = span.figures(load.got(), time.monotonic_ns())
    load.close()
    wrong = sum(subscriber.disorder for subscriber in load.subscribers)
    if wrong or load.got() != stored * job.subscribers:
        raise LostError(f"{load.got()} of {stored} messages came, {wrong} of them out of order")
    return {"publish": published, "drain": drained}


def _step(load: Load) -> None:
    before = load.got()
    load.crowd.until(lambda: load.got() > before, what="the rest of the backlog")
