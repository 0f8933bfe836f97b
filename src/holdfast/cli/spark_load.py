"""`holdfast spark load`: history from files into the log, with its own times, whether the broker runs or not.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 done, or there already; 1 it cannot be loaded, and nothing of it was; 2 wrong usage; 130 Ctrl-C.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.spark_job import Job, job
from holdfast.cli.spark_options import Engine, Where
from holdfast.cli.words import iso_time, size_in_words
from holdfast.history.file_columns import FileKind, kind_of, parse_columns
from holdfast.model.errors import HoldfastError
from holdfast.node.settings_load import load as load_settings
from holdfast.node.settings_sources import Flags
from holdfast.node.zone_settings import zones_of
from holdfast.storage.rocks.layouts.making import LAYOUTS

if TYPE_CHECKING:
    from holdfast.pipeline.loading import Loaded

_STOPPED: Final = "run it again: it goes on, and nothing is loaded twice"


@grouped
def load(
    engine: Engine,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files or folders: Parquet, CSV, JSON lines.")],
    data: Annotated[Path, typer.Option("--data", help="The broker's data folder; it may run meanwhile.")],
    format_: Annotated[
        FileKind | None, typer.Option("--format", help="What the files are.", show_default="by their names")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="COLUMN=NAME", help="What the files call a column.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The load's name: loaded once under it.", show_default="told by the rows")
    ] = None,
    layout: Annotated[str | None, typer.Option(help="How it is stored.", show_default="as its zone")] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="The broker's settings, if its listeners have mount points.", show_default=False),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Read everything back and compare.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Load history into the log, with its own times. It may be killed at any time and run again."""
    kind, columns = _check(files, format_, column or [], layout)
    mounts = _mounts(config)
    Where(data=data).given()
    engine.check()
    with job("load", as_json=as_json, stopped=_STOPPED) as run:
        loaded = _load(engine, files, kind, columns, data, name, layout, mounts, run, verify=verify)
        run.sum_up(*_summary(loaded))


def _check(
    files: list[Path], kind: FileKind | None, columns: list[str], layout: str | None
) -> tuple[FileKind, dict[str, str]]:
    missing = [path for path in files if not path.exists()]
    if missing:
        fail(f"{missing[0]}: there is no such file or folder", WRONG_USAGE)
    if layout is not None and layout not in LAYOUTS:
        fail(f"--layout {layout}: there are {', '.join(LAYOUTS)}", WRONG_USAGE)
    try:
        return kind or kind_of(files), parse_columns(columns)
    except HoldfastError as error:
        fail(str(error), WRONG_USAGE)


def _mounts(config: Path | None) -> list[bytes]:
    """Mount points of the broker's listeners: they decide which zone a topic belongs to."""
    if config is None:
        return []
    try:
        return zones_of(load_settings(Flags(config=config), rules=False))[2]
    except HoldfastError as error:
        fail(str(error), WRONG_USAGE)


def _load(
    engine: Engine,
    files: list[Path],
    kind: FileKind,
    columns: dict[str, str],
    data: Path,
    name: str | None,
    layout: str | None,
    mounts: list[bytes],
    run: Job,
    *,
    verify: bool,
) -> "Loaded":
    from holdfast.pipeline.loading import Files
    from holdfast.pipeline.loading import load as load_rows
    from holdfast.pipeline.spark_session import session

    run.begin("starting Spark")
    spark = session("holdfast-load", master=engine.master)
    source = Files(tuple(path.absolute() for path in files), kind)
    return load_rows(
        spark,
        source,
        data.absolute(),
        name=name,
        columns=columns,
        layout=layout,
        mounts=mounts,
        verify=verify,
        progress=run.progress,
    )


def _summary(loaded: "Loaded") -> tuple[dict[str, object], str]:
    generations = [
        {
            "zone": record.zone,
            "generation": record.number,
            "layout": record.layout,
            "from": iso_time(record.start_us),
            "to": iso_time(record.end_us - 1),
        }
        for record in loaded.generations
    ]
    row: dict[str, object] = {
        "name": loaded.name,
        "messages": loaded.messages,
        "unstored": loaded.unstored,
        "bytes": loaded.size_bytes,
        "taken_by": loaded.taken_by,
        "verified": loaded.verified,
        "generations": generations,
    }
    begin = iso_time(min(record.start_us for record in loaded.generations))
    end = iso_time(max(record.end_us for record in loaded.generations) - 1)
    parts = [f"load {loaded.name}: {loaded.messages:,} messages, from {begin} to {end}"]
    parts.append(f"in {', '.join(record.zone for record in loaded.generations)}")
    if loaded.size_bytes:
        parts.append(size_in_words(loaded.size_bytes))
    if loaded.unstored:
        parts.append(f"{loaded.unstored:,} rows are of topics that are not stored")
    parts.append(f"taken in by {loaded.taken_by}" if loaded.taken_by else "there already")
    if loaded.verified:
        parts.append("read back and equal")
    return row, ", ".join(parts)
