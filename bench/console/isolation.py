"""What the broker notices of its console: throughput, CPU per message, and how long a bystander waits for a PUBACK.

A measurement is two loads, one after the other. The first is as much as the broker takes, for throughput and for the
CPU time of the broker's own process. The second is a steady one, beside which a bystander publishes 200 messages a
second: under full load, what it waits for is the load.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack

from bench.brokers import jobs
from bench.brokers.collect import generate
from bench.brokers.jobs import Job, Outcome
from bench.console import rows
from bench.console.nodes import Node
from bench.console.onlookers import looking
from bench.console.quantiles import quantile
from bench.history.bystander import waits_ms

_STEADY_RATE = 1000


def measure(node: Node, moment: str, load_s: float, watch_s: float) -> dict[str, float]:
    """Every key of a moment with its value."""
    with ExitStack() as held:
        if moment in (rows.WATCHED, rows.COUNTED):
            held.enter_context(looking(node, count=moment == rows.COUNTED))
        full = Job(seconds=load_s, ports=(node.port,), pids=(node.running.pid,), alone=True)
        figures = _figures(generate(full))
        steady = Job(
            kind=jobs.OPEN, rate=_STEADY_RATE, seconds=watch_s, ports=(node.port,), pids=(node.running.pid,), alone=True
        )
        outcomes: list[Outcome] = []
        load = threading.Thread(target=lambda: outcomes.append(generate(steady)))
        load.start()
        waits = waits_ms(node.port, watch_s)
        load.join()
        _figures(outcomes[0])
    found = {"rate": figures["rate"], "cpu_us": figures["cpu_us"], "p99_ms": quantile(waits, 0.99)}
    return {f"load/{moment}/{key}": found[key] for key in rows.LOAD}


def _figures(outcome: Outcome) -> dict[str, float]:
    if outcome.problem:
        raise SystemExit(f"the load could not be measured: {outcome.problem}")
    return outcome.parts["load"]
