"""`holdfast bench`: measure Holdfast's log on this machine and this disk."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from holdfast.cli.commands import Commands, fail
from holdfast.cli.options.groups import Json
from holdfast.storage.rocks.bench.layout_bench import Figures, Spec, measure, steps
from holdfast.storage.rocks.bench.layout_report import CAPTION, ReportRow, cells, rows
from holdfast.storage.rocks.layouts.build import ALL_LAYOUTS

bench = Commands(name="bench", help="Measure the log on this machine.")

#: Widths of a row's label and of a cell, for output that is not a terminal.
_LABEL_WIDTH = 64
_CELL_WIDTH = 21


@bench.command()
def layouts(
    messages: Annotated[int, typer.Option(help="How many messages are stored.", min=400)] = 1_000_000,
    devices: Annotated[int, typer.Option(help="How many devices publish them.", min=1)] = 100_000,
    payload: Annotated[int, typer.Option(help="Bytes of a payload.", min=0)] = 64,
    only: Annotated[str, typer.Option("--layouts", help="Which layouts, with commas between.")] = ",".join(ALL_LAYOUTS),
    folder: Annotated[
        Path | None, typer.Option(help="Measure on the disk of this folder; what is written there is removed again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the same messages with every layout of the log, read them back, and compare."""
    names = check_layouts(only)
    results = measure_layouts([Spec(name, messages, devices, payload, "") for name in names], folder)
    if as_json:
        typer.echo(json.dumps(dict(zip(names, results, strict=True)), indent=2))
        return
    print_table(f"{messages:,} messages of {devices:,} devices", names, results)


def check_layouts(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in ALL_LAYOUTS]
    if unknown:
        fail(f"there is no layout {unknown[0]!r}; there are {', '.join(ALL_LAYOUTS)}")
    return names


def measure_layouts(
    specs: Sequence[Spec], folder: Path | None, also: Callable[[Spec], Figures] | None = None
) -> list[Figures]:
    """Measure one layout after the other, each in a new folder, with a progress bar on standard error. `also` measures
    more of what was written.
    """
    results: list[Figures] = []
    columns = (TextColumn("{task.description:<48}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=sum(map(steps, specs)))
        for spec in specs:
            progress.update(task, description=f"{spec.layout}, {spec.messages:,} of {spec.devices:,} devices")
            with TemporaryDirectory(prefix="holdfast-bench-", dir=folder, ignore_cleanup_errors=True) as place:
                fresh = Spec(spec.layout, spec.messages, spec.devices, spec.payload_bytes, place)
                figures = measure(fresh, lambda done: progress.advance(task, done))
                results.append({**figures, **also(fresh)} if also else figures)
    return results


def print_table(
    title: str, names: Sequence[str], results: Sequence[Figures], more_rows: Sequence[ReportRow] = ()
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_LABEL_WIDTH + _CELL_WIDTH * len(names))
    table = Table(title=title, caption=CAPTION, caption_justify="left", header_style="bold")
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in [*rows(), *more_rows]:
        if row.begins_section:
            table.add_section()
        table.add_row(Text(row.label), *cells(row, results))
    console.print(table)
