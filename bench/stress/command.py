"""`bench stress`: memory and bystanders of a broker on disk whose clients are slow, deaf, away, or all back at once.

Writes `.reports/bench-stress.json` and `.svg`. Everything is measured once: what counts are orders of magnitude.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace

from rich.console import Console

from bench import document
from bench.brokers import peers
from bench.checkout import ROOT
from bench.progress import progress_bar
from bench.reports import write_reports
from bench.stress import plot, table
from bench.stress.scenarios import FULL, QUICK, SCENARIOS, Amounts, Scenario, Stage

DEFAULTS: dict[str, object] = {"distinct": FULL.distinct, "troubles": ""}

#: Wide enough for the table when stdout is no terminal and so has no width.
_FILE_WIDTH = 180


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--distinct",
        type=int,
        default=DEFAULTS["distinct"],
        help="messages on topics of their own, for a thousand clients together (default: 1000000)",
    )
    parser.add_argument(
        "--troubles",
        default="",
        help=f"only these, with commas between them: {', '.join(scenario.key for scenario in SCENARIOS)}",
    )


def main(wanted: argparse.Namespace) -> int:
    names = wanted.troubles.split(",") if wanted.troubles else [scenario.key for scenario in SCENARIOS]
    unknown = set(names) - {scenario.key for scenario in SCENARIOS}
    if unknown:
        raise SystemExit(f"no such trouble: {', '.join(sorted(unknown))}")
    scenarios = [scenario for scenario in SCENARIOS if scenario.key in names]
    amounts = QUICK if wanted.quick else replace(FULL, distinct=wanted.distinct)
    peer = peers.find(peers.HOLDFAST, install=False)
    # Being told to stop is no reason to leave brokers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    load_before = os.getloadavg()[0]
    results: dict[str, dict[str, float]] = {}
    with progress_bar() as progress:
        task = progress.add_task("", total=len(scenarios))
        for scenario in scenarios:
            progress.update(task, description=scenario.label)
            results[scenario.key] = measure(peer, scenario, amounts)
            progress.advance(task)
    notes = [
        f"{amounts.clients:,} clients in the last three rows. Durability fsync, one round.",
        peer.note or "Compiled modules.",
        f"Load of the machine before it began: {load_before:.1f} on {os.cpu_count()} processors.",
    ]
    shown = table.lines(results, scenarios)
    console = Console()
    table.print_table(shown, notes, console if console.is_terminal else Console(width=_FILE_WIDTH))
    picture = plot.draw(results, scenarios)
    write_reports(wanted.reports, "stress", {"values": results}, notes, picture)
    if wanted.docs:
        document.renew(ROOT, "stress", table.markdown(shown, notes), picture)
    return 0


def measure(peer: peers.Peer, scenario: Scenario, amounts: Amounts) -> dict[str, float]:
    """The figures of one scenario, on a separate broker."""
    broker = peer.start()
    try:
        stage = Stage(broker, amounts)
        try:
            return stage.figures(scenario.run(stage))
        finally:
            stage.close()
    finally:
        broker.stop()
