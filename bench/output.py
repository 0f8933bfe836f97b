"""What a benchmark shows when it is done: tables for people at a terminal, reports, and its part of the documents."""

from __future__ import annotations

import argparse

from rich.console import Console

from bench import document
from bench.checkout import ROOT
from bench.reports import write_reports
from bench.storage.table import Block, print_lines

#: Wide enough for the tables when stdout is no terminal and so has no width.
_FILE_WIDTH = 130


def present(
    wanted: argparse.Namespace,
    name: str,
    results: dict[str, float],
    found: list[Block],
    caption: str,
    notes: list[str],
    picture: str,
) -> None:
    """`wanted` says where reports go, and whether the documents are renewed."""
    console = Console()
    print_lines(found, [caption, *notes], console if console.is_terminal else Console(width=_FILE_WIDTH))
    write_reports(wanted.reports, name, {"values": results}, notes, picture)
    if wanted.docs:
        document.renew(ROOT, name, markdown(found, caption, notes), picture)


def markdown(found: list[Block], caption: str, notes: list[str]) -> str:
    lines: list[str] = []
    for block in found:
        lines += [f"| {' | '.join(block.headings)} |", f"|---|{'---:|' * (len(block.headings) - 1)}"]
        lines += [f"| {' | '.join(line)} |" for line in block.lines]
        lines.append("")
    return "\n".join([*lines, caption, "", *[f"- {note}" for note in notes], ""])
