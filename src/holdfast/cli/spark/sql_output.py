"""The rows of a query for people and for programs: a table, CSV or lines of JSON."""

import base64
import csv
import json
import sys
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Form(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def print_rows(form: Form, columns: Sequence[str], rows: Sequence[Sequence[Any]], out: TextIO | None = None) -> None:
    out = out or sys.stdout
    if form is Form.CSV:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if value is None else _word(value) for value in row] for row in rows])
    elif form is Form.JSON:
        for row in rows:
            values = {name: plain(value) for name, value in zip(columns, row, strict=True)}
            out.write(json.dumps(values, ensure_ascii=False) + "\n")
    else:
        _print_table(columns, rows, out)


def plain(value: Any) -> Any:
    """A value as JSON has it. Bytes are a text if they are UTF-8, and otherwise base64 with that prefix."""
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, Decimal)):
        return str(value)
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        # A map comes as pairs.
        if value and all(isinstance(pair, tuple) for pair in value):
            return {str(plain(name)): plain(inner) for name, inner in value}
        return [plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"
    return text


def _word(value: Any) -> str:
    made = plain(value)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], out: TextIO) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    numeric = [
        all(isinstance(row[i], (int, float, Decimal)) or row[i] is None for row in rows) for i in range(len(columns))
    ]
    for name, is_number in zip(columns, numeric, strict=True):
        table.add_column(Text(name), justify="right" if is_number and rows else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text("null", "dim") if value is None else Text(_word(value)) for value in row])
    # A pipe has no width: there, rows stay in one line.
    console = Console(file=out) if out.isatty() else Console(file=out, width=100_000)
    console.print(table)
