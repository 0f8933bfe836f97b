"""`holdfast spark archive`: the log into a Delta table, exactly once, whatever is killed when."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.commands import exit_on, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.spark.job_output import job_output
from holdfast.cli.spark.options import HistorySourceOptions, SparkMaster, check_name, parse_interval, parse_lake
from holdfast.model.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.pipeline.lake.archive import ArchivedBatch
    from holdfast.pipeline.lake.archive_job import ArchiveJob, ArchiveOutcome, LakeStatus
    from holdfast.pipeline.source.read_options import ReadOptions

_STOPPED: Final = "what is committed stays, and the next run goes on behind it"


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions:
    """What is archived, and how."""

    lake: Annotated[
        str,
        typer.Option(
            metavar="LAKE", help="Where the Delta table lies, made if it is not there: a folder, s3://BUCKET/PATH."
        ),
    ]
    name: Annotated[str, typer.Option(help="The archive's name: of its lease, and in the lake.")] = "main"
    once: Annotated[
        bool, typer.Option("--once", help="Archive what is there now, and end; the default.", show_default=False)
    ] = False
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go on until it is stopped, a batch each 10s, 5m, 1h.")
    ] = None
    batch: Annotated[int, typer.Option(metavar="N", help="Messages of a transaction, at most.", min=1)] = 8_000_000
    patterns: Annotated[
        int, typer.Option(metavar="N", help="Learned patterns that get their own partitions.", min=0, max=256)
    ] = 16
    compact: Annotated[bool, typer.Option("--compact/--no-compact", help="Make large files of small ones.")] = True
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on behind messages that retention has dropped unarchived.")
    ] = False

    def check(self) -> None:
        """Anything wrong ends the program."""
        check_name(self.name)
        lake = parse_lake(self.lake)
        if not lake.kind and Path(lake.text).exists() and not Path(lake.text).is_dir():
            fail(f"--lake {self.lake}: this is a file; name a folder")
        parse_interval(self.every, once=self.once)

    def job(self, source: dict[str, str]) -> "ArchiveJob":
        from holdfast.pipeline.lake.archive_job import ArchiveJob

        read = _read_options(source | {"failOnDataLoss": "false" if self.accept_loss else "true"})
        every_s = parse_interval(self.every, once=self.once)
        return ArchiveJob(
            read, parse_lake(self.lake).text, self.name, every_s, self.batch, self.patterns, compacts=self.compact
        )


@grouped
def archive(
    history: HistorySourceOptions,
    spark: SparkMaster,
    options: ArchiveOptions,
    status: Annotated[bool, typer.Option("--status", help="Say what the lake holds, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Archive stored messages in a Delta table: once, or repeatedly. It may be killed at any time and run again."""
    options.check()
    spark.check()
    lake = options.lake
    if status:
        _print_status(lake, history, as_json=as_json)
        return
    work = options.job(history.source_options())
    with job_output("archive", as_json=as_json, stopped=_STOPPED) as job:
        from holdfast.pipeline.lake.archive_job import run_archive
        from holdfast.pipeline.spark.runner import SparkRunner

        def progress(outcome: "ArchiveOutcome", done: "ArchivedBatch") -> None:
            job.progress(done.share, f"{outcome.rows:,} messages, {format_size(outcome.size_bytes)}")

        outcome = run_archive(work, lambda: SparkRunner.start("holdfast-archive", spark.master), progress)
        job.summarize(*_summary(lake, outcome))


def _read_options(given: dict[str, str]) -> "ReadOptions":
    from holdfast.pipeline.source.read_options import parse_read_options

    with exit_on(HoldfastError):
        return parse_read_options(given)


# ---- for people, and for machines


def _summary(lake: str, outcome: "ArchiveOutcome") -> tuple[dict[str, object], str]:
    row = asdict(outcome)
    offsets = {str(shard): list(offset) for shard, offset in sorted(row.pop("offsets").items())}
    batches = "1 batch" if outcome.batches == 1 else f"{outcome.batches} batches"
    parts = [f"{outcome.rows:,} messages in {batches}, {format_size(outcome.size_bytes)}"]
    if outcome.compacted:
        parts.append(f"{outcome.compacted} small files replaced")
    if outcome.swept:
        parts.append(f"{outcome.swept} unfinished files removed")
    if outcome.lost:
        parts.append(f"{outcome.lost:,} messages were lost to retention")
    words = f"{lake}: {', '.join(parts)}; version {outcome.version}"
    return {"lake": str(lake), **row, "offsets": offsets}, words


def _print_status(lake: str, history: HistorySourceOptions, *, as_json: bool) -> None:
    is_given = history.data is not None or history.endpoint is not None
    options = _read_options(history.source_options()) if is_given else None
    from holdfast.pipeline.lake.archive_job import lake_status

    with exit_on(HoldfastError):
        found = lake_status(lake, options)
    if as_json:
        typer.echo(json.dumps({"lake": str(lake), **asdict(found)}, ensure_ascii=False))
        return
    _show(lake, found)


def _show(lake: str, found: "LakeStatus") -> None:
    between = f", {found.first_day} to {found.last_day}" if found.files else ""
    size = f"{found.rows:,} messages in {found.files} files, {format_size(found.size_bytes)}{between}"
    typer.echo(f"{lake}: archive {found.name}, version {found.version}: {size}")
    if found.patterns:
        typer.echo(f"patterns: {', '.join(found.patterns)}")
    table = Table(box=None, pad_edge=False)
    for column in ("shard", "archived up to", "serial", "behind"):
        table.add_column(column, justify="left" if column == "archived up to" else "right")
    for row in found.shards:
        at = format_time(row.position_us) if row.position_us >= 0 else "nothing yet"
        table.add_row(str(row.shard), Text(at), f"{row.serial:,}", "?" if row.behind is None else f"{row.behind:,}")
    Console().print(table)
