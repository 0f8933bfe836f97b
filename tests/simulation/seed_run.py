"""Very many seeds of the cluster simulations, in several processes.

    python -m tests.simulation.seed_run --kinds all --first 0 --seeds 5000 --processes 2
    python -m tests.simulation.seed_run --kinds clocks,"half open" --first 10000 --seeds 100000 --minutes 30

`--seeds` counts the seeds of each kind. Parts of the kinds alternate, so that a run that is stopped after `--minutes`
has seen about as many seeds of each. The story of every violation is written into a file of its own below `--reports`;
such a run ends with status 1. `PYTHONPATH` chooses the sources (`src`) or the compiled modules (`.compiled`).
"""

import argparse
import gc
import logging
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

import holdfast
from tests.simulation.seeded_cluster import ViolationError
from tests.simulation.simulations import SIMULATIONS

ROOT: Final = Path(__file__).resolve().parents[2]
#: Seeds that a process runs before it reports: about a second.
_PART: Final = 10
#: Parts that are handed out for each process: one is run, the others wait.
_AHEAD: Final = 3
#: Seconds between two lines of progress.
_LINE_S: Final = 5.0


@dataclass(frozen=True)
class Part:
    """Some seeds of one kind."""

    kind: str
    first: int
    seeds: int


@dataclass
class PartResult:
    """What became of a part: processor seconds, and the stories of the seeds that broke a promise."""

    part: Part
    seconds: float = 0.0
    stories: dict[int, str] = field(default_factory=dict)


@dataclass
class Total:
    """What became of a kind so far."""

    seeds: int = 0
    violations: int = 0
    seconds: float = 0.0


def parts(kinds: list[str], first: int, seeds: int) -> Iterator[Part]:
    """All parts, the kinds in turn."""
    for start in range(first, first + seeds, _PART):
        for kind in kinds:
            yield Part(kind, start, min(_PART, first + seeds - start))


def prepare_process() -> None:
    """No log lines, and no garbage collection but between two parts."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.collect()
    gc.freeze()
    gc.disable()


def run_part(part: Part) -> PartResult:
    """Run the seeds of a part, all of them whatever they find."""
    result = PartResult(part)
    began_s = time.process_time()
    for seed in range(part.first, part.first + part.seeds):
        try:
            SIMULATIONS[part.kind](seed).run()
        except ViolationError as violation:
            result.stories[seed] = "".join(traceback.format_exception(violation))
    gc.collect()
    result.seconds = time.process_time() - began_s
    return result


class SeedRun:
    """A run over parts: it counts, shows how far it is, and writes down stories."""

    def __init__(self, kinds: list[str], reports: Path) -> None:
        self.totals: Final = {kind: Total() for kind in kinds}
        self._reports: Final = reports
        self._began_s: Final = time.monotonic()
        self._line_s = self._began_s

    def run(self, executor: Executor, todo: Iterator[Part], ahead: int, until_s: float) -> None:
        """Run parts until there are no more, or begin none after `until_s`."""
        running: set[Future[PartResult]] = set()
        part = next(todo, None)
        while running or part is not None:
            while part is not None and len(running) < ahead:
                running.add(executor.submit(run_part, part))
                part = next(todo, None) if time.monotonic() < until_s else None
            done, running = wait(running, timeout=_LINE_S, return_when=FIRST_COMPLETED)
            for future in done:
                self._note(future.result())

    def _note(self, result: PartResult) -> None:
        total = self.totals[result.part.kind]
        total.seeds += result.part.seeds
        total.violations += len(result.stories)
        total.seconds += result.seconds
        for seed, story in result.stories.items():
            self._reports.mkdir(parents=True, exist_ok=True)
            path = self._reports / f"{result.part.kind.replace(' ', '-')}-{seed}.txt"
            path.write_text(story, encoding="utf-8")
            print(f"{result.part.kind}: seed {seed} breaks a promise, see {path}", flush=True)
        now_s = time.monotonic()
        if now_s - self._line_s >= _LINE_S:
            self._line_s = now_s
            print(self._progress(result.part, now_s - self._began_s), flush=True)

    def _progress(self, part: Part, passed_s: float) -> str:
        seeds = sum([total.seeds for total in self.totals.values()])
        at = f"{part.kind} up to seed {part.first + part.seeds - 1}"
        return f"{passed_s:6.0f} s  {at:34} {seeds:8} seeds  {seeds / passed_s:6.1f}/s  {self.violations()} violations"

    def violations(self) -> int:
        return sum([total.violations for total in self.totals.values()])

    def table(self) -> str:
        lines = [f"{'kind':15} {'seeds':>8} {'violations':>11} {'seconds':>9}"]
        rows = [*self.totals.items(), ("together", self._together())]
        lines += [f"{kind:15} {row.seeds:8} {row.violations:11} {row.seconds:9.1f}" for kind, row in rows]
        return "\n".join(lines)

    def _together(self) -> Total:
        totals = list(self.totals.values())
        return Total(
            sum([total.seeds for total in totals]),
            sum([total.violations for total in totals]),
            sum([total.seconds for total in totals]),
        )


def chosen_kinds(names: str) -> list[str]:
    """The kinds that a list with commas names. ValueError for one that there is not."""
    kinds = list(SIMULATIONS) if names == "all" else names.split(",")
    unknown = [kind for kind in kinds if kind not in SIMULATIONS]
    if unknown:
        raise ValueError(f"no such kind: {', '.join(unknown)}; there are {', '.join(SIMULATIONS)}, or all")
    return kinds


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run very many seeds of the cluster simulations.")
    parser.add_argument("--kinds", default="all", help="names with commas between them, or all")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=200, help="seeds of each kind")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="begin nothing more after this time")
    parser.add_argument("--reports", type=Path, default=ROOT / ".reports" / "simulation", help="where stories go")
    asked = parser.parse_args(arguments)
    try:
        kinds = chosen_kinds(asked.kinds)
    except ValueError as error:
        parser.error(str(error))
    origin = Path(holdfast.__file__).resolve()
    if not any(origin.is_relative_to(ROOT / tree) for tree in ("src", ".compiled")):
        # The virtual environment has a built wheel: of yesterday's sources, maybe.
        parser.error(f"holdfast is imported from {origin}; set PYTHONPATH to src or .compiled of this folder")
    print(f"holdfast from {origin.parent}", flush=True)
    run = SeedRun(kinds, asked.reports)
    until_s = time.monotonic() + 60 * asked.minutes if asked.minutes is not None else float("inf")
    processes = ProcessPoolExecutor(asked.processes, multiprocessing.get_context("spawn"), prepare_process)
    try:
        run.run(processes, parts(kinds, asked.first, asked.seeds), _AHEAD * asked.processes, until_s)
    finally:
        processes.shutdown(cancel_futures=True)
        print(run.table(), flush=True)
    return 1 if run.violations() else 0


def end_by_signal(_number: int, _frame: object) -> None:
    """Let the processes finish what they run, instead of leaving them behind."""
    raise SystemExit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end_by_signal)
    sys.exit(main())
