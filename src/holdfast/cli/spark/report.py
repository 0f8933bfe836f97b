"""`holdfast spark report`: a broker's history as one page of HTML.

Exit codes: 0 done, 1 the data cannot be read or the file not be written, 2 wrong usage or no data folder, 130 Ctrl-C.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.cli.options.groups import grouped
from holdfast.cli.options.times import parse_time_span
from holdfast.cli.output.text import format_size
from holdfast.cli.spark.job_output import job_output, write_file
from holdfast.cli.spark.options import QueryOptions, check_filter, check_output_file

_TITLE: Final = "Message traffic"


@grouped
def report(
    options: QueryOptions,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to make, in HTML.")],
    since: Annotated[
        str, typer.Option(metavar="T", help="How far back: -7d (s, m, h, d, w), ISO 8601, or earliest.")
    ] = "-7d",
    title: Annotated[str, typer.Option(help="What stands above it.")] = _TITLE,
    topic: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Messages of this filter only.", show_default="all")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
) -> None:
    """Make a page with pictures: traffic, patterns, heaviest topics, sizes, gaps, drops, sessions."""
    since_us, _until_us = parse_time_span("--since", since, "", None)
    check_output_file(output)
    if topic is not None:
        check_filter("--topic", topic)
    given = options.source()
    with job_output("report", as_json=as_json) as job:
        from holdfast.pipeline.report.job import ReportJob, run_report
        from holdfast.pipeline.report.page import render_page

        work = ReportJob(given, since_us, title, topic, options.lake)
        figures = run_report(work, options.master, job.progress)
        text = render_page(figures).encode()
        write_file(output, text)
        totals = figures.totals
        about = f"{totals.messages:,} messages on {totals.topics:,} topics, {format_size(len(text))}"
        row = {"file": str(output), "bytes": len(text), "messages": totals.messages, "topics": totals.topics}
        job.summarize(row, f"{output}: {about}")
