"""`bench history`: measures reading through Arrow Flight, prints tables, and writes `.reports/bench-history.json`."""

from __future__ import annotations

import argparse
from functools import partial

from bench.history import plot, rows
from bench.history.collect import QUICK, Amounts, Results, one_round
from bench.measurement import measure
from bench.output import present
from bench.storage.table import Block, number

DEFAULTS: dict[str, object] = {"rows": 1_000_000}

CAPTION = (
    "Everything that is stored is read, by one client, from a history process beside a broker that is idle but for the "
    "bystander. CPU is that of the history process, per row. Messages have 64 random bytes of payload, topics of 34 "
    "bytes on average. The bystander publishes a QoS 1 message every 5 ms, whose PUBACK waits for a sync."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=DEFAULTS["rows"], help="stored messages (default: 1000000)")


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts(stored=wanted.rows)
    results, conditions = measure(wanted, partial(one_round, amounts))
    stored = f"{amounts.stored:,} stored messages of {amounts.devices:,} devices with four topics each."
    present(wanted, "history", results, blocks(results), CAPTION, [stored, *conditions], plot.draw(results))
    return 0


def blocks(results: Results) -> list[Block]:
    scans = [
        (scan.label, *[number(results[f"scan/{scan.key}/{key}"], unit) for key, unit in rows.SCANNED.items()])
        for scan in rows.SCANS
    ]
    waits = [
        (words, *[number(results[f"bystander/{moment}/{key}"], unit) for key, unit in rows.WAITED.items()])
        for moment, words in rows.MOMENTS.items()
    ]
    return [
        Block(("scan", "rows", "CPU"), tuple(scans)),
        Block(("a bystander's PUBACK, while", "median", "99th of 100", "longest"), tuple(waits)),
    ]
