"""The fault suite: kill -9 of eight kinds of victims at each step that a cluster takes, and the verdict after each run.

    python -m tests.cluster.fault_run --all                        every pair three times, every other fault ten times
    python -m tests.cluster.fault_run --pairs 8 --seed 7           some pairs
    python -m tests.cluster.fault_run --only "vnode leader:will"   one pair, three times
    python -m tests.cluster.fault_run --further 1 --pairs 0        the faults that are no kill at a step, once each

It prints a table, and writes the runs as JSON where it is told to.

Several runs share one cluster. It ends when a run has failed, so that what follows is judged by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from tests.cluster.fault_checks import judge_states, read_states
from tests.cluster.fault_cluster import NODES, FaultCluster
from tests.cluster.fault_load import FaultLoad
from tests.cluster.fault_steps import VICTIMS, Roles, Steps, homes, plan
from tests.cluster.further_faults import FURTHER

STEPS = (
    "append",
    "claim",
    "begin",
    "open",
    "release",
    "inflight",
    "assign",
    "will",
    "border",
    "drop",
    "trim",
    "install",
)


REPETITIONS = 3
#: Of each fault that is no kill at a step.
FURTHER_REPETITIONS = 10
#: Runs that share a cluster.
_RUNS_A_LIFE = 24
#: Seconds that victims stay dead.
_DEAD_S = 0.5


@dataclass
class FaultRun:
    """One fault and what came of it."""

    #: Whom a kill takes; the name of another fault.
    victim: str
    #: Empty for a fault that is no kill at a step.
    step: str = ""
    repetition: int = 0
    point: str = ""
    #: From the end of the fault until nobody was blocked.
    recovered_s: float = 0.0
    took_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = [problem[:300] for problem in self.problems[:8]]
        verdict = "\n    ".join([f"{len(self.problems)} problems", *shown]) if shown else "clean"
        name = f"{self.victim} at {self.step} ({self.point or self.repetition})" if self.step else self.victim
        return f"{name}: {self.recovered_s:.1f} s to recover, {self.took_s:.1f} s in all: {verdict}"


class FaultLife:
    """One cluster with its clients, and the runs on it."""

    def __init__(self, folder: Path, seed: int, kind: type[FaultCluster] = FaultCluster) -> None:
        self.cluster = kind(folder)
        self.load = FaultLoad([node.port for node in self.cluster.nodes], seed)
        self.steps = Steps(self.cluster, self.load)
        self._leader = 0
        #: The node whose retained messages were looked at last.
        self._probed = 0

    async def start(self) -> None:
        await self.cluster.start()
        await self.load.start()
        await self._look()
        await self.load.start_group()

    async def stop(self) -> None:
        await self.load.close()
        await self.cluster.stop()

    async def run(self, run: FaultRun) -> FaultRun:
        """One pair, once."""
        began_s = time.monotonic()
        try:
            run.recovered_s = await self._harm(run)
            run.problems = await self._judge()
        except (TimeoutError, AssertionError) as error:
            run.problems = [*self.load.verdict(), f"{type(error).__name__}: {error}"]
        run.took_s = time.monotonic() - began_s
        return run

    async def _harm(self, run: FaultRun) -> float:
        """Seconds that it took to recover."""
        self.load.go_on()
        roles = await self._roles()
        await self.load.homed(homes(self.load, roles))
        if run.step:
            await self._kill(run, roles)
        else:
            await FURTHER[run.victim][1](self.cluster, self.load, roles)
        # The fault has ended when everything runs that was killed.
        began_s = time.monotonic()
        await self.cluster.all_listening()
        started_s = time.monotonic() - began_s
        return started_s + await self.load.recovered()

    async def _kill(self, run: FaultRun, roles: Roles) -> None:
        cluster, load = self.cluster, self.load
        at = plan(run.victim, run.step, run.repetition, roles)
        run.point = f"{at.point} at node {at.witness}"
        brokers, servers = roles.brokers(run.victim), roles.servers(run.victim)
        await self.steps.reach(run.step, at, "kill" if brokers == [at.witness] else "stop")
        load.ledger.deaths += 1
        await cluster.kill_brokers(brokers)
        cluster.kill_servers(servers)
        for node in cluster.nodes:
            node.go_on()
        await asyncio.sleep(_DEAD_S)
        load.send_away()
        await cluster.start_missing()

    async def _roles(self) -> Roles:
        stream_leader, followers = await self.cluster.stream_servers(0)
        publisher, subscriber = [node.number for node in self.cluster.nodes if node.number != self._leader]
        return Roles(self._leader, publisher, subscriber, stream_leader, followers)

    async def _judge(self) -> list[str]:
        """The verdict of the clients, then that of the folders."""
        await self.load.drained()
        await self.cluster.all_listening()
        self._probed = self._probed % NODES + 1
        await self.load.probe_retained(self._probed)
        return self.load.verdict() + await self._look()

    async def _look(self) -> list[str]:
        """What the nodes have stored, when they have come to rest: the last visitors are gone, and somebody leads."""
        found: list[str] = []
        for _attempt in range(15):
            states, epochs = await read_states(self.cluster, self.cluster.folder)
            found = judge_states(states, self.load.online(), epochs)
            self._leader = states[0].vnodes[0].leader[0]
            if not self._leader:
                found.append("nobody leads vnode 0")
            if not found or any(state.problems for state in states):
                break
            await asyncio.sleep(1)
        return found

    def logs(self) -> str:
        return "\n".join(f"node {node.number}: {node.log_text()[-4000:]}" for node in self.cluster.nodes)


async def run_all(
    runs: list[FaultRun], seed: int, say: Callable[[str], None], keep: Path | None = None
) -> list[FaultRun]:
    """Every run, on as few clusters as they need. `keep`: where folders of runs that failed are left."""
    left = list(runs)
    while left:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-faults-"))
        kind = _kind(left[0])
        life = FaultLife(folder, seed, kind)
        failed = False
        try:
            await life.start()
            for _run in range(_RUNS_A_LIFE):
                if not left or failed or _kind(left[0]) is not kind:
                    break
                run = await life.run(left.pop(0))
                say(str(run))
                failed = bool(run.problems)
        finally:
            await life.stop()
            if failed and keep is not None:
                shutil.move(folder, keep / folder.name)
                say(f"its folders are in {keep / folder.name}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    return runs


def _kind(run: FaultRun) -> type[FaultCluster]:
    """The kind of cluster that a run needs."""
    return FaultCluster if run.step else FURTHER[run.victim][0]


def further_runs(repetitions: int = FURTHER_REPETITIONS) -> list[FaultRun]:
    return [FaultRun(name, repetition=at) for name in FURTHER for at in range(repetitions)]


def all_runs(steps: tuple[str, ...] = STEPS) -> list[FaultRun]:
    """Every pair, three times; a life has many kinds of them."""
    return [
        FaultRun(victim, step, repetition) for repetition in range(REPETITIONS) for step in steps for victim in VICTIMS
    ]


def table(runs: list[FaultRun]) -> str:
    """Clean runs of all runs, by victim and step."""
    steps = [step for step in STEPS if any(run.step == step for run in runs)]
    lines = ["| victim | " + " | ".join(steps) + " |", "|---" * (len(steps) + 1) + "|"]
    for victim in VICTIMS:
        cells = [_count([run for run in runs if (run.victim, run.step) == (victim, step)]) for step in steps]
        lines.append(f"| {victim} | " + " | ".join(cells) + " |")
    others = [name for name in FURTHER if any(run.victim == name for run in runs)]
    if others:
        lines += ["", "| fault | clean |", "|---|---|"]
        lines += [f"| {name} | {_count([run for run in runs if run.victim == name])} |" for name in others]
    done = [run for run in runs if run.took_s]
    longest = max((run.recovered_s for run in done), default=0.0)
    clean = sum(not run.problems for run in done)
    lines += ["", f"{clean} of {len(done)} runs clean; longest recovery {longest:.1f} s"]
    return "\n".join(lines)


def _count(runs: list[FaultRun]) -> str:
    done = [run for run in runs if run.took_s]
    return f"{sum(not run.problems for run in done)}/{len(done)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="every pair, three times")
    parser.add_argument("--pairs", type=int, default=8, help="so many runs, chosen by the seed")
    parser.add_argument("--further", type=int, default=0, help="so many runs of each fault that is no kill at a step")
    parser.add_argument("--only", default="", help="one pair, as victim:step, or one other fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where the runs are written to")
    parser.add_argument("--keep", type=Path, help="where the folders of runs that failed are left")
    asked = parser.parse_args()
    runs = all_runs() + further_runs()
    if asked.only:
        victim, _colon, step = asked.only.partition(":")
        runs = [run for run in all_runs() + further_runs(1) if (run.victim, run.step) == (victim, step)]
    elif not asked.all:
        runs = random.Random(asked.seed).sample(all_runs(), asked.pairs) + further_runs(asked.further)
    # What this process reads from the logs is no news; the nodes have files of their own.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    began_s = time.monotonic()
    try:
        asyncio.run(run_all(runs, asked.seed, lambda line: print(line, flush=True), asked.keep))
    finally:
        print(table(runs))
        print(f"{time.monotonic() - began_s:.0f} s")
        if asked.json:
            asked.json.write_text(json.dumps([asdict(run) for run in runs], indent=1), encoding="utf-8")
    sys.exit(1 if any(run.problems for run in runs) else 0)


if __name__ == "__main__":
    main()
