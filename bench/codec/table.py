"""The table: for people at a terminal, and as Markdown for the documentation."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.codec import rows
from bench.codec.collect import Results
from bench.codec.rows import Row
from bench.codec.variants import COMPILED, FORMS, GROUP, INTERPRETED

TITLES = {
    rows.DECODE: "decode, per PUBLISH",
    rows.ENCODE: "encode, per PUBLISH",
    rows.ROUTE: "decode and route, per PUBLISH",
    rows.MATCH: "subscriptions",
}
HEADINGS = {INTERPRETED: "interpreted", COMPILED: "compiled", GROUP: "in the group"}

CAPTION = (
    "Processor time per packet or topic, in µs unless a unit is given: passes over 700 pipelined packets or up to "
    "5,000 topics, loop included. Interpreted and compiled run the same interpreted loop; in the group, the loop is "
    "compiled together with the modules. The ratio compares the first column with the last. Routing and matching "
    "include cutting the topic out of a buffer."
)


def cells(row: Row, results: Results) -> list[str]:
    """A row's values by form, then how many times the last form is better than the interpreted one."""
    forms = present(results)
    values = [results[form].get(row.key) for form in forms]
    shown = ["n/a" if value is None else number(value, row.unit) for value in values]
    first, last = values[0], values[-1]
    if len(forms) > 1:
        shown.append(f"{first / last:.1f}x" if first and last and row.unit != rows.RATIO else "")
    return shown


def present(results: Results) -> list[str]:
    """The forms that were measured, in the order of the columns."""
    return [form for form in FORMS if form in results]


def number(value: float, unit: str) -> str:
    if unit == rows.BYTES:
        return f"{value:.0f} B"
    if unit == rows.RATIO:
        return f"{value:.2f}x"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def headings(results: Results) -> list[str]:
    names = [HEADINGS[form] for form in present(results)]
    return [*names, "ratio"] if len(names) > 1 else names


def print_table(results: Results, found: list[Row], notes: list[str], console: Console) -> None:
    table = Table(caption=CAPTION, caption_justify="left", header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in headings(results):
        table.add_column(heading, justify="right", no_wrap=True)
    for section in rows.SECTIONS:
        table.add_section()
        table.add_row(f"[bold]{TITLES[section]}")
        for row in found:
            if row.section == section:
                table.add_row(f"  {row.label}", *cells(row, results))
    console.print(table)
    for note in notes:
        console.print(note, style="bold")


def markdown(results: Results, found: list[Row], notes: list[str]) -> str:
    """The same table for a document."""
    columns = headings(results)
    lines: list[str] = []
    for section in rows.SECTIONS:
        lines += [f"| {TITLES[section]} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
        lines += [f"| {row.label} | {' | '.join(cells(row, results))} |" for row in found if row.section == section]
        lines.append("")
    return "\n".join([*lines, *notes, ""])


def aim_note(results: Results) -> str:
    """Whether the way of a message is as fast as it is meant to be."""
    form = present(results)[-1]
    value = results[form][rows.ROUTE_KEY]
    verdict = "met" if value < rows.ROUTE_AIM_US else "missed"
    if form == INTERPRETED:
        verdict = "not measured"
    aim = f"Aim: decode and route a 64 B QoS 1 PUBLISH, compiled, in under {rows.ROUTE_AIM_US:g} µs"
    return f"{aim}: {verdict} ({HEADINGS[form]}: {value:.3f} µs)."
