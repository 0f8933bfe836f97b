"""`bench spark`: measures Spark over history, prints tables, and writes `.reports/bench-spark.json`."""

from __future__ import annotations

import argparse
from functools import partial

from bench.measurement import measure
from bench.output import present
from bench.spark import plot, rows
from bench.spark.collect import QUICK, Amounts, Results, one_round
from bench.storage.table import Block, number

DEFAULTS: dict[str, object] = {"spark_rows": 2_000_000, "spark_devices": 10_000}

CAPTION = (
    "Spark runs on this machine with two tasks at a time (`local[2]`), and each query ran once before. CPU is that of "
    "Java, of all its Pythons and of the history process, per row. Two columns are `topic` and `payload`; a grouped "
    "query counts messages and adds up the bytes of payload by topic. Parquet answers a count from the ends of its "
    "files. JSON files hold time, topic, QoS and payload (in hex), as a client's callback writes them. Messages have "
    "64 random bytes of payload, topics of 34 bytes on average."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows",
        dest="spark_rows",
        type=int,
        default=DEFAULTS["spark_rows"],
        help="stored messages (default: 2000000)",
    )
    parser.add_argument(
        "--spark-devices",
        type=int,
        default=DEFAULTS["spark_devices"],
        help="devices that published them (default: 10000)",
    )


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts(stored=wanted.spark_rows, devices=wanted.spark_devices)
    results, conditions = measure(wanted, partial(one_round, amounts))
    stored = f"{amounts.stored:,} stored messages of {amounts.devices:,} devices with four topics each."
    present(wanted, "spark", results, blocks(results), CAPTION, [stored, *conditions], plot.draw(results))
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
    device = [(words, number(results[f"device/{key}_ms"], rows.MILLISECONDS)) for key, words in rows.DEVICE.items()]
    written = number(results[rows.WRITTEN], rows.MICROSECONDS)
    return [
        Block(("query", "rows", "CPU"), tuple(queries)),
        Block(("before that", "CPU"), (("an MQTT client in Python writes a message as JSON", written),)),
        Block(("all messages on one topic, by", "took"), tuple(device)),
        Block(("from publishing to", "median", "99th of 100"), (("a row in a micro-batch", *latency),)),
        Block(("a bystander's PUBACK, while", "median", "99th of 100", "longest"), tuple(waits)),
    ]
