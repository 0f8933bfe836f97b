"""The tables: for people at a terminal, and as Markdown for the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.storage import rows
from bench.storage.collect import Results
from bench.storage.rows import Row

CAPTION = (
    "Every commit is synced before its receipt. Overlapping, as in a broker: up to eight are pending while the "
    "next one is built. CPU time is that of all threads. Messages have 64 random bytes of payload unless a row says "
    "otherwise, topics of 34 bytes on average, and client ids of 10."
)


@dataclass(frozen=True)
class Block:
    """One table: headings, and lines of cells."""

    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def blocks(results: Results, stored: tuple[int, ...]) -> list[Block]:
    commits = [(f"{size:,}", *_cells(results, "commit", size, rows.COMMIT)) for size in rows.COMMITS]
    kept = [(f"{size:,} B", *_cells(results, "payload", size, rows.KEPT)) for size in rows.PAYLOADS]
    slices = [
        (words, *[number(results[f"segments/{moment}_{row.key}"], row.unit) for row in rows.SLICES])
        for moment, words in rows.MOMENTS.items()
    ]
    kinds = [
        (row.label, *[number(results[f"stored/{size}/{row.key}"], row.unit) for size in stored], _goal(row))
        for row in rows.STORED
    ]
    return [
        Block(("messages in a commit", *[row.label for row in rows.COMMIT]), tuple(commits)),
        Block(("stored", *[f"{size:,} messages" for size in stored], "goal at 10 million"), tuple(kinds)),
        Block(("the loop, while segments are made, and", *[row.label for row in rows.SLICES]), tuple(slices)),
        Block(("payload", *[row.label for row in rows.KEPT]), tuple(kept)),
    ]


def _cells(results: Results, kind: str, size: int, wanted: tuple[Row, ...]) -> list[str]:
    return [number(results[f"{kind}/{size}/{row.key}"], row.unit) for row in wanted]


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    return f"{'≥' if row.unit == rows.PER_SECOND else '≤'} {number(row.goal, row.unit)}"


def number(value: float, unit: str) -> str:
    if unit == rows.PER_SECOND:
        short = f"{value / 1e6:.2f}M" if value >= 1e6 else f"{value / 1e3:.0f}k" if value >= 1e4 else f"{value:,.0f}"
        return f"{short}/s"
    if unit == rows.COUNT:
        return f"{value:,.0f}"
    if value >= 1000 and unit == rows.MILLISECONDS:
        return f"{value / 1000:.2f} s"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def print_tables(found: list[Block], notes: list[str], console: Console) -> None:
    print_lines(found, [CAPTION, *notes], console)


def print_lines(found: list[Block], notes: list[str], console: Console) -> None:
    for block in found:
        table = Table(header_style="bold")
        for place, heading in enumerate(block.headings):
            table.add_column(heading, justify="right" if place else "left", no_wrap=True)
        for line in block.lines:
            table.add_row(*map(Text, line))
        console.print(table)
    for note in notes:
        console.print(Text(note))


def markdown(found: list[Block], notes: list[str]) -> str:
    lines: list[str] = []
    for block in found:
        lines += [f"| {' | '.join(block.headings)} |", f"|---|{'---:|' * (len(block.headings) - 1)}"]
        lines += [f"| {' | '.join(line)} |" for line in block.lines]
        lines.append("")
    return "\n".join([*lines, CAPTION, "", *[f"- {note}" for note in notes], ""])
