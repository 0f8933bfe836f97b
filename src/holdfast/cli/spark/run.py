"""`holdfast spark run`: a pipeline that is declared in a file.

The file is checked before Spark is started, and without importing it; errors name its lines.

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage or a file that is wrong, 130 Ctrl-C.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.spark.job_output import job_output
from holdfast.cli.spark.options import SparkMaster, parse_interval
from holdfast.model.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.pipeline.declared.declaration import Declaration
    from holdfast.pipeline.declared.job import RunOutcome
    from holdfast.pipeline.declared.steps import StepCounts

_STOPPED: Final = "what is committed stays, and the next run goes on behind it"


@grouped
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The declaration, such as pipeline.toml.")],
    spark: SparkMaster,
    once: Annotated[
        bool, typer.Option("--once", help="Take what is there now, and end; the default.", show_default=False)
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go on until it is stopped, a round each 10s, 5m, 1h.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the file, and end.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show what the file declares, and end.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
) -> None:
    """Run a declared pipeline: decode, check, de-duplicate, aggregate; into Delta tables and back into a broker."""
    every_s = parse_interval(every, once=once)
    declared = _load(file)
    if check:
        typer.echo(f"{file}: nothing is wrong; expressions of SQL are checked when it runs")
    if show:
        from holdfast.pipeline.declared.declaration import draw

        typer.echo(draw(declared))
    if check or show:
        return
    spark.check()
    data = declared.source.options.get("path")
    if data is not None and not (Path(data) / "rocks" / "CURRENT").is_file():
        place = declared.where_is(("source", "data"))
        fail(f"{place}: data = {data}: this is no data folder of a broker: it has no database in it")
    with job_output("run", as_json=as_json, stopped=_STOPPED) as job:
        from holdfast.pipeline.declared.job import check_run, run_declared
        from holdfast.pipeline.declared.parser import DeclarationError
        from holdfast.pipeline.spark.executor_folder import check_executors_read, check_executors_share
        from holdfast.pipeline.spark.session import session

        check_run(declared)
        running = session(f"holdfast-run-{declared.name}", master=spark.master, say=job.progress.say)
        job.progress.watch(running)
        check_executors_read(running, declared.source.options)
        for folder in {declared.state, *(sink.path for sink in declared.tables)}:
            check_executors_share(running, folder)

        def progress(step: str, counts: "StepCounts") -> None:
            if counts.batches:
                job.progress.update(rows=counts.messages or counts.rows_out)
            else:
                job.progress(None, step, reads=True)

        try:
            outcome = run_declared(declared, running, every_s, progress)
        except DeclarationError as error:
            _tell(error)
        if not as_json:
            _print(outcome)
        words = f"{declared.name}: {outcome.messages:,} messages, {outcome.passed:,} rows passed"
        job.summarize({"pipeline": declared.name, **asdict(outcome)}, words)


def _load(file: Path) -> "Declaration":
    from holdfast.pipeline.declared.parser import DeclarationError, load

    try:
        return load(file)
    except DeclarationError as error:
        _tell(error)
    except SettingsError as error:
        fail(str(error))


def _tell(error: SettingsError) -> NoReturn:
    """A line for each mistake, as editors and people find them."""
    typer.echo(str(error), err=True)
    raise typer.Exit(WRONG_USAGE) from None


def _print(outcome: "RunOutcome") -> None:
    """What each stage did."""
    table = Table(box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("rows", justify="right")
    rows = [("messages read", outcome.messages), ("decoded", outcome.decoded), ("passed all rules", outcome.passed)]
    rows += [(f"quarantined by {rule}", count) for rule, count in outcome.quarantined.items()]
    rows += [(f"dropped by {rule}", count) for rule, count in outcome.dropped.items()]
    if outcome.duplicates:
        rows.append(("duplicates", outcome.duplicates))
    rows += [(f"windows of {name}", count) for name, count in outcome.windows.items()]
    rows += [(f"too late for {name}", count) for name, count in outcome.late.items()]
    rows += [(f"published by {name}", count) for name, count in outcome.published.items()]
    for title, count in rows:
        table.add_row(Text(title), f"{count:,}")
    Console().print(table)
