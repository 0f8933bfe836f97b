"""`bench console`: measures the console's budgets, prints which are met, and writes `.reports/bench-console.json`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace

import structlog
from rich.progress import Progress

from bench.console import plot, rows
from bench.console.collect import FULL, QUICK, Amounts, Stage
from bench.console.rows import Budget
from bench.measurement import measure
from bench.output import present
from bench.storage.table import Block, number

DEFAULTS: dict[str, object] = {"console_messages": 0, "console_clients": 0, "full": False}

CAPTION = (
    "Three brokers on copies of the same day of messages, with fsync and access rules: one without a console, one "
    "whose console nobody looks at, one whose console is used. They take turns, and ratios are against the first. CPU "
    "is that of the broker's own process. Throughput is QoS 1, 10 → 10; a bystander publishes 200 messages of QoS 1 a "
    "second beside 1,000 of others. Times of the API and of the time machine are those of a program on the same "
    "machine. Many clients are those of a stand-in for the broker on the control socket. A hold of the loop is known "
    "by the bound of its bucket: 0.1, 0.25, 0.5, 1, 2.5, 5, 10 ms, … The page is what the overview loads, compressed. "
    "The browser is Debian's chromium without a window, on the same machine."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    default = Amounts()
    parser.add_argument(
        "--messages",
        dest="console_messages",
        type=int,
        default=DEFAULTS["console_messages"],
        help=f"stored messages, of ten thousand devices (default: {default.messages})",
    )
    parser.add_argument(
        "--clients",
        dest="console_clients",
        type=int,
        default=DEFAULTS["console_clients"],
        help=f"clients that are connected to each broker (default: {default.clients})",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        default=DEFAULTS["full"],
        help="the sizes of the budgets: ten million messages of 100,000 devices, 10,000 clients",
    )


def amounts_of(wanted: argparse.Namespace) -> Amounts:
    amounts = QUICK if wanted.quick else FULL if wanted.full else Amounts()
    if wanted.console_messages:
        amounts = replace(amounts, messages=wanted.console_messages)
    if wanted.console_clients:
        amounts = replace(amounts, clients=wanted.console_clients)
    return amounts


def main(wanted: argparse.Namespace) -> int:
    amounts = amounts_of(wanted)
    # Generations of the prepared data are no news.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    # Being told to stop is no reason to leave brokers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    run = _Run(amounts)
    try:
        results, conditions = measure(wanted, run.one_round)
    finally:
        run.close()
    stored = f"{run.stored:,} stored messages of {amounts.devices:,} devices, and {amounts.talkers:,} topics that"
    notes = [
        f"{stored} speak once a minute; {amounts.clients:,} clients at each broker, {amounts.many:,} by the stand-in.",
        *conditions,
        summary(results),
    ]
    present(wanted, "console", results, blocks(results), CAPTION, notes, plot.draw(results))
    return 0


class _Run:
    """A stage that is made in the first round, where progress is shown, and serves all of them."""

    def __init__(self, amounts: Amounts) -> None:
        self._amounts = amounts
        self._stage: Stage | None = None

    @property
    def stored(self) -> int:
        return 0 if self._stage is None else self._stage.stored

    def one_round(self, progress: Progress) -> Iterator[tuple[str, float]]:
        if self._stage is None:
            self._stage = Stage(self._amounts)
            self._stage.open(progress)
        return self._stage.one_round(progress)

    def close(self) -> None:
        if self._stage is not None:
            self._stage.close()


def blocks(results: dict[str, float]) -> list[Block]:
    return [
        Block((heading, "measured", "", "budget", ""), tuple(_line(budget, results) for budget in budgets))
        for heading, table in rows.TABLES.items()
        if (budgets := rows.measured(table, results))
    ]


def _line(budget: Budget, results: dict[str, float]) -> tuple[str, ...]:
    met = budget.is_met(results)
    verdict = "" if met is None else "met" if met else "missed"
    sign = "≥" if budget.at_least else "≤"
    figure = number(results[budget.key], budget.unit).strip()
    if budget.against:
        figures = f"{figure} : {number(results[budget.against], budget.unit)}"
        bound = "" if budget.bound is None else f"{sign} {budget.bound:g}x"
        return budget.label, f"{budget.value(results):.3f}x", figures, bound, verdict
    bound = "" if budget.bound is None else f"{sign} {number(budget.bound, budget.unit).strip()}"
    return budget.label, figure, "", bound, verdict


def summary(results: dict[str, float]) -> str:
    found = [met for budget in rows.measured(rows.BUDGETS, results) if (met := budget.is_met(results)) is not None]
    return f"{sum(found)} of {len(found)} budgets are met."
