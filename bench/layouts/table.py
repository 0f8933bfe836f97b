"""The tables as Markdown, one for each size."""

from __future__ import annotations

from bench.layouts import arrow_scan
from bench.layouts.sizes import Results
from holdfast.storage.rocks.bench.layout_report import CAPTION, cells, rows


def markdown(results: Results, notes: list[str]) -> str:
    lines: list[str] = []
    for size, by_layout in results.items():
        lines += [f"| {size.title} | {' | '.join(by_layout)} |", f"|---|{'---:|' * len(by_layout)}"]
        lines += [
            f"| {row.label} | {' | '.join(cells(row, list(by_layout.values())))} |"
            for row in [*rows(), *arrow_scan.ROWS]
        ]
        lines.append("")
    return "\n".join([*lines, CAPTION, "", *[f"- {note}" for note in notes], ""])
