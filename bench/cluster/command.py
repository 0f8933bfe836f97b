"""`bench cluster`: three nodes against three NATS servers, and what a cluster costs; `.reports/bench-cluster.json`."""

from __future__ import annotations

import argparse
import logging
import math

import structlog

from bench.cluster import plot, rows
from bench.cluster.collect import PARTS, QUICK, Amounts, Collector
from bench.cluster.rows import FigureRow
from bench.measurement import measure
from bench.output import present
from bench.storage.rows import MICROSECONDS, PER_SECOND
from bench.storage.table import Block, number

DEFAULTS: dict[str, object] = {"missed": Amounts.missed_messages, "parts": ""}

CAPTION = (
    "Three nodes, each with a NATS server, on one machine with the load generator. Publishers and subscribers are "
    "spread over the nodes, no subscriber at the node of its publisher. NATS: three servers with MQTT, three copies of "
    "each stream and consumer, every record synced. CPU time is that of all three nodes and their servers for each "
    "message. Connects are whole CONNECTs through the nodes; compare-and-set is one read and one conditional write of "
    "a key in a bucket with three copies, and no MQTT. What is appended alone has the mean size of the records of the "
    "first load."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--missed",
        type=int,
        default=DEFAULTS["missed"],
        help=f"messages that a node misses before it catches up (default: {DEFAULTS['missed']})",
    )

    parser.add_argument("--parts", default="", help=f"only these, with commas between them: {', '.join(PARTS)}")


def main(wanted: argparse.Namespace) -> int:
    parts = wanted.parts.split(",") if wanted.parts else list(PARTS)
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise SystemExit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    # Servers that are not there yet are no news.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    collector = Collector(QUICK if wanted.quick else Amounts(missed_messages=wanted.missed), parts)
    measured, conditions = measure(wanted, collector.one_round)
    results = dict.fromkeys(rows.keys(), math.nan) | measured
    notes = [*dict.fromkeys(collector.problems), *conditions]
    if "record/messages" in measured:
        size = f"{results['record/messages']:,.0f} messages and {results['record/bytes']:,.0f} bytes"
        notes.insert(0, f"Records of the first load had {size} on average.")
    present(wanted, "cluster", results, blocks(results), CAPTION, notes, plot.draw(results))
    return 0


def blocks(results: dict[str, float]) -> list[Block]:
    loads = []
    for row in rows.LOADS:
        cells = [_rate_and_cpu(results, peer, row.key) for peer in (rows.OURS, rows.NATS)]
        ours, theirs = (results[f"{peer}/{row.key}/rate"] for peer in (rows.OURS, rows.NATS))
        loads.append((row.label, *cells, _ratio(ours, theirs), f"≥ {row.goal:g}x"))
    figures = [_figure(results, row) for row in rows.FIGURES]
    return [
        Block(("messages to subscribers", "Holdfast", "NATS", "x", "goal"), tuple(loads)),
        Block(("", "Holdfast", "against", "x", "goal"), tuple(figures)),
    ]


def _rate_and_cpu(results: dict[str, float], peer: str, key: str) -> str:
    rate, cpu_us = results[f"{peer}/{key}/rate"], results[f"{peer}/{key}/cpu"]
    return f"{_number(rate, PER_SECOND)} {_number(cpu_us, MICROSECONDS)}"


def _figure(results: dict[str, float], row: FigureRow) -> tuple[str, ...]:
    value = results[row.key]
    unit = "x" if row.against else f" {row.unit}"
    goal = ""
    if row.at_least is not None:
        goal = f"≥ {row.at_least:g}{unit}"
    elif row.at_most is not None:
        goal = f"≤ {row.at_most:g}{unit}"
    if not row.against:
        return (row.label, _number(value, row.unit), "", "", goal)
    theirs = results[row.against]
    against = f"{_number(theirs, row.unit)} {row.against_label}"
    return (row.label, _number(value, row.unit), against, _ratio(value, theirs), goal)


def _number(value: float, unit: str) -> str:
    return "-" if math.isnan(value) else number(value, unit)


def _ratio(ours: float, theirs: float) -> str:
    return "" if math.isnan(ours) or math.isnan(theirs) or theirs <= 0 else f"{ours / theirs:.2f}x"
