"""Runs every scenario on every peer, alternating between the peers, and takes the medians.

All peers run all the time, but only one of them at a time has something to do. Within a scenario they alternate, so
that a machine that gets slower for a while slows all of them: only figures of one run compare.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.brokers import jobs
from bench.brokers.jobs import Job, Outcome
from bench.brokers.peers import Peer
from bench.brokers.processes import Running, UnavailableError
from bench.brokers.scenarios import Scenario
from bench.checkout import ROOT

Figures = dict[str, float]


@dataclass
class Results:
    """By peer, then by scenario and part: the figures of each round."""

    samples: dict[str, dict[tuple[str, str], list[Figures]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    #: By peer and scenario: why there is nothing.
    absent: dict[tuple[str, str], str] = field(default_factory=dict)

    def median(self, peer: str, scenario: str, part: str, figure: str) -> float | None:
        values = [sample[figure] for sample in self.samples[peer][scenario, part] if figure in sample]
        return statistics.median(values) if values else None


class Fleet:
    """The peers that run. A peer that failed is started again before its next job."""

    def __init__(self, peers: Sequence[Peer]) -> None:
        self.peers = tuple(peers)
        self._running: dict[str, Running] = {}

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_unused: object) -> None:
        for name in list(self._running):
            self.stop(name)

    def running(self, peer: Peer) -> Running:
        found = self._running.get(peer.name)
        if found is not None and found.alive():
            return found
        self.stop(peer.name)
        self._running[peer.name] = peer.start()
        return self._running[peer.name]

    def stop(self, name: str) -> None:
        found = self._running.pop(name, None)
        if found is not None:
            found.stop()


def collect(
    fleet: Fleet, scenarios: Sequence[Scenario], rounds: int, tell: Callable[[str], None], advance: Callable[[], None]
) -> Results:
    results = Results()
    for scenario in scenarios:
        for turn in range(rounds):
            shift = turn % len(fleet.peers)
            for peer in fleet.peers[shift:] + fleet.peers[:shift]:
                tell(f"{scenario.label}: {peer.title}")
                _measure(fleet, peer, scenario, results)
                advance()
    return results


def _measure(fleet: Fleet, peer: Peer, scenario: Scenario, results: Results) -> None:
    key = (peer.name, scenario.key)
    if key in results.absent:
        return
    reason = peer.cannot(scenario.job)
    if reason:
        results.absent[key] = reason
        return
    if scenario.fresh:
        fleet.stop(peer.name)
    try:
        running = fleet.running(peer)
    except UnavailableError as error:
        results.absent[key] = str(error)
        return
    outcome = generate(replace(scenario.job, ports=(running.port,), pids=(running.pid,)))
    if outcome.problem:
        # Whatever it still has to do would disturb the next one.
        fleet.stop(peer.name)
        results.absent[key] = outcome.problem
        for row in scenario.rows:
            results.samples[peer.name].pop((scenario.key, row.part), None)
        return
    for part, figures in outcome.parts.items():
        results.samples[peer.name][scenario.key, part].append(figures)


def generate(job: Job) -> Outcome:
    """Have a generator process do the job."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.brokers.generator"],
            input=jobs.encode_job(job) + "\n",
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=job.limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(problem=f"not done within {job.limit_s:.0f} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return Outcome(problem=f"the generator failed: {lines[-1] if lines else done.returncode}")
    return jobs.decode_outcome(done.stdout)
