"""Tables on terminals of any width.

1. Nothing is cut: text that does not fit is wrapped, and optional columns are left out before the others become too
   narrow. A line below the table names them.
2. A table in a file or a pipe is as wide as its content.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

Row = TypeVar("Row")

_GAP: Final = 2


class TableColumn(NamedTuple, Generic[Row]):
    """A column, what it shows of a row, and how it shares the width."""

    name: str
    text: Callable[[Row], str]
    right: bool = False
    #: The least width to which its content is wrapped; 0 if it is never wrapped.
    least: int = 0
    #: Columns are left out in this order, the highest first; those with 0 stay.
    dispensable: int = 0
    style: str | None = None


def print_table(rows: Sequence[Row], *columns: TableColumn[Row], styles: Sequence[str] = ()) -> None:
    """Print rows as plain text; `styles` has one style for each row."""
    cells = [[Text(column.text(row)) for column in columns] for row in rows]
    console = Console()
    natural = [
        max(Text(column.name).cell_len, *(row[at].cell_len for row in cells), 0) for at, column in enumerate(columns)
    ]
    least = [min(width, column.least or width) for width, column in zip(natural, columns, strict=True)]
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=sum(natural) + _GAP * len(columns))
    shown = list(range(len(columns)))
    while (left := console.width + _GAP - sum(least[at] + _GAP for at in shown)) < 0:
        first = max(shown, key=lambda at: columns[at].dispensable)
        if not columns[first].dispensable:
            break
        shown.remove(first)
    widths = _widths(natural, least, shown, left)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for at in shown:
        column = columns[at]
        table.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            overflow="fold",
            width=widths.get(at),
            style=column.style,
        )
    for number, row in enumerate(cells):
        table.add_row(*(row[at] for at in shown), style=styles[number] if styles else None)
    console.print(table)
    left_out = [column.name for at, column in enumerate(columns) if at not in shown]
    if left_out:
        typer.echo(f"not shown for want of width: {', '.join(left_out)}; see --json, or a wider terminal")


def _widths(natural: Sequence[int], least: Sequence[int], shown: Sequence[int], left: int) -> dict[int, int]:
    """The width of each column: its least width and a share of what is left. Empty if the least widths do not fit."""
    if left < 0:
        return {}
    widths = {at: least[at] for at in shown}
    # Narrow columns first: what they leave is for the others.
    needy = sorted(shown, key=lambda at: natural[at] - widths[at])
    for number, at in enumerate(needy):
        more = min(natural[at] - widths[at], left // (len(needy) - number))
        widths[at] += more
        left -= more
    return widths
