"""`holdfast spark audit`: proofs over all of history, with a verdict for each, and examples of what is wrong.

Exit codes: 0 sound, 3 faults were found, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.options.groups import grouped
from holdfast.cli.spark.job_output import job_output, write_file
from holdfast.cli.spark.options import HistorySourceOptions, SparkMaster, check_lake, check_output_file

if TYPE_CHECKING:
    from holdfast.pipeline.audit.findings import AuditReport, Fault

FAULTS_FOUND: Final = 3


@grouped
def audit(
    history: HistorySourceOptions,
    spark: SparkMaster,
    lake: Annotated[str | None, typer.Option(metavar="LAKE", help="Its archive, to be audited with it.")] = None,
    topics: Annotated[int, typer.Option(metavar="N", help="Topics to ask the index for, at most.", min=1)] = 10_000,
    examples: Annotated[int, typer.Option(metavar="N", help="Examples of each fault, at most.", min=1, max=1000)] = 5,
    qos0_unstored: Annotated[
        bool,
        typer.Option("--qos0-unstored", help="The broker has store_qos0 = false: judge no missing retained messages."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write a report, in Markdown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON, on one line.")] = False,
) -> None:
    """Prove that history is whole and in order, and that each session is owed what its queue holds."""
    source = history.source_options()
    store = None if lake is None else check_lake(lake)
    if output is not None:
        check_output_file(output)
    spark.check()
    place = history.endpoint or str(history.data)
    with job_output("audit", as_json=as_json) as job:
        from holdfast.pipeline.audit.job import AuditJob, run_audit

        work = AuditJob(source, store, topics, examples, qos0_unstored)
        found = run_audit(work, spark.master, job.progress)
        if output is not None:
            write_file(output, markdown(place, found).encode())
        if not as_json:
            show(found, Console())
        job.summarize(row_of(history, found), f"{place}: {verdict(found)}")
    if not found.sound:
        raise typer.Exit(FAULTS_FOUND)


# ---- for people, and for machines


def verdict(found: "AuditReport") -> str:
    about = f"{found.messages:,} messages, {found.sessions:,} sessions"
    if found.sound:
        return f"sound: {len(found.checks)} checks, {about}"
    wrong = [check.name for check in found.checks if not check.sound]
    return f"{_faults(found.faults)} in {', '.join(wrong)}: {about}"


def show(found: "AuditReport", console: Console) -> None:
    """A line for each check, and below it what is wrong."""
    table = Table(box=None, pad_edge=False)
    for column in ("check", "verdict", "examined", "what holds"):
        table.add_column(column, justify="right" if column == "examined" else "left", overflow="fold")
    for check in found.checks:
        word = Text("sound", "green") if check.sound else Text(_faults(check.faults), "bold red")
        table.add_row(check.name, word, f"{check.examined:,} {check.unit}", Text(check.claim))
    console.print(table)
    for check in found.checks:
        for note in check.notes:
            console.print(Text(f"{check.name}: {note}"), soft_wrap=True)
        for fault in check.examples:
            console.print(Text(f"{check.name}: {_line(fault)}"), soft_wrap=True)
        if len(check.examples) < check.faults and check.examples:
            console.print(Text(f"{check.name}: … of {check.faults:,}; --examples shows more"), soft_wrap=True)


def markdown(place: str, found: "AuditReport") -> str:
    """The same as a page."""
    lines = [
        f"# Audit of {place}",
        "",
        verdict(found),
        "",
        "| check | verdict | examined | what holds |",
        "|---|---|---:|---|",
    ]
    for check in found.checks:
        word = "sound" if check.sound else f"**{_faults(check.faults)}**"
        lines.append(f"| {check.name} | {word} | {check.examined:,} {check.unit} | {check.claim} |")
    for check in found.checks:
        lines_of_check = [*check.notes, *[_line(fault) for fault in check.examples]]
        if lines_of_check:
            lines += ["", f"## {check.name}", "", *[f"- {line}" for line in lines_of_check]]
    heads = [f"| {shard} | {position} | {serial} |" for shard, (position, serial) in sorted(found.heads.items())]
    lines += ["", "## Heads", "", "| shard | position | serial |", "|---:|---:|---:|", *heads, ""]
    return "\n".join(lines)


def row_of(history: HistorySourceOptions, found: "AuditReport") -> dict[str, object]:
    return {
        "data": None if history.data is None else str(history.data),
        "endpoint": history.endpoint,
        "sound": found.sound,
        "faults": found.faults,
        "messages": found.messages,
        "sessions": found.sessions,
        "checks": [asdict(check) | {"sound": check.sound} for check in found.checks],
    }


def _faults(count: int) -> str:
    return "1 fault" if count == 1 else f"{count:,} faults"


def _line(fault: "Fault") -> str:
    """What is wrong, and where to find it."""
    places = [("shard", fault.shard), ("serial", fault.serial), ("position", fault.position), ("topic", fault.topic)]
    where = [f"{name} {value}" for name, value in [*places, ("client", fault.client)] if value is not None]
    detail = f" ({fault.detail})" if fault.detail else ""
    times = f"{fault.count:,}x " if fault.count > 1 else ""
    return f"{times}{fault.about}: {', '.join(where)}{detail}"
