"""A node that was away: how fast it applies what it missed, against how fast that was published."""

from __future__ import annotations

import time
from dataclasses import replace

from bench.brokers.collect import generate
from bench.brokers.jobs import Job
from bench.cluster.clusters import HoldfastCluster

_LIMIT_S = 600.0
_LOOK_S = 0.2


def measure_catch_up(cluster: HoldfastCluster, messages: int) -> tuple[float, float]:
    """Messages per second while they were published, and while a node that was away applied them.

    The node is stopped before, and its time counts from its start as a process.
    """
    away = cluster.nodes[-1]
    job = Job(ports=cluster.ports[:-1], pids=cluster.pids[:-1], messages=messages, persistent=True)
    away.stop()
    outcome = generate(replace(job, seconds=_LIMIT_S, limit_s=_LIMIT_S))
    if outcome.problem:
        raise RuntimeError(outcome.problem)
    ends = cluster.status().last
    began_s = time.perf_counter()
    away.launch()
    while True:
        member = next(one for one in cluster.status().members if one.node == len(cluster.nodes))
        if all(member.applied.get(vnode, 0) >= last for vnode, last in ends.items()):
            break
        if time.perf_counter() - began_s > _LIMIT_S:
            raise RuntimeError(f"the node has not caught up within {_LIMIT_S:g} s")
        time.sleep(_LOOK_S)
    took_s = time.perf_counter() - began_s
    return outcome.parts["load"]["rate"], outcome.parts["load"]["count"] / took_s
