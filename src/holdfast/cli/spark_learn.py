"""`holdfast spark learn`: which patterns the topics of all history follow, in words; and the next generation from them.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 done, 1 the data cannot be read or something not be written, 2 wrong usage or no data there, 130 Ctrl-C.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.learn_output import figures_of, print_learnt, print_measured, row_of, what_happens
from holdfast.cli.option_groups import grouped
from holdfast.cli.output_file import whole_file
from holdfast.cli.spark_job import Job, job
from holdfast.cli.spark_options import FAILED, SparkOptions
from holdfast.cli.words import size_in_words
from holdfast.model.errors import PermanentError

if TYPE_CHECKING:
    from holdfast.history.pattern_measure import Measured
    from holdfast.pipeline.learning.making import Result

_STOPPED: Final = "nothing is applied"


@grouped
def learn(
    options: SparkOptions,
    zone: Annotated[str | None, typer.Option("--zone", help="This zone only.", show_default="all")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Let the next generation of each zone begin with what is sure.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Try out what that would bring, with messages of the log.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="All of it as JSON, in a file.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON, on one line.")] = False,
) -> None:
    """Learn which patterns the topics of all history follow, and explain them. The broker may run meanwhile."""
    _check(options, output, apply=apply, measure=measure)
    given = options.source(**({} if zone is None else {"zone": zone}))
    with job("learn", as_json=as_json, stopped=_STOPPED) as run:
        result = _result(given, zone, options, run)
        zones = _chosen(result)
        measured = _measured(options.data, zones, run) if measure and options.data is not None else []
        if output is not None:
            _write(output, result, zones)
        if apply and options.data is not None:
            _apply(options.data, zones, result)
        row = row_of(result, zones) | {"applied": apply, "measured": [figures_of(one) for one in measured]}
        sure = sum(one.is_sure for one in result.found)
        about = f"{result.messages:,} messages on {result.topics:,} topics, {size_in_words(result.size_bytes)}"
        unsure = len(result.found) - sure
        doubt = f", and {unsure} that {'is' if unsure == 1 else 'are'} not sure" if unsure else ""
        run.sum_up(row, f"{sure} pattern{'' if sure == 1 else 's'}{doubt}, from {about}")
    if not as_json:
        print_learnt(result)
        print_measured(measured)
        typer.echo(what_happens(zones, applied=apply))


def _check(options: SparkOptions, output: Path | None, *, apply: bool, measure: bool) -> None:
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        fail(f"-o {output}: name a file in a folder that is there", WRONG_USAGE)
    for wanted, name in ((apply, "--apply"), (measure, "--measure")):
        if wanted and options.endpoint is not None:
            fail(
                f"{name} goes with --data, the broker's data folder; from elsewhere, write a file with -o and put it "
                "there as patterns.json",
                WRONG_USAGE,
            )


def _result(given: dict[str, str], zone: str | None, options: SparkOptions, run: Job) -> "Result":
    from holdfast.pipeline.learning.making import Wish, learn_with

    run.begin("starting Spark")
    return learn_with(Wish(given, zone, options.lake), options.master, run.progress)


def _chosen(result: "Result") -> dict[str, list[str]]:
    from holdfast.pipeline.learning.making import chosen

    return chosen(result.found)


def _measured(folder: Path, zones: dict[str, list[str]], run: Job) -> "list[Measured]":
    from holdfast.history.pattern_measure import measure

    found: list[Measured] = []
    for zone, patterns in zones.items():
        run.begin(f"trying out zone {zone}")
        try:
            found.append(measure(folder, zone, patterns, lambda name: run.progress(None, name)))
        except PermanentError as error:
            # Not learnt for nothing: it has a layout of another kind, or its messages are in the lake.
            typer.echo(f"holdfast: not measured: {error}", err=True)
    return found


def _apply(folder: Path, zones: dict[str, list[str]], result: "Result") -> None:
    from holdfast.pipeline.learning.making import apply

    apply(folder, zones, sorted({one.pattern.zone for one in result.found}))


def _write(output: Path, result: "Result", zones: dict[str, list[str]]) -> None:
    """The same file that a data folder may have, with all that is to be said about each pattern."""
    text = json.dumps({"version": 1, "zones": zones} | row_of(result, zones), ensure_ascii=False, indent=1)
    try:
        with whole_file(output) as sink:
            sink.write(f"{text}\n".encode())
    except OSError as error:
        fail(f"{output}: {error.strerror or error}", FAILED)
