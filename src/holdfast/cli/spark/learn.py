"""`holdfast spark learn`: the topic patterns of all history, explained, and the next generation from them.

Exit codes: 0 done, 1 the data cannot be read or something not be written, 2 wrong usage or no data there, 130 Ctrl-C.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.commands import fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.text import format_size
from holdfast.cli.spark.job_output import JobOutput, job_output, write_file
from holdfast.cli.spark.options import QueryOptions, check_output_file
from holdfast.model.errors import PermanentError

if TYPE_CHECKING:
    from holdfast.history.patterns import PatternMeasurement
    from holdfast.pipeline.learn.description import ExplainedPattern
    from holdfast.pipeline.learn.job import LearnOutcome

_STOPPED: Final = "nothing is applied"
#: Rows that people look at; `-o` and `--json` have them all.
_SHOWN: Final = 40
#: Wide enough for a line of explanation where standard output is no terminal.
_WIDTH: Final = 160


@grouped
def learn(
    options: QueryOptions,
    zone: Annotated[str | None, typer.Option(help="This zone only.", show_default="all")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Let the next generation of each zone begin with what is sure.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Try out what that would bring, with messages of the log.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="All of it as JSON, in a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON, on one line.")] = False,
) -> None:
    """Learn which patterns the topics of all history follow, and explain them. The broker may run meanwhile."""
    _check(options, output, apply=apply, measure=measure)
    given = options.source(**({} if zone is None else {"zone": zone}))
    with job_output("learn", as_json=as_json, stopped=_STOPPED) as job:
        from holdfast.pipeline.learn.job import LearnJob, apply_patterns, choose_patterns, run_learn
        from holdfast.pipeline.source.history_source import read_view

        if apply and options.data is not None:
            read_view(options.data, "what the next generation begins with")
        result = run_learn(LearnJob(given, zone, options.lake), options.master, job.progress)
        zones = choose_patterns(result.found)
        measured = _measure(options.data, zones, job) if measure and options.data is not None else []
        if output is not None:
            # The same file that a data folder may have, with all that is known about each pattern.
            text = json.dumps({"version": 1, "zones": zones} | _row_of(result, zones), ensure_ascii=False, indent=1)
            write_file(output, f"{text}\n".encode())
        if apply and options.data is not None:
            apply_patterns(options.data, zones, sorted({one.pattern.zone for one in result.found}))
        row = _row_of(result, zones) | {"applied": apply, "measured": [_figures_of(one) for one in measured]}
        sure = sum(one.is_sure for one in result.found)
        about = f"{result.messages:,} messages on {result.topics:,} topics, {format_size(result.size_bytes)}"
        unsure = len(result.found) - sure
        doubt = f", and {unsure} that {'is' if unsure == 1 else 'are'} not sure" if unsure else ""
        job.summarize(row, f"{sure} pattern{'' if sure == 1 else 's'}{doubt}, from {about}")
    if not as_json:
        _print_learnt(result)
        _print_measured(measured)
        typer.echo(_what_happens(zones, applied=apply))


def _check(options: QueryOptions, output: Path | None, *, apply: bool, measure: bool) -> None:
    if output is not None:
        check_output_file(output)
    for wanted, name in ((apply, "--apply"), (measure, "--measure")):
        if wanted and options.endpoint is not None:
            fail(
                f"{name} goes with --data, the broker's data folder; from elsewhere, write a file with -o and put it "
                "there as patterns.json"
            )


def _measure(folder: Path, zones: dict[str, list[str]], job: JobOutput) -> "list[PatternMeasurement]":
    from holdfast.history.patterns import measure_patterns

    found: list[PatternMeasurement] = []
    for zone, patterns in zones.items():
        job.progress.say(f"trying out zone {zone}")
        try:
            found.append(measure_patterns(folder, zone, patterns, job.progress.say))
        except PermanentError as error:
            # Not learnt for nothing: it has a layout of another kind, or its messages are in the lake.
            typer.echo(f"holdfast: not measured: {error}", err=True)
    return found


# ---- for people


def _print_learnt(result: "LearnOutcome") -> None:
    """A table of patterns with their explanations, and one of those that are in doubt."""
    with_zone = len({one.pattern.zone for one in result.found}) > 1
    _print("", [one for one in result.found if one.is_sure], with_zone=with_zone)
    _print("not sure", [one for one in result.found if not one.is_sure], with_zone=with_zone)
    outside = result.outside
    if outside.topics:
        size = f"topics that are too long or too deep to follow a pattern: {outside.topics:,}"
        _console().print(f"{size}, with {outside.messages:,} messages", highlight=False)


def _print(title: str, found: "Sequence[ExplainedPattern]", *, with_zone: bool) -> None:
    if not found:
        return
    table = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
    numbers = ("topics", "messages", "share", "payload")
    for name in (*(("zone",) if with_zone else ()), "pattern", *numbers, "about it"):
        right = name in numbers
        table.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for one in found[:_SHOWN]:
        pattern = one.pattern
        about = [*one.against, *([] if one.against else [one.words]), *one.near]
        table.add_row(
            *((Text(pattern.zone),) if with_zone else ()),
            Text(pattern.text),
            f"{pattern.topics:,}",
            f"{pattern.messages:,}",
            f"{one.share:.1%}",
            format_size(pattern.size_bytes),
            Text("; ".join(about)),
        )
    _console().print(table)
    if len(found) > _SHOWN:
        _console().print(f"… and {len(found) - _SHOWN} more; all are in --json and -o FILE", highlight=False)


def _print_measured(measured: "Sequence[PatternMeasurement]") -> None:
    """What patterns would bring, zone by zone."""
    for one in measured:
        title = f"zone {one.zone}: {one.messages:,} messages of shard {one.shard}"
        table = Table(box=None, pad_edge=False, title=title, title_justify="left")
        table.add_column("")
        for name in one.trials:
            table.add_column(name, justify="right")
        trials = list(one.trials.values())
        table.add_row("streams", *[f"{trial.streams:,}" for trial in trials])
        table.add_row("bytes per message on disk", *[f"{trial.bytes_per_message:.1f}" for trial in trials])
        table.add_row("write, CPU µs per message", *[f"{trial.write_cpu_us:.1f}" for trial in trials])
        for i, answer in enumerate(trials[0].answers):
            name = f"{answer.name} ({answer.messages:,.0f} messages)"
            table.add_row(f"{name}: CPU ms", *[f"{trial.answers[i].cpu_ms:.2f}" for trial in trials])
            table.add_row("    seeks", *[f"{trial.answers[i].seeks:,.0f}" for trial in trials])
            table.add_row("    messages fetched by key", *[f"{trial.answers[i].fetches:,.0f}" for trial in trials])
        _console().print(table)


def _what_happens(zones: dict[str, list[str]], *, applied: bool) -> str:
    if not zones:
        return "nothing is sure enough for the next generation to begin with"
    count = sum(map(len, zones.values()))
    patterns = f"{count} pattern{'' if count == 1 else 's'}"
    if applied:
        return f"applied: the next generation begins with {patterns}, within a second if the broker runs"
    return f"with --apply, the next generation would begin with {patterns}"


# ---- for machines


def _row_of(result: "LearnOutcome", zones: dict[str, list[str]]) -> dict[str, object]:
    return {
        "messages": result.messages,
        "topics": result.topics,
        "bytes": result.size_bytes,
        "zones": zones,
        "patterns": [_plain(one) for one in result.found],
        "outside": result.outside._asdict(),
    }


def _plain(one: "ExplainedPattern") -> dict[str, object]:
    pattern = one.pattern
    return {
        "zone": pattern.zone,
        "pattern": pattern.text,
        "topics": pattern.topics,
        "messages": pattern.messages,
        "bytes": pattern.size_bytes,
        "share": round(one.share, 6),
        "sure": one.is_sure,
        "words": one.words,
        "doubts": [*one.against, *one.near],
        "levels": [
            {
                "level": level.depth + 1,
                "values": level.values,
                "entropy_bits": level.entropy_bits,
                "looks": level.looks,
                "first": level.first,
                "last": level.last,
            }
            for level in pattern.varying
        ],
    }


def _figures_of(measured: "PatternMeasurement") -> dict[str, object]:
    return {
        "zone": measured.zone,
        "shard": measured.shard,
        "messages": measured.messages,
        "trials": {
            name: trial._asdict() | {"answers": [answer._asdict() for answer in trial.answers]}
            for name, trial in measured.trials.items()
        },
    }


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)
