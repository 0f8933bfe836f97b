"""`python -m bench COMMAND`: measure one part of Holdfast (`COMMANDS`), or without a command all of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench.brokers import command as brokers
from bench.checkout import ROOT
from bench.cluster import command as cluster
from bench.codec import command as codec
from bench.console import command as console
from bench.history import command as history
from bench.jobs import command as jobs
from bench.layouts import command as layouts
from bench.parallel import command as parallel
from bench.queues import command as queues
from bench.spark import command as spark
from bench.storage import command as storage
from bench.stress import command as stress

COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "codec": codec.main,
    "brokers": brokers.main,
    "cluster": cluster.main,
    "layouts": layouts.main,
    "storage": storage.main,
    "stress": stress.main,
    "history": history.main,
    "console": console.main,
    "queues": queues.main,
    "spark": spark.main,
    "jobs": jobs.main,
    "parallel": parallel.main,
}


def common_options(*, defaults: bool) -> argparse.ArgumentParser:
    """Options of every command. Behind a command they have no defaults, which would undo what stands before it."""
    parser = argparse.ArgumentParser(add_help=False, argument_default=None if defaults else argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_const", const=True, help="small and short: does it run?")
    parser.add_argument("--rounds", type=int, help="how often everything is measured (default: 3)")
    parser.add_argument("--reports", type=Path, help="folder of the JSON and the pictures (default: .reports)")
    parser.add_argument(
        "--docs", action="store_const", const=True, help="also renew docs/benchmarks.md and its pictures"
    )
    return parser


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Holdfast. Without a command, everything.",
        parents=[common_options(defaults=True)],
    )
    suites = (codec, brokers, cluster, layouts, storage, stress, history, console, queues, spark, jobs, parallel)
    own = {name: value for suite in suites for name, value in suite.DEFAULTS.items()}
    parser.set_defaults(command=None, quick=False, docs=False, rounds=3, reports=ROOT / ".reports", **own)
    commands = parser.add_subparsers(title="commands", metavar=" | ".join(COMMANDS))
    for name, add_options, purpose in (
        ("codec", codec.add_options, "codec and matcher, interpreted and compiled"),
        ("brokers", brokers.add_options, "Holdfast and other brokers under load"),
        ("cluster", cluster.add_options, "three nodes against three NATS servers, and what a cluster costs"),
        ("layouts", layouts.add_options, "the layouts of the log on the same messages"),
        ("storage", storage.add_options, "the log on disk: commits, replays, starts, bytes"),
        ("stress", stress.add_options, "memory and bystanders while clients are slow, deaf, away, or all back"),
        ("history", history.add_options, "reading through Arrow Flight, and who notices"),
        ("console", console.add_options, "the console's budgets: what the broker notices, and how fast it answers"),
        (
            "queues",
            queues.add_options,
            "backends of client queues: journal, Redis, PostgreSQL; and one script per message",
        ),
        ("spark", spark.add_options, "queries of Spark over the log and over files, latency, and who notices"),
        ("jobs", jobs.add_options, "Spark's jobs: rows per second, and memory of their driver"),
        ("parallel", parallel.add_options, "one history read by one subscriber, by groups, and by Spark"),
    ):
        one = commands.add_parser(name, help=purpose, description=purpose, parents=[common_options(defaults=False)])
        one.set_defaults(command=name)
        add_options(one)
    found = parser.parse_args(arguments)
    if found.rounds < 1:
        parser.error("--rounds must be at least 1")
    if found.docs and found.quick:
        parser.error("--docs wants real numbers, --quick has none")
    return found


def main(arguments: list[str]) -> int:
    wanted = parse_arguments(arguments)
    names = [wanted.command] if wanted.command else list(COMMANDS)
    return max([COMMANDS[name](wanted) for name in names])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
