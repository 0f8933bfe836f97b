"""`bench brokers`: measures, prints the table, and writes `.reports/bench-brokers.json` and `.svg`.

Three processes share the work: this one only waits, the generator makes the load, and a broker bears it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import document
from bench.brokers import peers, plot, system_calls, table
from bench.brokers.collect import Fleet, Results, collect
from bench.brokers.peers import Peer
from bench.brokers.processes import UnavailableError
from bench.brokers.scenarios import SCENARIOS, Scenario, quick
from bench.checkout import ROOT
from bench.progress import progress_bar

DEFAULTS: dict[str, object] = {"peers": ",".join(peers.DEFAULT), "scenarios": ""}

#: Wide enough for the table when stdout is no terminal and so has no width.
_FILE_WIDTH = 180


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peers",
        default=DEFAULTS["peers"],
        help=f"of {', '.join(peers.DEFAULT)}; the first is compared with the others",
    )
    parser.add_argument(
        "--scenarios",
        default="",
        help=f"only these, with commas between them: {', '.join(scenario.key for scenario in SCENARIOS)}; "
        f"only if named: {', '.join(scenario.key for scenario in SCENARIOS if scenario.long)}",
    )


def main(wanted: argparse.Namespace) -> int:
    usual = [scenario.key for scenario in SCENARIOS if wanted.quick or not scenario.long]
    names = wanted.scenarios.split(",") if wanted.scenarios else usual
    unknown = set(names) - {scenario.key for scenario in SCENARIOS}
    if unknown:
        raise SystemExit(f"no such scenario: {', '.join(sorted(unknown))}")
    scenarios = [quick(s) if wanted.quick else s for s in SCENARIOS if s.key in names]
    rounds = 1 if wanted.quick else wanted.rounds
    found, missing = find_peers(wanted.peers.split(","), install=not wanted.quick)
    # Being told to stop is no reason to leave brokers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    load_before = os.getloadavg()[0]
    with progress_bar() as progress, Fleet(found) as fleet:
        task = progress.add_task("", total=rounds * len(scenarios) * len(found))
        results = collect(
            fleet,
            scenarios,
            rounds,
            tell=lambda what: progress.update(task, description=what),
            advance=lambda: progress.advance(task),
        )
        progress.update(task, description="system calls")
        calls, untold = system_calls.count(fleet, scenarios)
    missing += untold
    missing.append(f"Load of the machine before it began: {load_before:.1f} on {os.cpu_count()} processors.")
    remarks = table.notes(results, found, scenarios, missing)
    shown, columns = table.lines(results, scenarios, found), table.headings(found)
    console = Console()
    wide = console if console.is_terminal else Console(width=_FILE_WIDTH)
    table.print_table(shown, columns, remarks, wide)
    system_calls.print_counts(calls, wide)
    picture = plot.draw(results, scenarios, found)
    content = report(results, scenarios, found, remarks, rounds, quick=wanted.quick)
    write_reports(wanted.reports, content | {"system_calls": system_calls.as_rows(calls)}, picture)
    if wanted.docs:
        document.renew(ROOT, "brokers", table.markdown(shown, columns, remarks), picture)
    return 0


def find_peers(names: Sequence[str], *, install: bool) -> tuple[list[Peer], list[str]]:
    """The peers that can be measured here, and why the others cannot. The generator's ceiling is always measured."""
    found, missing = [], []
    for name in [*names, peers.RELAY]:
        try:
            peer = peers.find(name, install=install)
            peer.start().stop()
        except UnavailableError as error:
            missing.append(f"{name}: {error}")
        else:
            found.append(peer)
    if not found or found[0].name != names[0]:
        raise SystemExit("\n".join(missing))
    return found, missing


def report(
    results: Results,
    scenarios: Sequence[Scenario],
    found: Sequence[Peer],
    remarks: Sequence[str],
    rounds: int,
    *,
    quick: bool,
) -> dict[str, object]:
    """Everything that was measured, every round of it."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "rounds": rounds,
        "quick": quick,
        "remarks": list(remarks),
        "peers": {peer.name: peer.title for peer in found},
        "rows": [
            {
                "key": row.key,
                "label": row.label,
                "figure": row.figure,
                "peers": {
                    peer.name: {
                        "median": results.median(peer.name, scenario.key, row.part, row.figure),
                        "samples": results.samples[peer.name].get((scenario.key, row.part), []),
                        "absent": results.absent.get((peer.name, scenario.key), ""),
                    }
                    for peer in found
                },
            }
            for scenario in scenarios
            for row in scenario.rows
        ],
    }


def write_reports(folder: Path, content: dict[str, object], picture: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (folder / "bench-brokers.json").write_text(text, encoding="utf-8")
    (folder / "bench-brokers.svg").write_text(picture, encoding="utf-8")
