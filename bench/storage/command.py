"""`bench storage`: measures the log on disk, prints tables, and writes `.reports/bench-storage.json` and `.svg`.

The parent only collects: everything that is measured runs in child processes (see `child`), because memory, opening
and being killed are matters of a whole process.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rich.console import Console

from bench import conditions, document
from bench.checkout import ROOT
from bench.progress import progress_bar
from bench.reports import write_reports
from bench.storage import plot, table
from bench.storage.collect import QUICK, Amounts, collect

DEFAULTS: dict[str, object] = {"stored": "1000000", "disk": None}

#: Wide enough for the tables when stdout is no terminal and so has no width.
_FILE_WIDTH = 130


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stored", default=DEFAULTS["stored"], help="numbers of stored messages, with commas (default: 1000000)"
    )
    parser.add_argument("--disk", type=Path, help="measure on the disk of this folder (default: that of /tmp)")


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts(parse_stored(wanted.stored))
    rounds = 1 if wanted.quick else wanted.rounds
    load_before = os.getloadavg()[0]
    with progress_bar() as progress:
        results = collect(amounts, rounds, wanted.disk, progress)
    devices = (
        f"Stored messages are of {amounts.devices:,} devices with four topics each; commits and payloads of "
        f"{amounts.few_devices:,}."
    )
    notes = [devices, *conditions.describe(rounds, load_before)]
    blocks = table.blocks(results, amounts.stored)
    console = Console()
    table.print_tables(blocks, notes, console if console.is_terminal else Console(width=_FILE_WIDTH))
    picture = plot.draw(results)
    write_reports(wanted.reports, "storage", {"values": results}, notes, picture)
    if wanted.docs:
        document.renew(ROOT, "storage", table.markdown(blocks, notes), picture)
    return 0


def parse_stored(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise SystemExit(f"--stored: {text!r} is no list of numbers; right would be 1000000,10000000")
    return tuple(map(int, parts))
