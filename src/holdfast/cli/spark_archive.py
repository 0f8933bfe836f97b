"""`holdfast spark archive`: the log into a Delta table, exactly once, whatever is killed when.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

import json
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.broker_options import WRONG_USAGE, fail
from holdfast.cli.meter import Meter
from holdfast.cli.option_groups import grouped
from holdfast.cli.words import iso_time, size_in_words
from holdfast.model.errors import HoldfastError, SettingsError

if TYPE_CHECKING:
    from holdfast.pipeline.archive import Batch, Runner
    from holdfast.pipeline.archive_run import Outcome, Status
    from holdfast.pipeline.options import Options

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_MISSING: Final = 'this needs Spark, which is not installed; install it with: pip install "holdfast[spark]"'
#: The name of a lease and of Delta's application transactions is made from it.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_EVERY: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MASTER: Final = re.compile(r"local(-cluster)?(\[.+\])?|(spark|k8s|mesos)://.+|yarn")
_SECRETLESS: Final = re.compile(r"grpcs?://[^/:@\s]+:\d{1,5}|grpcs?://\[[0-9a-fA-F:]+\]:\d{1,5}")


@dataclass(frozen=True, kw_only=True)
class From:
    """Where messages are read from."""

    data: Annotated[
        Path | None, typer.Option("--data", help="The broker's data folder, if Spark runs on its machine.")
    ] = None
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="Its history process, grpc://HOST:PORT.")
    ] = None

    def given(self) -> dict[str, str] | None:
        """As options of the data source; None if there are none. Wrong ones end the program."""
        if self.data is not None and self.endpoint is not None:
            fail("give either --data, the broker's data folder, or --endpoint, its history process", WRONG_USAGE)
        if self.endpoint is not None:
            if not _SECRETLESS.fullmatch(self.endpoint):
                fail(f"--endpoint {self.endpoint}: give grpc://HOST:PORT, or grpcs://HOST:PORT", WRONG_USAGE)
            return {"endpoint": self.endpoint}
        if self.data is None:
            return None
        if not (self.data / "rocks" / "CURRENT").is_file():
            fail(f"--data {self.data}: this is no data folder of a broker: it has no database in it", WRONG_USAGE)
        return {"path": str(self.data.absolute())}


@grouped
def archive(
    where: From,
    lake: Annotated[Path, typer.Option("--lake", help="The folder of the Delta table; made if it is not there.")],
    name: Annotated[str, typer.Option(help="The archive's name: of its lease, and in the lake.")] = "main",
    once: Annotated[
        bool, typer.Option("--once", help="Archive what is there now, and end; the default.", show_default=False)
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go on for ever, a batch each 10s, 5m, 1h.", show_default=False)
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master.", show_default="this machine, local[*]")] = None,
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
    began_s = time.monotonic()
    given = where.given()
    every_s = _check(lake, name, every, master, once=once)
    if status:
        _print_status(lake, given, as_json=as_json)
        return
    if given is None:
        fail("say where from: --data, the broker's data folder, or --endpoint, its history process", WRONG_USAGE)
    options = _options(given | {"failOnDataLoss": "false" if accept_loss else "true"})
    from holdfast.pipeline.archive_run import ArchiveJob, run_archive

    job = ArchiveJob(options, lake.absolute(), name, every_s, batch, patterns, compact)
    with Meter("archive") as meter:

        def progress(outcome: "Outcome", done: "Batch") -> None:
            words = f"{outcome.rows:,} messages, {size_in_words(outcome.size_bytes)}, {_batches(outcome)}"
            if meter.is_due():
                meter.update(done.share, words)

        try:
            outcome = run_archive(job, lambda: _spark(master), progress)
        except SettingsError as error:
            fail(str(error), WRONG_USAGE)
        except HoldfastError as error:
            fail(str(error), _FAILED)
        except KeyboardInterrupt:
            typer.echo("holdfast: stopped; what is committed stays, and the next run goes on behind it", err=True)
            raise typer.Exit(_INTERRUPTED) from None
    _print_summary(lake, outcome, time.monotonic() - began_s, as_json=as_json)


def _check(lake: Path, name: str, every: str | None, master: str | None, *, once: bool) -> float | None:
    """Seconds between two batches, if there are to be more; anything wrong ends the program."""
    if not _NAME.fullmatch(name):
        fail(
            f"--name {name!r}: use up to 64 letters, digits, '_' and '-', beginning with a letter or digit", WRONG_USAGE
        )
    if lake.exists() and not lake.is_dir():
        fail(f"--lake {lake}: this is a file; name a folder", WRONG_USAGE)
    if "://" in str(lake) or ":/" in str(lake):
        fail(f"--lake {lake}: name a folder, which all of Spark's machines see under this name", WRONG_USAGE)
    if master is not None and not _MASTER.fullmatch(master):
        fail(f"--master {master}: give local[*], spark://HOST:PORT, k8s://URL or yarn", WRONG_USAGE)
    if every is None:
        return None
    if once:
        fail("give either --once or --every", WRONG_USAGE)
    found = _EVERY.fullmatch(every)
    if not found or float(found[1]) == 0:
        fail(f"--every {every!r}: give a time such as 500ms, 10s, 5m or 1h", WRONG_USAGE)
    return float(found[1]) * _UNITS_S[found[2]]


def _options(given: dict[str, str]) -> "Options":
    try:
        # All that is needed later, to say in time what is missing.
        from holdfast.pipeline import archive_run as _  # noqa: F401
        from holdfast.pipeline.options import parse_options
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("holdfast"):
            raise
        fail(_MISSING, WRONG_USAGE)
    try:
        return parse_options(given)
    except HoldfastError as error:
        fail(str(error), WRONG_USAGE)


def _spark(master: str | None) -> "Runner":
    from holdfast.pipeline.archive import SparkRunner
    from holdfast.pipeline.spark_session import session

    return SparkRunner(session("holdfast-archive", master=master))


# ---- for people, and for machines


def _print_summary(lake: Path, outcome: "Outcome", seconds: float, *, as_json: bool) -> None:
    if as_json:
        row = asdict(outcome)
        offsets = {str(shard): list(offset) for shard, offset in sorted(row.pop("offsets").items())}
        typer.echo(json.dumps({"lake": str(lake), **row, "offsets": offsets, "seconds": round(seconds, 3)}))
        return
    parts = [f"{outcome.rows:,} messages in {_batches(outcome)}, {size_in_words(outcome.size_bytes)}"]
    if outcome.compacted:
        parts.append(f"{outcome.compacted} small files replaced")
    if outcome.swept:
        parts.append(f"{outcome.swept} unfinished files removed")
    if outcome.lost:
        parts.append(f"{outcome.lost:,} messages were lost to retention")
    typer.echo(f"{lake}: {', '.join(parts)}; version {outcome.version}, in {seconds:.1f} s")


def _batches(outcome: "Outcome") -> str:
    return "1 batch" if outcome.batches == 1 else f"{outcome.batches} batches"


def _print_status(lake: Path, given: dict[str, str] | None, *, as_json: bool) -> None:
    options = None if given is None else _options(given)
    try:
        from holdfast.pipeline.archive_run import status_of
    except ModuleNotFoundError:
        fail(_MISSING, WRONG_USAGE)
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
