"""`holdfast spark load`: history from files into the log, with its own times, whether the broker runs or not.

Exit codes: 0 done, or there already; 1 it cannot be loaded, and nothing of it was; 2 wrong usage; 130 Ctrl-C.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import exit_on, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.spark.job_output import job_output
from holdfast.cli.spark.options import SparkMaster, check_data_folder
from holdfast.history.arrow.file_columns import FileFormat, format_of, parse_columns
from holdfast.model.errors import HoldfastError
from holdfast.node.settings.loader import load as load_settings
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.zones import zones_of
from holdfast.storage.rocks.layouts.build import LAYOUTS

if TYPE_CHECKING:
    from holdfast.pipeline.bulk_load.job import LoadJob, LoadOutcome

_STOPPED: Final = "run it again: it goes on, and nothing is loaded twice"


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """What is loaded, and how."""

    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files or folders: Parquet, CSV, JSON lines.")]
    data: Annotated[Path, typer.Option(help="The broker's data folder; it may run meanwhile.")]
    format_: Annotated[
        FileFormat | None, typer.Option("--format", help="What the files are.", show_default="by their names")
    ] = None
    column: Annotated[list[str] | None, typer.Option(metavar="COLUMN=NAME", help="What the files call a column.")] = (
        None
    )
    name: Annotated[
        str | None, typer.Option(help="The load's name: loaded once under it.", show_default="made from the rows")
    ] = None
    layout: Annotated[str | None, typer.Option(help="How it is stored.", show_default="as its zone")] = None
    config: Annotated[Path | None, typer.Option(help="The broker's settings, if its listeners have mount points.")] = (
        None
    )
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Read everything back and compare.")] = True

    def check(self) -> None:
        """Anything wrong ends the program."""
        missing = [path for path in self.files if not path.exists()]
        if missing:
            fail(f"{missing[0]}: there is no such file or folder")
        if self.layout is not None and self.layout not in LAYOUTS:
            fail(f"--layout {self.layout}: there are {', '.join(LAYOUTS)}")
        with exit_on(HoldfastError):
            self._kind(), self._columns(), self._mounts()
        check_data_folder(self.data)

    def job(self) -> "LoadJob":
        from holdfast.pipeline.bulk_load.job import Files, LoadJob

        files = Files(tuple(path.absolute() for path in self.files), self._kind())
        return LoadJob(
            self.data, files, self.name, self._columns(), self.layout, tuple(self._mounts()), verify=self.verify
        )

    def _kind(self) -> FileFormat:
        return self.format_ or format_of(self.files)

    def _columns(self) -> dict[str, str]:
        return parse_columns(self.column or [])

    def _mounts(self) -> list[bytes]:
        """Mount points of the broker's listeners: they decide which zone a topic belongs to."""
        return [] if self.config is None else zones_of(load_settings(Flags(config=self.config), rules=False))[2]


@grouped
def load(
    spark: SparkMaster,
    options: LoadOptions,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
) -> None:
    """Load history into the log, with its own times. It may be killed at any time and run again."""
    options.check()
    spark.check()
    with job_output("load", as_json=as_json, stopped=_STOPPED) as job:
        from holdfast.pipeline.bulk_load.job import run_load
        from holdfast.pipeline.spark.session import session

        running = session("holdfast-load", master=spark.master, say=job.progress.say)
        job.progress.watch(running)
        job.summarize(*_summary(run_load(running, options.job(), job.progress)))


def _summary(loaded: "LoadOutcome") -> tuple[dict[str, object], str]:
    generations = [
        {
            "zone": record.zone,
            "generation": record.number,
            "layout": record.layout,
            "from": format_time(record.start_us),
            "to": format_time(record.end_us - 1),
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
    begin = format_time(min(record.start_us for record in loaded.generations))
    end = format_time(max(record.end_us for record in loaded.generations) - 1)
    parts = [f"load {loaded.name}: {loaded.messages:,} messages, from {begin} to {end}"]
    parts.append(f"in {', '.join(record.zone for record in loaded.generations)}")
    if loaded.size_bytes:
        parts.append(format_size(loaded.size_bytes))
    if loaded.unstored:
        parts.append(f"{loaded.unstored:,} rows are of topics that are not stored")
    parts.append(f"ingested by {loaded.taken_by}" if loaded.taken_by else "there already")
    if loaded.verified:
        parts.append("read back and equal")
    return row, ", ".join(parts)
