"""The fault suite: kill -9 of eight kinds of victims at each step that a cluster takes, and the verdict after each run.

    python -m tests.cluster.fault_run --all                        every pair three times, every other fault ten times
    python -m tests.cluster.fault_run --pairs 8 --seed 7           some pairs
    python -m tests.cluster.fault_run --only "vnode leader:will"   one pair, three times
    python -m tests.cluster.fault_run --further 1 --pairs 0        the faults that are no kill at a step, once each

    python -m tests.cluster.fault_run --all --json runs.json --missing --minutes 30     go on where the last call ended

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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
#: Behind this fault a cluster ends: servers that no node runs keep the lost name among those that elect, until an
#: administrator removes it, and with two lost names of five nothing is decided while one more is away.
_LAST_OF_A_LIFE = "server is wiped, under a new name"
#: Seconds that victims stay dead.
_DEAD_S = 0.5
#: Looks at the folders, a second apart, until something that is wrong stays wrong.
_LOOKS = 15


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
    #: Seconds by part of the run.
    parts_s: dict[str, float] = field(default_factory=dict)
    #: How often the folders were looked at until nothing was wrong.
    looks: int = 0
    problems: list[str] = field(default_factory=list)
    #: Where the folders of a run that failed are left.
    kept: str = ""

    def __str__(self) -> str:
        shown = [problem[:300] for problem in self.problems[:8]]
        verdict = "\n    ".join([f"{len(self.problems)} problems {self.kept}", *shown]) if shown else "clean"
        name = f"{self.victim} at {self.step} ({self.point or self.repetition})" if self.step else self.victim
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in self.parts_s.items())
        return f"{name}: {self.recovered_s:.1f} s to recover, {self.took_s:.1f} s in all ({parts}): {verdict}"

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Note how long a part of this run takes."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.parts_s[name] = round(time.monotonic() - began_s, 2)


class FaultLife:
    """One cluster with its clients, and the runs on it."""

    def __init__(self, folder: Path, seed: int, kind: type[FaultCluster] = FaultCluster) -> None:
        self.cluster = kind(folder)
        self.load = FaultLoad([node.port for node in self.cluster.nodes], seed)
        self.steps = Steps(self.cluster, self.load)
        self._leader = 0
        self._looks = 0
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
            run.problems = await self._judge(run)
        except (TimeoutError, AssertionError) as error:
            run.problems = [*self.load.verdict(), f"{type(error).__name__}: {error}"]
        run.took_s = time.monotonic() - began_s
        return run

    async def _harm(self, run: FaultRun) -> float:
        """Seconds that it took to recover."""
        self.load.go_on()
        with run.part("homed"):
            roles = await self._roles()
            await self.load.homed(homes(self.load, roles))
        if run.step:
            await self._kill(run, roles)
        else:
            with run.part("fault"):
                await FURTHER[run.victim][1](self.cluster, self.load, roles)
        # The fault has ended when everything runs that was killed.
        began_s = time.monotonic()
        with run.part("started"):
            await self.cluster.all_listening()
        started_s = time.monotonic() - began_s
        with run.part("recovered"):
            return started_s + await self.load.recovered()

    async def _kill(self, run: FaultRun, roles: Roles) -> None:
        cluster, load = self.cluster, self.load
        at = plan(run.victim, run.step, run.repetition, roles)
        run.point = f"{at.point} at node {at.witness}"
        brokers, servers = roles.brokers(run.victim), roles.servers(run.victim)
        with run.part("reached"):
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

    async def _judge(self, run: FaultRun) -> list[str]:
        """The verdict of the clients, then that of the folders."""
        with run.part("drained"):
            await self.load.drained()
            await self.cluster.all_listening()
        with run.part("retained"):
            self._probed = self._probed % NODES + 1
            await self.load.probe_retained(self._probed)
        with run.part("stored"):
            found = self.load.verdict() + await self._look()
        run.looks = self._looks
        return found

    async def _look(self) -> list[str]:
        """What the nodes have stored, when they have come to rest: the last visitors are gone, and somebody leads."""
        found: list[str] = []
        for self._looks in range(1, _LOOKS + 1):
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
    runs: list[FaultRun], seed: int, say: Callable[[FaultRun], None], keep: Path | None = None, minutes: float = 1e9
) -> list[FaultRun]:
    """Every run, on as few clusters as they need. `keep`: where folders of runs that failed are left. `minutes`: after
    these no run begins."""
    left = list(runs)
    ends_s = time.monotonic() + 60 * minutes
    while left and time.monotonic() < ends_s:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-faults-"))
        kind = _kind(left[0])
        life = FaultLife(folder, seed, kind)
        failed = False
        try:
            await life.start()
            for _run in range(_RUNS_A_LIFE):
                if not left or failed or _kind(left[0]) is not kind or time.monotonic() >= ends_s:
                    break
                run = await life.run(left.pop(0))
                if run.problems and keep is not None:
                    run.kept = str(keep / folder.name)
                say(run)
                failed = bool(run.problems)
                if run.victim == _LAST_OF_A_LIFE:
                    break
        finally:
            await life.stop()
            if failed and keep is not None:
                shutil.move(folder, keep / folder.name)
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


def chosen_runs(asked: argparse.Namespace) -> list[FaultRun]:
    """The runs that a command line asks for."""
    if asked.only:
        victim, _colon, step = asked.only.partition(":")
        return [run for run in all_runs() + further_runs(1) if (run.victim, run.step) == (victim, step)]
    if asked.all:
        return all_runs() + further_runs()
    if asked.round:
        return [run for run in all_runs() if run.repetition == asked.round - 1] + further_runs(asked.further)
    return random.Random(asked.seed).sample(all_runs(), asked.pairs) + further_runs(asked.further)


class FaultJournal:
    """The runs of several calls in one file, as JSON."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.runs: list[FaultRun] = []
        if path is not None and path.exists():
            self.runs = [FaultRun(**run) for run in json.loads(path.read_text(encoding="utf-8"))]

    def add(self, run: FaultRun) -> None:
        """Written at once: a call may be cut short."""
        print(run, flush=True)
        self.runs.append(run)
        if self._path is not None:
            written = self._path.with_suffix(".new")
            written.write_text(json.dumps([asdict(run) for run in self.runs], indent=1), encoding="utf-8")
            written.replace(self._path)

    def without(self, runs: list[FaultRun]) -> list[FaultRun]:
        """Those of the runs that are not here yet. Faults that are no kill count by their number."""
        done = Counter((run.victim, run.step, run.repetition if run.step else 0) for run in self.runs)
        left: list[FaultRun] = []
        for run in runs:
            key = run.victim, run.step, run.repetition if run.step else 0
            if done[key]:
                done[key] -= 1
            else:
                left.append(run)
        return left


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="every pair, three times")
    parser.add_argument("--round", type=int, default=0, help="every pair once: its first, second or third moment")
    parser.add_argument("--pairs", type=int, default=8, help="so many runs, chosen by the seed")
    parser.add_argument("--further", type=int, default=0, help="so many runs of each fault that is no kill at a step")
    parser.add_argument("--only", default="", help="one pair, as victim:step, or one other fault")
    parser.add_argument("--minutes", type=float, default=1e9, help="after these no run begins")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="the file that has the runs; those of earlier calls stay in it")
    parser.add_argument("--missing", action="store_true", help="only runs that the file does not have yet")
    parser.add_argument("--keep", type=Path, help="where the folders of runs that failed are left")
    asked = parser.parse_args()
    journal = FaultJournal(asked.json)
    runs = chosen_runs(asked)
    if asked.missing:
        runs = journal.without(runs)
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    # What this process reads from the logs is no news; the nodes have files of their own.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    began_s = time.monotonic()
    try:
        asyncio.run(run_all(runs, asked.seed, journal.add, asked.keep, asked.minutes))
    finally:
        print(table(journal.runs))
        print(f"{time.monotonic() - began_s:.0f} s")
    sys.exit(1 if any(run.problems for run in runs) else 0)


if __name__ == "__main__":
    main()
