"""`holdfast spark sql`: SQL over a broker's history, sessions, queues and retained messages; a statement or a prompt.

Exit codes: 0 done, 1 a statement failed, 2 wrong usage or no data there, 130 Ctrl-C. A prompt goes on after an error,
and ends with 0.
"""

import base64
import csv
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.commands import FAILED, INTERRUPTED, exit_on, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.standard_output import tolerate_closed_pipe
from holdfast.cli.spark.job_output import ProgressOutput
from holdfast.cli.spark.options import QueryOptions
from holdfast.cli.spark.sql_prompt import Prompt, cut, is_empty, remember_lines

if TYPE_CHECKING:
    from holdfast.pipeline.sql.views import Sql

_RUNNING: Final = "planning the statement"
#: Rows of a table that people can look at.
_LOOKED_AT: Final = 1000


class Form(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@grouped
def sql(
    options: QueryOptions,
    statement: Annotated[
        str | None,
        typer.Argument(metavar="[SQL]", help="What to run; without it, a prompt or what standard input holds."),
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="How rows are printed.")] = Form.TABLE,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="Rows at most.", min=1, show_default=f"{_LOOKED_AT} in a table, else all"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns of history to read: fewer are faster.", show_default="all"),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count what queues are owed one by one: that reads their backlog.")
    ] = False,
) -> None:
    """Run SQL over the views history, sessions, queues and retained. The broker may run meanwhile."""
    if statement is not None and is_empty(statement):
        fail("the statement is empty; write one, or leave it out for a prompt")
    given = options.source(**({} if columns is None else {"columns": columns}))
    prompts = statement is None and sys.stdin.isatty()
    text = statement or ("" if prompts else sys.stdin.read())
    statements, rest = cut(f"{text}\n;")
    if not prompts and not statements:
        fail("there is no statement on standard input; right would be: SELECT count(*) FROM history")
    assert is_empty(rest)
    rows = limit or (_LOOKED_AT if form is Form.TABLE else None)
    with tempfile.TemporaryDirectory(prefix="holdfast-sql-") as folder, tolerate_closed_pipe():
        try:
            runner = _start(
                given,
                options,
                Path(folder),
                columns,
                exact=exact,
                streams=form is not Form.TABLE,
                as_json=form is Form.JSON,
            )
            if prompts:
                _prompt(runner, form, rows)
            else:
                from holdfast.pipeline.sql.views import SqlError

                with exit_on(SqlError, code=FAILED):
                    for one in statements:
                        _show(runner, one, form, rows)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _start(
    given: dict[str, str],
    options: QueryOptions,
    folder: Path,
    columns: str | None,
    *,
    exact: bool,
    streams: bool,
    as_json: bool,
) -> "Sql":
    with ProgressOutput("sql", as_json=as_json, whole=False) as output:
        # Not above: importing Spark takes seconds.
        from holdfast.pipeline.sql.views import Sql, SqlError, SqlJob

        with exit_on(SqlError, code=FAILED):
            return Sql.start(
                SqlJob(given, options.lake, columns, exact, streams), options.master, folder, output.progress
            )


def _prompt(runner: "Sql", form: Form, limit: int | None) -> None:
    from holdfast.pipeline.sql.views import SqlError

    def run(statement: str) -> None:
        try:
            _show(runner, statement, form, limit)
        except SqlError as error:
            typer.echo(str(error), err=True)

    remember_lines()
    typer.echo(f"views: {', '.join(runner.schemas())}; .help says more")
    Prompt(runner.schemas, run).loop()


def _show(runner: "Sql", statement: str, form: Form, limit: int | None) -> None:
    if form is not Form.TABLE:
        _stream(runner, statement, form, limit)
        return
    with ProgressOutput("sql", as_json=False, first=_RUNNING) as output:
        answer = runner.run(statement, limit, output.progress)
    # Statements such as SET or CREATE VIEW have nothing to show.
    if answer.columns:
        print_rows(form, answer.columns, answer.rows)
    if answer.has_more:
        _say_more(len(answer.rows))


def _stream(runner: "Sql", statement: str, form: Form, limit: int | None) -> None:
    """Print rows as they come."""
    count = 0
    with ExitStack() as open_now:
        output = open_now.enter_context(ProgressOutput("sql", as_json=form is Form.JSON, first=_RUNNING))
        found = open_now.enter_context(closing(runner.stream(statement, limit, output.progress)))
        batches = iter(found)
        first = next(batches, [])
        if sys.stdout.isatty():
            output.close(done=False)  # rows are progress enough, and would be in the way of each other
        printer = RowPrinter(form, found.columns)
        for rows in chain([first], batches):
            printer.print(rows)
            count += len(rows)
        if found.has_more:
            output.close(done=True)
            _say_more(count)


def _say_more(count: int) -> None:
    typer.echo(f"these are the first {count:,} rows; ask for more with --limit", err=True)


# ---- rows for people and for programs


def print_rows(form: Form, columns: Sequence[str], rows: Sequence[Sequence[Any]], out: TextIO | None = None) -> None:
    if form is Form.TABLE:
        _print_table(columns, rows, out or sys.stdout)
    else:
        RowPrinter(form, columns, out).print(rows)


class RowPrinter:
    """Lines for programs: the names first, if there are any."""

    def __init__(self, form: Form, columns: Sequence[str], out: TextIO | None = None) -> None:
        self._columns: Final = columns
        self._out: Final = out or sys.stdout
        self._csv: Final = csv.writer(self._out, lineterminator="\n") if form is Form.CSV else None
        if self._csv is not None and columns:
            self._csv.writerow(columns)

    def print(self, rows: Sequence[Sequence[Any]]) -> None:
        """Ensures: the reader of the output has them."""
        if self._csv is not None:
            self._csv.writerows([["" if value is None else _word(value) for value in row] for row in rows])
        else:
            for row in rows:
                values = {name: plain(value) for name, value in zip(self._columns, row, strict=True)}
                self._out.write(json.dumps(values, ensure_ascii=False) + "\n")
        self._out.flush()


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
