"""`bench queues`: measures homes of client queues, prints tables, writes `.reports/bench-queues.json` and `.svg`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rich.console import Console

from bench import conditions, document
from bench.checkout import ROOT
from bench.progress import progress_bar
from bench.queues import plot, table
from bench.queues.collect import QUICK, Amounts, collect
from bench.reports import write_reports
from bench.storage.table import print_lines

DEFAULTS: dict[str, object] = {"disk": None}

#: Wide enough for the tables when stdout is no terminal and so has no width.
_FILE_WIDTH = 130


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--disk", type=Path, help="measure on the disk of this folder (default: that of /tmp)")


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts()
    rounds = 1 if wanted.quick else wanted.rounds
    load_before = os.getloadavg()[0]
    with progress_bar() as progress:
        results = collect(amounts, rounds, wanted.disk, progress)
    notes = conditions.describe(rounds, load_before)
    blocks = table.blocks(results, amounts.clients)
    console = Console()
    print_lines(blocks, [table.CAPTION, *notes], console if console.is_terminal else Console(width=_FILE_WIDTH))
    picture = plot.draw(results, amounts.clients)
    write_reports(wanted.reports, "queues", {"values": results}, notes, picture)
    if wanted.docs:
        document.renew(ROOT, "queues", table.markdown(blocks, notes), picture)
    return 0
