"""`holdfast spark relayout`: old generations rewritten in another layout or with new patterns, or restored from a lake.

Exit codes: 0 done, or nothing to do; 1 it cannot go on, and what is not done is as it was; 2 wrong usage; 130 Ctrl-C.
"""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.spark.job_output import job_output
from holdfast.cli.spark.options import SparkMaster, check_data_folder, check_lake, parse_lake
from holdfast.storage.rocks.layouts.build import LAYOUTS

if TYPE_CHECKING:
    from holdfast.pipeline.relayout.job import RelayoutOutcome, RewrittenGeneration
    from holdfast.pipeline.relayout.plan import RelayoutJob

_STOPPED: Final = "what is done is done; run it again for the rest"


@dataclass(frozen=True, kw_only=True)
class RelayoutOptions:
    """Which generations are rewritten, and how."""

    data: Annotated[Path, typer.Option(help="The broker's data folder; it may run meanwhile.")]
    layout: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(LAYOUTS)}.", show_default="that of the zone now")
    ] = None
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn the patterns of topics again, where the layout stays.")
    ] = False
    zone: Annotated[str | None, typer.Option(help="This zone only.")] = None
    generation: Annotated[list[int] | None, typer.Option(metavar="N", help="These only.")] = None
    lake: Annotated[
        str | None, typer.Option("--from-lake", metavar="LAKE", help="Bring days back from an archive.")
    ] = None
    day: Annotated[list[str] | None, typer.Option(metavar="DATE", help="With --from-lake: 2026-11-01.")] = None

    def check(self) -> None:
        """Anything wrong ends the program."""
        if self.layout is not None and self.layout not in LAYOUTS:
            fail(f"--layout {self.layout}: there are {', '.join(LAYOUTS)}")
        if (self.lake is None) != (not self.day):
            fail("--from-lake and --day go together: say from which lake, and which days")
        if self.lake is not None and self.learn:
            fail("--learn is for what is in the log; what comes back is learnt from anyway")
        if self.lake is not None:
            check_lake(self.lake, "--from-lake")
        self._days()
        check_data_folder(self.data)

    def _days(self) -> list[date]:
        found: list[date] = []
        for text in self.day or []:
            try:
                found.append(date.fromisoformat(text))
            except ValueError:
                fail(f"--day {text}: give a date such as 2026-11-01, in UTC")
        return found

    def job(self) -> "RelayoutJob":
        from holdfast.pipeline.relayout.plan import RelayoutJob

        numbers, days = tuple(self.generation or ()), tuple(self._days())
        lake = None if self.lake is None else parse_lake(self.lake, "--from-lake").text
        return RelayoutJob(self.data, self.layout, self.learn, self.zone, numbers, days, lake)


@grouped
def relayout(
    spark: SparkMaster,
    options: RelayoutOptions,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
) -> None:
    """Rewrite old generations, or restore them from a lake. It may be killed at any time and run again."""
    options.check()
    spark.check()
    with job_output("relayout", as_json=as_json, stopped=_STOPPED) as job:
        from holdfast.pipeline.relayout.job import run_relayout
        from holdfast.pipeline.spark.session import session

        running = session("holdfast-relayout", master=spark.master, say=job.progress.say)
        job.progress.watch(running)
        done = run_relayout(running, options.job(), job.progress)
        job.summarize(*_summary(done, back=options.lake is not None))


def _summary(done: "RelayoutOutcome", *, back: bool) -> tuple[dict[str, object], str]:
    row: dict[str, object] = {
        "generations": [_row(one) for one in done.generations],
        "messages": sum(one.messages for one in done.generations),
        "unchanged": done.unchanged,
    }
    if not done.generations:
        left = f": {done.unchanged} have the patterns already" if done.unchanged else ""
        return row, f"nothing to do{left}"
    lines = [_line(one, back=back) for one in done.generations]
    total = f"{len(lines)} generations, {sum(one.messages for one in done.generations):,} messages, read back and equal"
    return row, "\n".join([*lines, total])


def _row(one: "RewrittenGeneration") -> dict[str, object]:
    record = one.record
    return {
        "zone": record.zone,
        "generation": record.number,
        "from": format_time(record.start_us),
        "to": format_time(record.end_us - 1),
        "was": one.was,
        "layout": record.layout,
        "messages": one.messages,
        "bytes": one.size_bytes,
        "taken_by": one.taken_by,
    }


def _line(one: "RewrittenGeneration", *, back: bool) -> str:
    record = one.record
    change = f"back from the lake, {record.layout}" if back else f"{one.was} → {record.layout}"
    size = f", {one.messages:,} messages, {format_size(one.size_bytes)}" if one.size_bytes else ""
    start = format_time(record.start_us)
    return f"{record.zone} {record.number}, from {start}: {change}{size}, ingested by {one.taken_by}"
