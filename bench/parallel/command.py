"""`bench parallel`: one history, read by one subscriber, by groups, and by Spark; `.reports/bench-parallel.json`."""

from __future__ import annotations

import argparse
from functools import partial

from bench.measurement import measure
from bench.output import present
from bench.parallel import plot, rows
from bench.parallel.collect import QUICK, Amounts, Results, one_round
from bench.storage.table import Block, number

DEFAULTS: dict[str, object] = {"parallel_rows": 1_000_000}

CAPTION = (
    "Everything that is stored is read from its beginning. The x is how many times as fast as one subscriber. "
    "Subscribers are MQTT 5 clients with QoS 1, each in a separate process, that count and acknowledge and do nothing "
    "else with a message: a program that looks into them is slower. Spark counts rows of Arrow columns, and each query "
    "ran once before; its CPU is that of Java and of all its Pythons. That of the broker includes its history process. "
    "Messages have 64 random bytes of payload, topics of 34 bytes on average; two columns are `topic` and `payload`."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows",
        dest="parallel_rows",
        type=int,
        default=DEFAULTS["parallel_rows"],
        help="stored messages (default: 1000000)",
    )


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts(stored=wanted.parallel_rows)
    results, conditions = measure(wanted, partial(one_round, amounts))
    stored = f"{amounts.stored:,} stored messages of {amounts.devices:,} publishers with four topics each."
    present(wanted, "parallel", results, blocks(results), CAPTION, [stored, *conditions], plot.draw(results))
    return 0


def blocks(results: Results) -> list[Block]:
    single = results[f"{rows.SINGLE}/rate"]
    lines = []
    for reader in rows.READERS:
        rate, *cpu = (number(results[f"{reader.key}/{key}"], unit) for key, unit in rows.MEASURED.items())
        lines.append((reader.label, rate, f"{results[f'{reader.key}/rate'] / single:.2f}x", *cpu))
    return [Block(("who reads", "messages", "x", "CPU of the reader", "of the broker"), tuple(lines))]
