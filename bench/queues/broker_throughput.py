"""Point to point through a broker: pairs of a publisher and a subscriber with an external queue."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import replace

from bench.brokers.collect import generate
from bench.brokers.jobs import Job
from bench.brokers.peers import holdfast
from bench.queues import rows
from bench.queues.backends import Servers

#: Messages of all publishers together that wait for their acknowledgements.
_IN_FLIGHT = 10_000
_MOST_OF_ONE = 100
#: Files that a process has open beside its connections.
_OTHER_FILES = 200


def possible(pairs: int) -> int:
    """So many pairs, or as many as a process may have connections for: two for each pair."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return pairs if most == resource.RLIM_INFINITY else min(pairs, (most - _OTHER_FILES) // 2)


def backends(running: Servers, run: str) -> dict[str, list[str]]:
    """The settings of a broker for each backend that is there."""
    found: dict[str, list[str]] = {"log": []}
    if running.postgres is not None:
        place = [f"postgres.url={running.postgres.url}", f"postgres.schema=through_{run}"]
        found["postgres"] = ["sessions.queue=postgres", *place]
    if running.redis is not None and running.cluster is not None:
        single = ["sessions.queue=redis", f"redis.url={running.redis.url}"]
        found["one_by_one"] = [*single, f"redis.prefix=one-{run}:", "redis.pipelined=false"]
        found["in_flight"] = [*single, f"redis.prefix=many-{run}:"]
        urls = ",".join(running.cluster.urls)
        found["cluster"] = ["sessions.queue=redis", f"redis.url={urls}", "redis.cluster=true"]
    return found


def measure(
    running: Servers, run: str, pairs: tuple[int, ...], seconds: float, tell: Callable[[str], None]
) -> Iterator[tuple[str, float]]:
    """Messages per second that reached subscribers, by backend and number of pairs."""
    for backend, settings in backends(running, run).items():
        broker = holdfast(backend, rows.THROUGH[backend], settings).start()
        try:
            for count in pairs:
                tell(f"through a broker, {count:,} pairs: {rows.THROUGH[backend]}")
                window = min(max(1, _IN_FLIGHT // count), _MOST_OF_ONE)
                job = Job(publishers=count, subscribers=count, window=window, seconds=seconds, persistent=True)
                outcome = generate(replace(job, ports=(broker.port,), pids=(broker.pid,)))
                if outcome.problem:
                    raise SystemExit(f"{rows.THROUGH[backend]}, {count} pairs: {outcome.problem}")
                yield f"through/{backend}/{count}", outcome.parts["load"]["rate"]
        finally:
            broker.stop()
