"""`holdfast verify`, `backup`, `restore` and `zones`: commands on the data of a stopped broker.

`zones list` and `zones patterns` also work beside a broker that runs.

Exit codes: 0 done, 1 something is wrong with the data, 2 wrong usage, or the folder cannot be used now.
"""

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from holdfast import __version__
from holdfast.cli.commands import FAILED, Commands, exit_on, fail
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.options.settings import ConfigFile, SettingsOptions
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import format_size
from holdfast.model.errors import HoldfastError
from holdfast.model.time import datetime_of
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.zones import zones_of
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.backup import create_backup, restore_backup
from holdfast.storage.rocks.checking.overview import GenerationView, PatternView, generations_of, patterns_of
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.checking.verify_report import VerifyReport
from holdfast.storage.rocks.engine.column_families import refuse_cluster
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import FolderHeldError
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.startup import open_log

zones = Commands(name="zones", help="Zones, their generations, and what was learnt.")

ZoneName = Annotated[str | None, typer.Option("--zone", help="This zone only.", show_default=False)]


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """The data folder."""

    data: Annotated[Path | None, typer.Option(help="The data folder; without it the one of the settings.")] = None
    config: ConfigFile = None

    def folder(self) -> Path:
        if self.data is not None:
            return self.data
        return load(Flags(config=self.config), rules=False).storage.data

    def existing_folder(self) -> Path:
        """The folder, if it has a database; else the program ends."""
        folder = self.folder()
        if not (folder / "rocks").is_dir():
            fail(f"{folder} is no data folder: it has no database in it; name one with --data")
        return folder

    def opened(self) -> "closing[Engine]":
        """The database of the folder, for the length of a block."""
        return closing(Engine.open(self.existing_folder(), reserve_bytes=0))


@grouped
def verify(options: FolderOptions, as_json: Json = False) -> None:
    """Read everything in a data folder and print what is wrong with it; the exit status is 1 if something is."""
    with exit_on(HoldfastError):
        folder = options.folder()
        with _bar(MofNCompleteColumn()) as bar:
            task = bar.add_task("opening", total=None)
            report = verify_folder(
                folder, lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
            )
    if as_json:
        typer.echo(json.dumps(_plain(report), indent=2, ensure_ascii=False))
    else:
        _print(folder, report)
    if not report.is_sound:
        raise typer.Exit(FAILED)


def _plain(report: VerifyReport) -> dict[str, object]:
    return {
        "sound": report.is_sound,
        "keys": report.keys,
        "messages": report.messages,
        "problems": [asdict(problem) for problem in report.problems],
        "more": [{"where": where, "kind": kind, "count": count} for (where, kind), count in report.more.items()],
        "notes": report.notes,
    }


def _print(folder: Path, report: VerifyReport) -> None:
    for note in report.notes:
        typer.echo(f"note: {note}")
    advice = ""
    for problem in report.problems:
        if problem.advice != advice and advice:
            typer.echo(f"  → {advice}")
        advice = problem.advice
        typer.echo(str(problem))
    if advice:
        typer.echo(f"  → {advice}")
    for (where, kind), count in report.more.items():
        typer.echo(f"{where}: {count} more problems of the same kind ({kind})")
    read = f"{report.messages} messages, {report.keys} keys read"
    count = len(report.problems) + sum(report.more.values())
    typer.echo(f"{folder}: {read}; {'nothing is wrong' if report.is_sound else f'{count} problems'}")


@grouped
def backup(
    destination: Annotated[Path, typer.Argument(help="An empty folder, or one that is not there yet.")],
    options: FolderOptions,
    previous: Annotated[
        Path | None, typer.Option(help="An earlier backup: what it has already is linked, not copied.")
    ] = None,
) -> None:
    """Make a backup of a data folder."""
    with exit_on(HoldfastError), options.opened() as engine, _bar() as bar:
        bar.add_task("backup", total=None)
        made = create_backup(engine, destination, previous=previous)
    copied = f"{format_size(made.copied_bytes)} of them copied"
    typer.echo(f"{destination}: {len(made.files)} files, {format_size(made.size_bytes)}, {copied}")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder of a backup.")],
    data: Annotated[Path, typer.Option(help="The data folder to be made: empty, or not there yet.")],
) -> None:
    """Make a data folder from a backup, after checking every byte of it."""
    with exit_on(HoldfastError), _bar() as bar:
        bar.add_task("restore", total=None)
        found = restore_backup(source, data)
    start = f"start with: holdfast serve --data {data}"
    typer.echo(f"{data}: {format_size(found.size_bytes)} restored, as of {found.made}; {start}")


