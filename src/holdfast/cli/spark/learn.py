"""`holdfast spark learn`: the topic patterns of all history, explained, and the next generation from them.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 done, 1 the data cannot be read or something not be written, 2 wrong usage or no data there, 130 Ctrl-C.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.text import format_size
from holdfast.cli.spark.job_output import JobOutput, job_output, write_file
from holdfast.cli.spark.learn_output import figures_of, print_learnt, print_measured, row_of, what_happens
from holdfast.cli.spark.options import QueryOptions, check_output_file
from holdfast.model.errors import PermanentError

if TYPE_CHECKING:
    from holdfast.history.patterns import PatternMeasurement

_STOPPED: Final = "nothing is applied"


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

        job.begin("starting Spark")
        result = run_learn(LearnJob(given, zone, options.lake), options.master, job.progress)
        zones = choose_patterns(result.found)
        measured = _measure(options.data, zones, job) if measure and options.data is not None else []
        if output is not None:
            # The same file that a data folder may have, with all that is known about each pattern.
            text = json.dumps({"version": 1, "zones": zones} | row_of(result, zones), ensure_ascii=False, indent=1)
            write_file(output, f"{text}\n".encode())
        if apply and options.data is not None:
            apply_patterns(options.data, zones, sorted({one.pattern.zone for one in result.found}))
        row = row_of(result, zones) | {"applied": apply, "measured": [figures_of(one) for one in measured]}
        sure = sum(one.is_sure for one in result.found)
        about = f"{result.messages:,} messages on {result.topics:,} topics, {format_size(result.size_bytes)}"
        unsure = len(result.found) - sure
        doubt = f", and {unsure} that {'is' if unsure == 1 else 'are'} not sure" if unsure else ""
        job.summarize(row, f"{sure} pattern{'' if sure == 1 else 's'}{doubt}, from {about}")
    if not as_json:
        print_learnt(result)
        print_measured(measured)
        typer.echo(what_happens(zones, applied=apply))


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
        job.begin(f"trying out zone {zone}")
        try:
            found.append(measure_patterns(folder, zone, patterns, lambda name: job.progress(None, name)))
        except PermanentError as error:
            # Not learnt for nothing: it has a layout of another kind, or its messages are in the lake.
            typer.echo(f"holdfast: not measured: {error}", err=True)
    return found
