"""`python -m bench COMMAND`: measure one part of Holdfast (`COMMANDS`), or without a command all of them."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from bench.checkout import ROOT

#: Each is measured by `bench.NAME.command`.
COMMANDS = {
    "codec": "codec and matcher, interpreted and compiled",
    "brokers": "Holdfast and other brokers under load",
    "cluster": "three nodes against three NATS servers, and what a cluster costs",
    "layouts": "the layouts of the log on the same messages",
    "storage": "the log on disk: commits, replays, starts, bytes",
    "stress": "memory and bystanders while clients are slow, deaf, away, or all back",
    "history": "reading through Arrow Flight, and who notices",
    "console": "the console's budgets: what the broker notices, and how fast it answers",
    "queues": "backends of client queues: journal, Redis, PostgreSQL; and one script per message",
    "spark": "queries of Spark over the log and over files, latency, and who notices",
    "jobs": "Spark's jobs: rows per second, and memory of their driver",
    "parallel": "one history read by one subscriber, by groups, and by Spark",
}


def suites(names: list[str]) -> dict[str, Any]:
    """The modules of some commands: all of them take longer to import than some quick runs."""
    return {name: importlib.import_module(f"bench.{name}.command") for name in names}


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
    # Without a command, and for what is none, there are the options of all.
    named = suites([name for name in COMMANDS if name in arguments] or list(COMMANDS))
    own = {name: value for suite in named.values() for name, value in suite.DEFAULTS.items()}
    parser.set_defaults(command=None, quick=False, docs=False, rounds=3, reports=ROOT / ".reports", **own)
    commands = parser.add_subparsers(title="commands", metavar=" | ".join(COMMANDS))
    for name, suite in named.items():
        purpose = COMMANDS[name]
        one = commands.add_parser(name, help=purpose, description=purpose, parents=[common_options(defaults=False)])
        one.set_defaults(command=name)
        suite.add_options(one)
    found = parser.parse_args(arguments)
    if found.rounds < 1:
        parser.error("--rounds must be at least 1")
    if found.docs and found.quick:
        parser.error("--docs wants real numbers, --quick has none")
    return found


def main(arguments: list[str]) -> int:
    wanted = parse_arguments(arguments)
    names = [wanted.command] if wanted.command else list(COMMANDS)
    statuses: list[int] = [suite.main(wanted) for suite in suites(names).values()]
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
