"""The table: for people at a terminal, and as Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.stress.scenarios import Scenario

#: By scenario, by figure.
Results = Mapping[str, Mapping[str, float]]

HEADINGS = ("", "messages", "took", "RSS before", "peak", "after", "bystander p50 / p99 before", "during")
CAPTION = (
    "Memory of the broker's process before, during and after the trouble, and a bystander: one publisher and one "
    "subscriber of QoS 1, 200 messages a second, in a process of their own; how late is counted from when a message "
    "was due. Messages are those that the trouble is about: received, or queued for clients that are away."
)


def lines(results: Results, scenarios: Sequence[Scenario]) -> list[tuple[str, ...]]:
    return [(scenario.label, *_cells(results[scenario.key])) for scenario in scenarios]


def _cells(found: Mapping[str, float]) -> list[str]:
    sizes = [f"{found[name] / 2**20:,.0f} MB" for name in ("before_bytes", "peak_bytes", "after_bytes")]
    late = [f"{found[f'{when}_p50_ms']:.1f} / {found[f'{when}_p99_ms']:.1f} ms" for when in ("before", "during")]
    return [f"{found['messages']:,.0f}", f"{found['seconds']:,.1f} s", *sizes, *late]


def print_table(shown: Sequence[Sequence[str]], notes: Sequence[str], console: Console) -> None:
    table = Table(header_style="bold")
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if place else "left", no_wrap=True)
    for line in shown:
        table.add_row(*map(Text, line))
    console.print(table)
    for note in [CAPTION, *notes]:
        console.print(Text(note))


def markdown(shown: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    head = [f"| {' | '.join(HEADINGS)} |", f"|---|{'---:|' * (len(HEADINGS) - 1)}"]
    body = [f"| {' | '.join(line)} |" for line in shown]
    return "\n".join([*head, *body, "", CAPTION, "", *[f"- {note}" for note in notes], ""])
