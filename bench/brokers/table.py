"""The table: for people at a terminal, and as Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.brokers.collect import Results
from bench.brokers.peers import RELAY, Peer
from bench.brokers.scenarios import BYTES, RATE, Row, Scenario

#: From this share of a processor on, the generator and not the broker may be what is measured.
BUSY = 0.85
_BUSY_MARK = "*"

CAPTION = (
    "Messages per second that reached subscribers (or connections per second), and CPU time of the broker for each; "
    "medians of the rounds. The x behind a peer is Holdfast's figure divided by the peer's: above 1 Holdfast is "
    "faster, or for times and memory needs more. The last column is the generator's ceiling: what it could send and "
    "check by its own CPU time, measured against a process that hands on bytes and decides nothing."
)
BUSY_NOTE = f"{_BUSY_MARK} The generator was busy most of the time: the broker may be faster than shown."


@dataclass(frozen=True)
class Line:
    """One row, ready to be shown."""

    label: str
    cells: tuple[str, ...]


def headings(peers: Sequence[Peer]) -> list[str]:
    first, *others = peers
    names = [first.title]
    for peer in others:
        names += [peer.title] if peer.name == RELAY else [peer.title, "x"]
    return names


def lines(results: Results, scenarios: Sequence[Scenario], peers: Sequence[Peer]) -> list[Line]:
    first, *others = peers
    found = []
    for scenario in scenarios:
        for row in scenario.rows:
            cells = [cell(results, scenario, row, first)]
            for peer in others:
                cells.append(cell(results, scenario, row, peer))
                if peer.name != RELAY:
                    cells.append(ratio(results, scenario, row, first, peer))
            found.append(Line(row.label, tuple(cells)))
    return found


def cell(results: Results, scenario: Scenario, row: Row, peer: Peer) -> str:
    value = results.median(peer.name, scenario.key, row.part, row.figure)
    if peer.name == RELAY and (row.figure != RATE or value is None):
        return ""
    if value is None:
        return short(results.absent.get((peer.name, scenario.key), ""))
    if row.figure == BYTES:
        return f"{value:,.0f} B" if value < 10_000 else f"{value / 1024:,.1f} KB"
    if row.figure != RATE:
        return f"{value:,.0f} µs"
    if peer.name == RELAY:
        return rate(ceiling(results, scenario, row))
    shown = rate(value)
    cpu_us = results.median(peer.name, scenario.key, row.part, "cpu_us") or 0.0
    busy = (results.median(peer.name, scenario.key, row.part, "generator_share") or 0.0) >= BUSY
    return f"{shown}{_BUSY_MARK if busy else ''} {number(cpu_us)} µs"


def ratio(results: Results, scenario: Scenario, row: Row, first: Peer, peer: Peer) -> str:
    ours = results.median(first.name, scenario.key, row.part, row.figure)
    theirs = results.median(peer.name, scenario.key, row.part, row.figure)
    if ours is None or not theirs or theirs <= 0:
        return ""
    return f"{number(ours / theirs)}x"


def ceiling(results: Results, scenario: Scenario, row: Row) -> float:
    """Messages per second if the generator had nothing to wait for."""
    return 1e6 / (results.median(RELAY, scenario.key, row.part, "generator_us") or 1e6)


def short(reason: str) -> str:
    """A reason that fits a cell: the whole of it stands below the table."""
    return "-" if not reason else reason if len(reason) <= 12 else "failed"


def rate(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.2f}M"
    return f"{value / 1e3:.0f}k" if value >= 1e4 else f"{value / 1e3:.1f}k" if value >= 1e3 else f"{value:.0f}"


def number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def notes(results: Results, peers: Sequence[Peer], scenarios: Sequence[Scenario], missing: Sequence[str]) -> list[str]:
    """What is to be said below the table."""
    titles = {peer.name: peer.title for peer in peers}
    labels = {scenario.key: scenario.label for scenario in scenarios}
    found = [*missing, *(peer.note for peer in peers if peer.note)]
    if any(_BUSY_MARK in text for line in lines(results, scenarios, peers) for text in line.cells):
        found.append(BUSY_NOTE)
    for (peer, scenario), reason in results.absent.items():
        if short(reason) != reason and peer != RELAY:
            found.append(f"{titles[peer]}, {labels[scenario]}: {reason}")
    return found


def print_table(found: Sequence[Line], columns: Sequence[str], remarks: Sequence[str], console: Console) -> None:
    table = Table(caption=CAPTION, caption_justify="left", header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for line in found:
        table.add_row(line.label, *line.cells)
    console.print(table)
    for remark in remarks:
        console.print(remark, markup=False)


def markdown(found: Sequence[Line], columns: Sequence[str], remarks: Sequence[str]) -> str:
    """The same table for a document."""
    head = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    body = [f"| {line.label} | {' | '.join(line.cells)} |" for line in found]
    below = [f"- {remark.replace('*', chr(92) + '*')}" for remark in remarks]
    return "\n".join([*head, *body, "", CAPTION, "", *below, ""])
