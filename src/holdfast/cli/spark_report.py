"""`holdfast spark report`: what a broker's history looks like, as one page of HTML to be sent to somebody.

Everything that can be wrong with the options is found before Spark is started.

Exit codes: 0 done, 1 the data cannot be read or the file not be written, 2 wrong usage or no data folder, 130 Ctrl-C.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.output_file import whole_file
from holdfast.cli.spark_job import Job, job
from holdfast.cli.spark_options import FAILED, SparkOptions
from holdfast.cli.times import span_of
from holdfast.cli.words import size_in_words
from holdfast.model.errors import PeerError
from holdfast.topics.filters import parse_filter

if TYPE_CHECKING:
    from holdfast.pipeline.report.figures import Figures

_TITLE: Final = "Message traffic"


@grouped
def report(
    options: SparkOptions,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to make, in HTML.")],
    since: Annotated[
        str, typer.Option(metavar="T", help="How far back: -7d (s, m, h, d, w), ISO 8601, or earliest.")
    ] = "-7d",
    title: Annotated[str, typer.Option(help="What stands above it.")] = _TITLE,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="FILTER", help="Messages of this filter only.", show_default="all")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Make a page with pictures: traffic, patterns, heaviest topics, sizes, gaps, drops, sessions."""
    since_us, _until_us = span_of("--since", since, "", None)
    _check(output, topic)
    if options.endpoint is not None:
        fail("a report is made from a data folder, with its events; name it with --data", WRONG_USAGE)
    options.source()
    with job("report", as_json=as_json) as run:
        figures = _figures(options, since_us, title, topic, run)
        text = _page(figures).encode()
        try:
            with whole_file(output) as sink:
                sink.write(text)
        except OSError as error:
            fail(f"{output}: {error.strerror or error}", FAILED)
        totals = figures.totals
        about = f"{totals.messages:,} messages on {totals.topics:,} topics, {size_in_words(len(text))}"
        row = {"file": str(output), "bytes": len(text), "messages": totals.messages, "topics": totals.topics}
        run.sum_up(row, f"{output}: {about}")


def _check(output: Path, topic: str | None) -> None:
    if output.is_dir() or not output.absolute().parent.is_dir():
        fail(f"-o {output}: name a file in a folder that is there", WRONG_USAGE)
    if topic is not None:
        try:
            parsed = parse_filter(topic.encode())
        except PeerError as error:
            fail(f"--topic: {error.detail}", WRONG_USAGE)
        if parsed.group or parsed.since:
            fail(f"--topic {topic}: write the filter alone, without $replay/ and $share/", WRONG_USAGE)


def _figures(options: SparkOptions, since_us: int, title: str, topic: str | None, run: Job) -> "Figures":
    from holdfast.pipeline.report.making import Wish, report_of

    run.begin("starting Spark")
    assert options.data is not None
    return report_of(Wish(options.data.absolute(), since_us, title, topic, options.lake), options.master, run.progress)


def _page(figures: "Figures") -> str:
    from holdfast.pipeline.report.page import page

    return page(figures)