@zones.command("list")
@grouped
def list_(options: FolderOptions, as_json: Json = False) -> None:
    """List the zones of a data folder with their generations. The broker may be running."""
    with exit_on(HoldfastError):
        rows = _generations(options)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
        return
    print_table(
        rows,
        TableColumn("zone", lambda row: row.zone),
        TableColumn("filters", lambda row: ", ".join(row.filters) or "everything else", least=30),
        TableColumn("generation", lambda row: str(row.number)),
        TableColumn("layout", lambda row: row.layout, dispensable=4),
        TableColumn("shards", lambda row: ", ".join(map(str, row.shards)), dispensable=1),
        TableColumn("from", lambda row: _time(row.start_us), dispensable=3),
        TableColumn("to", lambda row: _time(row.end_us) if row.end_us else "open", dispensable=2),
        TableColumn("messages", lambda row: "?" if row.messages is None else str(row.messages), right=True),
        TableColumn("size", lambda row: format_size(row.size_bytes), right=True),
    )


@zones.command()
@grouped
def patterns(options: FolderOptions, zone: ZoneName = None, as_json: Json = False) -> None:
    """Show the topic patterns that were learnt, the busiest first. `#` is for topics that follow no pattern.

    The broker may be running.
    """
    with exit_on(HoldfastError), _bar() as bar:
        bar.add_task("counting", total=None)
        rows = _patterns(options, zone)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
        return
    sums: dict[tuple[int, int], int] = {}
    for row in rows:
        sums[row.shard, row.generation] = sums.get((row.shard, row.generation), 0) + row.messages
    print_table(
        rows,
        TableColumn("zone", lambda row: row.zone),
        TableColumn("shard", lambda row: str(row.shard), dispensable=1),
        TableColumn("generation", lambda row: str(row.generation), dispensable=2),
        TableColumn("pattern", lambda row: row.pattern, least=40),
        TableColumn("messages", lambda row: str(row.messages), right=True),
        TableColumn("share", lambda row: f"{row.messages / max(1, sums[row.shard, row.generation]):.0%}", right=True),
    )


@zones.command()
@grouped
def rotate(name: Annotated[str, typer.Argument(metavar="ZONE", help="The zone.")], options: SettingsOptions) -> None:
    """Begin a new generation of a zone, with the settings of the broker: layout, shards and thresholds take effect."""
    settings = options.read_or_fail()
    with exit_on(HoldfastError), FolderOptions(data=settings.storage.data).opened() as engine:
        refuse_cluster(engine.families(), engine.folder, "a generation that begins here")
        own, default, mounts = zones_of(settings)
        stored = [zone.name for zone in (default, *own) if zone.store]
        if name not in stored:
            there = ", ".join(sorted(stored)) or "none"
            fail(f"the settings have no zone {name!r} that stores messages; there are: {there}")
        before = max([row.number for row in generations_of(engine) if row.zone == name], default=0)
        log = open_log(engine, own, default, mounts, SystemClock(), __version__)
        zone_log = log.zone_logs[name]
        # Opening with new settings has begun a new generation already.
        if zone_log.live[-1].record.number == before:
            Maintenance(log).rotate(zone_log)
        number = zone_log.live[-1].record.number
    typer.echo(f"zone {name}: generation {number} has begun")


def _generations(options: FolderOptions) -> list[GenerationView]:
    try:
        with options.opened() as engine:
            return generations_of(engine)
    except FolderHeldError:
        # A broker runs on it. Imported here: others do without.
        from holdfast.history.reader.reader import HistoryReader
        from holdfast.history.zone_views import list_generations

        with HistoryReader.open(options.folder()) as reader:
            return list_generations(reader)


def _patterns(options: FolderOptions, zone: str | None) -> list[PatternView]:
    try:
        with options.opened() as engine:
            return list(patterns_of(engine, zone))
    except FolderHeldError:
        from holdfast.history.reader.reader import HistoryReader
        from holdfast.history.zone_views import list_patterns

        with HistoryReader.open(options.folder()) as reader:
            return list(list_patterns(reader, zone))


# ---- as text


def _bar(*columns: MofNCompleteColumn) -> Progress:
    """A progress bar on standard error, removed when it is done."""
    shown = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *columns, TimeElapsedColumn())
    return Progress(*shown, console=Console(stderr=True), transient=True)


def _time(us: int) -> str:
    return datetime_of(us).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
