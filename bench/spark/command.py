"""`bench spark`: measures Spark over history, prints tables, and writes `.reports/bench-spark.json`."""

from __future__ import annotations

import argparse
import os

from rich.console import Console

from bench import conditions, document
from bench.checkout import ROOT
from bench.progress import progress_bar
from bench.reports import write_reports
from bench.spark import plot, rows
from bench.spark.collect import QUICK, Amounts, Results, collect
from bench.storage.table import Block, number, print_lines

DEFAULTS: dict[str, object] = {"spark_rows": 2_000_000}

CAPTION = (
    "Spark runs on this machine with two tasks at a time (`local[2]`), and each query ran once before. CPU is that of "
    "Java, of all its Pythons and of the history process, per row. Two columns are `topic` and `payload`; a grouped "
    "query counts messages and adds up the bytes of payload by topic. Parquet answers a count from the ends of its "
    "files. JSON files hold time, topic, QoS and payload (in hex), as a client's callback writes them. Messages have "
    "64 random bytes of payload, topics of 34 bytes on average."
)

_FILE_WIDTH = 130


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows",
        dest="spark_rows",
        type=int,
        default=DEFAULTS["spark_rows"],
        help="stored messages (default: 2000000)",
    )


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts(stored=wanted.spark_rows)
    rounds = 1 if wanted.quick else wanted.rounds
    load_before = os.getloadavg()[0]
    with progress_bar() as progress:
        results = collect(amounts, rounds, progress)
    stored = f"{amounts.stored:,} stored messages of {amounts.devices:,} devices with four topics each."
    notes = [stored, *conditions.describe(rounds, load_before)]
    found = blocks(results)
    console = Console()
    print_lines(found, [CAPTION, *notes], console if console.is_terminal else Console(width=_FILE_WIDTH))
    picture = plot.draw(results)
    write_reports(wanted.reports, "spark", {"values": results}, notes, picture)
    if wanted.docs:
        document.renew(ROOT, "spark", markdown(found, notes), picture)
    return 0


def blocks(results: Results) -> list[Block]:
    queries = [
        (query.label, *[number(results[f"query/{query.key}/{key}"], unit) for key, unit in rows.QUERIED.items()])
        for query in rows.QUERIES
    ]
    latency = [number(results[f"latency/{key}"], unit) for key, unit in rows.LATENCY.items()]
    waits = [
        (words, *[number(results[f"bystander/{moment}/{key}"], unit) for key, unit in rows.WAITED.items()])
        for moment, words in rows.MOMENTS.items()
    ]
    written = number(results[rows.WRITTEN], rows.MICROSECONDS)
    return [
        Block(("query", "rows", "CPU"), tuple(queries)),
        Block(("before that", "CPU"), (("an MQTT client in Python writes a message as JSON", written),)),
        Block(("from publishing to", "median", "99th of 100"), (("a row in a micro-batch", *latency),)),
        Block(("a bystander's PUBACK, while", "median", "99th of 100", "longest"), tuple(waits)),
    ]


def markdown(found: list[Block], notes: list[str]) -> str:
    lines: list[str] = []
    for block in found:
        lines += [f"| {' | '.join(block.headings)} |", f"|---|{'---:|' * (len(block.headings) - 1)}"]
        lines += [f"| {' | '.join(line)} |" for line in block.lines]
        lines.append("")
    return "\n".join([*lines, CAPTION, "", *[f"- {note}" for note in notes], ""])
