"""`holdfast spark relayout`: old generations in another layout, with patterns learnt anew, or back from a lake.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 done, or nothing to do; 1 it cannot go on, and what is not done is as it was; 2 wrong usage; 130 Ctrl-C.
"""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.spark_job import Job, job
from holdfast.cli.spark_options import Engine, Where
from holdfast.cli.words import iso_time, size_in_words
from holdfast.storage.rocks.layouts.making import LAYOUTS

if TYPE_CHECKING:
    from holdfast.pipeline.relayout import Relaid, Rewritten

_STOPPED: Final = "what is done is done; run it again for the rest"


@grouped
def relayout(
    engine: Engine,
    data: Annotated[Path, typer.Option("--data", help="The broker's data folder; it may run meanwhile.")],
    layout: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(LAYOUTS)}.", show_default="that of the zone now")
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn the patterns of topics anew, where the layout stays.")
    ] = False,
    zone: Annotated[str | None, typer.Option("--zone", help="This zone only.", show_default=False)] = None,
    generation: Annotated[
        list[int] | None, typer.Option("--generation", metavar="N", help="These only.", show_default=False)
    ] = None,
    lake: Annotated[
        Path | None,
        typer.Option("--from-lake", metavar="LAKE", help="Bring days back from an archive.", show_default=False),
    ] = None,
    day: Annotated[
        list[str] | None,
        typer.Option("--day", metavar="DATE", help="With --from-lake: 2026-11-01.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Write old generations anew, or bring them back from a lake. It may be killed at any time and run again."""
    days = _check(layout, lake, day or [], learn=learn)
    Where(data=data).given()
    engine.check()
    with job("relayout", as_json=as_json, stopped=_STOPPED) as run:
        done = _relayout(engine, data, layout, zone, generation or [], lake, days, run, learn=learn)
        run.sum_up(*_summary(done, back=lake is not None))


def _check(layout: str | None, lake: Path | None, days: list[str], *, learn: bool) -> list[date]:
    if layout is not None and layout not in LAYOUTS:
        fail(f"--layout {layout}: there are {', '.join(LAYOUTS)}", WRONG_USAGE)
    if (lake is None) != (not days):
        fail("--from-lake and --day go together: say from which lake, and which days", WRONG_USAGE)
    if lake is not None and learn:
        fail("--learn is for what is in the log; what comes back is learnt from anyway", WRONG_USAGE)
    if lake is not None and not (lake / "_delta_log").is_dir():
        fail(
            f"--from-lake {lake}: this is no lake: it holds no Delta table; holdfast spark archive makes one",
            WRONG_USAGE,
        )
    found: list[date] = []
    for text in days:
        try:
            found.append(date.fromisoformat(text))
        except ValueError:
            fail(f"--day {text}: give a date such as 2026-11-01, in UTC", WRONG_USAGE)
    return found


def _relayout(
    engine: Engine,
    data: Path,
    layout: str | None,
    zone: str | None,
    numbers: list[int],
    lake: Path | None,
    days: list[date],
    run: Job,
    *,
    learn: bool,
) -> "Relaid":
    from holdfast.pipeline.relayout import relayout as write_anew
    from holdfast.pipeline.relayout_plan import Wish
    from holdfast.pipeline.spark_session import session

    run.begin("starting Spark")
    spark = session("holdfast-relayout", master=engine.master)
    wish = Wish(layout, learn, zone, tuple(numbers), tuple(days))
    return write_anew(spark, data, wish, lake=lake, progress=run.progress)


def _summary(done: "Relaid", *, back: bool) -> tuple[dict[str, object], str]:
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


def _row(one: "Rewritten") -> dict[str, object]:
    record = one.record
    return {
        "zone": record.zone,
        "generation": record.number,
        "from": iso_time(record.start_us),
        "to": iso_time(record.end_us - 1),
        "was": one.was,
        "layout": record.layout,
        "messages": one.messages,
        "bytes": one.size_bytes,
        "taken_by": one.taken_by,
    }


def _line(one: "Rewritten", *, back: bool) -> str:
    record = one.record
    change = f"back from the lake, {record.layout}" if back else f"{one.was} → {record.layout}"
    size = f", {one.messages:,} messages, {size_in_words(one.size_bytes)}" if one.size_bytes else ""
    return (
        f"{record.zone} {record.number}, from {iso_time(record.start_us)}: {change}{size}, taken in by {one.taken_by}"
    )
