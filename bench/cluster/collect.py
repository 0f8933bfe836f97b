"""One round of everything: loads on both clusters, appends alone, connects, deaths, and a node that was away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.progress import Progress

from bench.brokers import jobs
from bench.brokers.collect import generate
from bench.brokers.jobs import Job
from bench.cluster import rows
from bench.cluster.appends import append_latency, append_rate, log_size
from bench.cluster.catch_up import measure_catch_up
from bench.cluster.channel_memory import measure_channel_memory
from bench.cluster.clusters import SIZE, HoldfastCluster, NatsMqttCluster
from bench.cluster.failover import measure_failover
from bench.cluster.key_value import compare_and_set_rates
from bench.cluster.nats_servers import NatsServers

Value = tuple[str, float]

#: What can be measured alone; each starts clusters for itself.
PARTS = ("loads", "registry", "failover", "catch_up")

#: What did not come about; it is told below the table.
_NOTHING = float("nan")
_SECONDS = 1.5
_ATTEMPTS = 20


@dataclass(frozen=True)
class Amounts:
    """How much of everything."""

    seconds: float = _SECONDS
    appends: int = 300
    connects: int = 3000
    failing_clients: int = 1000
    missed_messages: int = 1_000_000
    channels: int = 100_000


QUICK = Amounts(seconds=0.2, appends=5, connects=30, failing_clients=10, missed_messages=500, channels=1_000)


class Collector:
    """Measures, and remembers why a figure is missing."""

    def __init__(self, amounts: Amounts, parts: Sequence[str] = PARTS) -> None:
        self._amounts = amounts
        self._parts = [getattr(self, f"_{part}") for part in parts]
        self.problems: list[str] = []

    def one_round(self, progress: Progress) -> Iterator[Value]:
        task = progress.add_task("", total=len(self._parts))
        for part in self._parts:
            progress.update(task, description=str(part.__doc__).partition(".")[0])
            yield from part()
            progress.advance(task)

    def _figures(self, label: str, job: Job, part: str = "load") -> dict[str, float]:
        outcome = generate(job)
        if outcome.problem:
            self.problems.append(f"{label}: {outcome.problem}")
        return outcome.parts.get(part, {})

    def _loads(self) -> Iterator[Value]:
        """Loads on Holdfast and on NATS; then what the servers of Holdfast can do alone."""
        with HoldfastCluster() as ours, NatsMqttCluster() as theirs:
            for cluster in (ours, theirs):
                _warm_up(cluster.ports, cluster.pids)
            for row in rows.LOADS:
                for peer, cluster in ((rows.OURS, ours), (rows.NATS, theirs)):
                    before = asyncio.run(log_size(ours))
                    job = self._job(row.job, cluster.ports, cluster.pids)
                    figures = self._figures(f"{peer}, {row.label}", job)
                    yield f"{peer}/{row.key}/rate", figures.get("rate", _NOTHING)
                    yield f"{peer}/{row.key}/cpu", figures.get("cpu_us", _NOTHING)
                    if peer == rows.OURS and row is rows.LOADS[0]:
                        after = asyncio.run(log_size(ours))
                        records = max(1, after.records - before.records)
                        messages = figures.get("count", _NOTHING) / records
                        record_bytes = (after.size_bytes - before.size_bytes) // records
            yield "record/bytes", record_bytes
            yield "record/messages", messages
            yield from self._steady(ours)
            yield from self._applying(ours)
        with _nats_servers() as servers:
            yield "appends/rate", messages * asyncio.run(append_rate(servers, record_bytes, self._amounts.seconds))
            p50_us, p99_us = asyncio.run(append_latency(servers, self._amounts.appends))
        yield "append/p50", p50_us
        yield "append/p99", p99_us

    def _job(self, job: Job, ports: Sequence[int], pids: Sequence[int]) -> Job:
        seconds = min(job.seconds, self._amounts.seconds) if job.kind == jobs.CLOSED else 10 * self._amounts.seconds / 4
        return replace(job, ports=list(ports), pids=list(pids), seconds=seconds, limit_s=rows.LOAD_LIMIT_S)

    def _steady(self, cluster: HoldfastCluster) -> Iterator[Value]:
        figures = self._figures("1,000 messages/s", self._job(rows.STEADY, cluster.ports, cluster.pids))
        yield "ack/p50", figures.get("ack_p50_us", _NOTHING)
        yield "ack/p99", figures.get("ack_p99_us", _NOTHING)

    def _applying(self, cluster: HoldfastCluster) -> Iterator[Value]:
        """The last node has no clients: what it does is applying. Its server does not count."""
        job = self._job(rows.LOADS[0].job, cluster.ports[:-1], cluster.pids[-1:])
        figures = self._figures("a node without clients", replace(job, alone=True))
        yield "apply/cpu", figures.get("cpu_us", _NOTHING)

    def _registry(self) -> Iterator[Value]:
        """Connects of many clients, through all nodes; and the same by compare-and-set."""
        clients = self._amounts.connects
        for label, mode, replicants in (("eventual", "eventual", 0), ("replicants", "linear", SIZE)):
            with HoldfastCluster(mode, replicants=replicants) as cluster:
                yield from self._storms(label, cluster, clients)
        with HoldfastCluster() as ours:
            yield from self._storms("linear", ours, clients)
        yield "channels/memory", measure_channel_memory(self._amounts.channels) * 100_000 / self._amounts.channels
        with _nats_servers() as servers:
            for key, rate in asyncio.run(compare_and_set_rates(servers, clients)).items():
                yield f"cas/{key}", rate

    def _storms(self, label: str, cluster: HoldfastCluster, clients: int) -> Iterator[Value]:
        storm = _storm(cluster, clients)
        for key, job in (
            ("connects", storm),
            ("reconnects", replace(storm, returning=True)),
            ("one_id", replace(storm, one_id=True)),
        ):
            yield f"{label}/{key}", self._figures(f"{key}, {label}", job).get("rate", _NOTHING)

    def _failover(self) -> Iterator[Value]:
        """Nodes are killed: their clients come back elsewhere."""
        for key, apart in (("failover/node", True), ("failover/server", False)):
            with HoldfastCluster(servers_apart=apart) as cluster:
                waits_s = measure_failover(cluster, cluster.nodes[0], self._amounts.failing_clients)
                yield key, waits_s[len(waits_s) * 99 // 100] * 1000

    def _catch_up(self) -> Iterator[Value]:
        """A node was away while messages were published."""
        with HoldfastCluster() as cluster:
            published, caught_up = measure_catch_up(cluster, self._amounts.missed_messages)
        yield "published/rate", published
        yield "catch_up/rate", caught_up


def _storm(cluster: HoldfastCluster, clients: int) -> Job:
    return Job(kind=jobs.STORM, clients=clients, ports=cluster.ports, pids=cluster.pids, limit_s=rows.LOAD_LIMIT_S)


def _warm_up(ports: Sequence[int], pids: Sequence[int]) -> None:
    """A first load, as often as it takes: NATS refuses clients of MQTT until its streams have leaders."""
    for _attempt in range(_ATTEMPTS):
        if not generate(Job(ports=list(ports), pids=list(pids), seconds=0.1, persistent=True)).problem:
            return
        time.sleep(1.0)


@contextmanager
def _nats_servers() -> Iterator[NatsServers]:
    """Servers alone, set up as those of a cluster are."""
    servers = NatsServers()
    try:
        servers.start()
        yield servers
    finally:
        servers.close()
