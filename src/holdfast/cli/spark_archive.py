"""`holdfast spark archive`: the log into a Delta table, exactly once, whatever is killed when.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.spark_job import job
from holdfast.cli.spark_options import Engine, Where, seconds_between
from holdfast.cli.words import iso_time, size_in_words
from holdfast.model.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.pipeline.archive import Batch, Runner
    from holdfast.pipeline.archive_run import Outcome, Status
    from holdfast.pipeline.options import Options

#: The name of a lease and of Delta's application transactions is made from it.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_STOPPED: Final = "what is committed stays, and the next run goes on behind it"


@grouped
def archive(
    where: Where,
    engine: Engine,
    lake: Annotated[Path, typer.Option("--lake", help="The folder of the Delta table; made if it is not there.")],
    name: Annotated[str, typer.Option(help="The archive's name: of its lease, and in the lake.")] = "main",
    once: Annotated[
        bool, typer.Option("--once", help="Archive what is there now, and end; the default.", show_default=False)
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go on for ever, a batch each 10s, 5m, 1h.", show_default=False)
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Messages of a transaction, at most.", min=1)] = 8_000_000,
    patterns: Annotated[
        int, typer.Option(metavar="N", help="Learned patterns with partitions of their own.", min=0, max=256)
    ] = 16,
    compact: Annotated[bool, typer.Option("--compact/--no-compact", help="Make large files of small ones.")] = True,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on behind messages that retention has dropped unarchived.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Say what the lake holds, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Archive stored messages in a Delta table: once, or for ever. It may be killed at any time and run again."""
    every_s = _check(lake, name, every, once=once)
    engine.check()
    if status:
        _print_status(lake, where, as_json=as_json)
        return
    options = _options(where.given() | {"failOnDataLoss": "false" if accept_loss else "true"})
    from holdfast.pipeline.archive_run import ArchiveJob, run_archive

    work = ArchiveJob(options, lake.absolute(), name, every_s, batch, patterns, compact)
    with job("archive", as_json=as_json, stopped=_STOPPED) as run:

        def progress(outcome: "Outcome", done: "Batch") -> None:
            run.progress(done.share, f"{outcome.rows:,} messages, {size_in_words(outcome.size_bytes)}")

        outcome = run_archive(work, lambda: _spark(engine.master), progress)
        run.sum_up(*_summary(lake, outcome))


def _check(lake: Path, name: str, every: str | None, *, once: bool) -> float | None:
    """Seconds between two batches, if there are to be more; anything wrong ends the program."""
    if not _NAME.fullmatch(name):
        fail(
            f"--name {name!r}: use up to 64 letters, digits, '_' and '-', beginning with a letter or digit", WRONG_USAGE
        )
    if lake.exists() and not lake.is_dir():
        fail(f"--lake {lake}: this is a file; name a folder", WRONG_USAGE)
    if "://" in str(lake) or ":/" in str(lake):
        fail(f"--lake {lake}: name a folder, which all of Spark's machines see under this name", WRONG_USAGE)
    return seconds_between(every, once=once)


def _options(given: dict[str, str]) -> "Options":
    from holdfast.pipeline.options import parse_options

    try:
        return parse_options(given)
    except HoldfastError as error:
        fail(str(error), WRONG_USAGE)


def _spark(master: str | None) -> "Runner":
    from holdfast.pipeline.archive import SparkRunner
    from holdfast.pipeline.spark_session import session

    return SparkRunner(session("holdfast-archive", master=master))


# ---- for people, and for machines


def _summary(lake: Path, outcome: "Outcome") -> tuple[dict[str, object], str]:
    row = asdict(outcome)
    offsets = {str(shard): list(offset) for shard, offset in sorted(row.pop("offsets").items())}
    parts = [f"{outcome.rows:,} messages in {_batches(outcome)}, {size_in_words(outcome.size_bytes)}"]
    if outcome.compacted:
        parts.append(f"{outcome.compacted} small files replaced")
    if outcome.swept:
        parts.append(f"{outcome.swept} unfinished files removed")
    if outcome.lost:
        parts.append(f"{outcome.lost:,} messages were lost to retention")
    words = f"{lake}: {', '.join(parts)}; version {outcome.version}"
    return {"lake": str(lake), **row, "offsets": offsets}, words


def _batches(outcome: "Outcome") -> str:
    return "1 batch" if outcome.batches == 1 else f"{outcome.batches} batches"


def _print_status(lake: Path, where: Where, *, as_json: bool) -> None:
    options = None if where.data is None and where.endpoint is None else _options(where.given())
    from holdfast.pipeline.archive_run import status_of

    try:
        found = status_of(lake, options)
    except HoldfastError as error:
        fail(str(error), WRONG_USAGE)
    if as_json:
        typer.echo(json.dumps({"lake": str(lake), **asdict(found)}, ensure_ascii=False))
        return
    _show(lake, found)


def _show(lake: Path, found: "Status") -> None:
    between = f", {found.first_day} to {found.last_day}" if found.files else ""
    size = f"{found.rows:,} messages in {found.files} files, {size_in_words(found.size_bytes)}{between}"
    typer.echo(f"{lake}: archive {found.name}, version {found.version}: {size}")
    if found.patterns:
        typer.echo(f"patterns: {', '.join(found.patterns)}")
    table = Table(box=None, pad_edge=False)
    for column in ("shard", "archived up to", "serial", "behind"):
        table.add_column(column, justify="left" if column == "archived up to" else "right")
    for row in found.shards:
        at = iso_time(row.position_us) if row.position_us >= 0 else "nothing yet"
        table.add_row(str(row.shard), Text(at), f"{row.serial:,}", "?" if row.behind is None else f"{row.behind:,}")
    Console().print(table)
