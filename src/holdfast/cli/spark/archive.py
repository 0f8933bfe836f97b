"""`holdfast spark archive`: the log into a table of Delta or Iceberg, exactly once, whatever is killed when."""

import json
from dataclasses import asdict, dataclass
from importlib.util import find_spec
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
from holdfast.cli.spark.options import (
    HistorySourceOptions,
    SparkMaster,
    check_name,
    lake_folder,
    parse_interval,
    parse_lake,
)
from holdfast.model.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.pipeline.lake.archive_job import ArchiveJob, ArchiveOutcome, LakeStatus
    from holdfast.pipeline.lake.store_options import StoreAddress
    from holdfast.pipeline.source.read_options import ReadOptions

_STOPPED: Final = "what is committed stays, and the next run goes on behind it"


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions:
    """What is archived, and how."""

    lake: Annotated[
        str,
        typer.Option(
            metavar="LAKE",
            help="The table, made if it is not there: a folder, s3://BUCKET/PATH, iceberg://CATALOG/NAMESPACE.TABLE.",
        ),
    ]
    format: Annotated[
        str | None, typer.Option(metavar="NAME", help="delta or iceberg.", show_default="what the address says")
    ] = None
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
    compact: Annotated[
        bool | None,
        typer.Option("--compact/--no-compact", help="Make large files of small ones.", show_default="compact Delta"),
    ] = None
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on behind messages that retention has dropped unarchived.")
    ] = False

    def check(self) -> None:
        """Anything wrong ends the program."""
        check_name(self.name)
        lake = parse_lake(self.lake)
        self._check_format(lake)
        if not lake.kind and Path(lake.text).exists() and not Path(lake.text).is_dir():
            fail(f"--lake {self.lake}: this is a file; name a folder")
        parse_interval(self.every, once=self.once)

    def _check_format(self, lake: "StoreAddress") -> None:
        right = "iceberg" if lake.kind == "iceberg" else "delta"
        if self.format not in (None, "delta", "iceberg"):
            fail(f"--format {self.format}: give delta or iceberg")
        if self.format == "iceberg" and right == "delta":
            fail(f"--lake {self.lake}: an Iceberg table is named by its catalog: iceberg://CATALOG/NAMESPACE.TABLE")
        if self.format == "delta" and right == "iceberg":
            fail(f"--lake {self.lake}: this names an Iceberg table; give --format iceberg, or a folder or a store")
        if right == "iceberg":
            if self.compact:
                fail(
                    f"--compact: {self.lake} is an Iceberg table, which is compacted by the programs that read it: run "
                    f"rewrite_data_files of Spark or Trino; leave --compact out"
                )
            if find_spec("pyiceberg") is None:
                fail('an Iceberg table needs pyiceberg; install it with: pip install "holdfast[spark,iceberg]"')

    def job(self, source: dict[str, str]) -> "ArchiveJob":
        from holdfast.pipeline.lake.archive_job import ArchiveJob

        read = _read_options(source | {"failOnDataLoss": "false" if self.accept_loss else "true"})
        every_s = parse_interval(self.every, once=self.once)
        return ArchiveJob(
            read,
            parse_lake(self.lake).text,
            self.name,
            every_s,
            self.batch,
            self.patterns,
            compacts=self.compact is not False,
        )


@grouped
def archive(
    history: HistorySourceOptions,
    spark: SparkMaster,
    options: ArchiveOptions,
    status: Annotated[bool, typer.Option("--status", help="Say what the lake holds, and end.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
) -> None:
    """Archive stored messages in a table of Delta or Iceberg: once, or repeatedly. It may be killed and run again."""
    options.check()
    spark.check()
    lake = options.lake
    if status:
        _print_status(lake, history, as_json=as_json)
        return
    source = history.source_options()
    work = options.job(source)
    with job_output("archive", as_json=as_json, stopped=_STOPPED, endless=work.every_s is not None) as job:
        from holdfast.pipeline.lake.archive import measure_files
        from holdfast.pipeline.lake.archive_job import run_archive
        from holdfast.pipeline.spark.runner import SparkRunner

        folder = lake_folder(lake)

        def start() -> SparkRunner:
            return SparkRunner.start("holdfast-archive", spark.master, job.progress, measure_files, source, folder)

        # Elsewhere a folder may not be seen: that is said before a lake and a lease are made.
        started = start() if spark.is_cluster and (history.data is not None or folder is not None) else None
        outcome = run_archive(work, lambda: started or start(), progress=job.progress)
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
