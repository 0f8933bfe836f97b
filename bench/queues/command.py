"""`bench queues`: measures backends of client queues, prints tables, writes `.reports/bench-queues.json` and `.svg`."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from bench import conditions
from bench.output import present
from bench.progress import progress_bar
from bench.queues import plot, table
from bench.queues.broker_throughput import possible
from bench.queues.collect import QUICK, Amounts, collect

DEFAULTS: dict[str, object] = {"disk": None}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--disk", type=Path, help="measure on the disk of this folder (default: that of /tmp)")


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts()
    amounts = replace(amounts, pairs=tuple(possible(count) for count in amounts.pairs))
    rounds = 1 if wanted.quick else wanted.rounds
    load_before = os.getloadavg()[0]
    with progress_bar() as progress:
        results = collect(amounts, rounds, wanted.disk, progress)
    blocks = table.blocks(results, amounts.clients, amounts.pairs)
    picture = plot.draw(results, amounts.clients)
    present(wanted, "queues", results, blocks, table.CAPTION, conditions.describe(rounds, load_before), picture)
    return 0
