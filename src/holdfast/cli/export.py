"""`holdfast export`: stored messages as Parquet, CSV or JSON lines, from the data folder, also while a broker runs.

Exit codes: 0 done, 1 the data cannot be read or the file not be written, 2 wrong usage or no data folder, 130 Ctrl-C.
"""

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.meter import Meter
from holdfast.cli.option_groups import grouped
from holdfast.cli.output_file import whole_file
from holdfast.cli.standard_output import ends_with_its_reader
from holdfast.cli.storage import FolderOptions
from holdfast.cli.times import span_of
from holdfast.cli.words import iso_time, size_in_words
from holdfast.durable.log import FOR_EVER
from holdfast.model.errors import HoldfastError, MisuseError, PeerError
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.since import EARLIEST

if TYPE_CHECKING:
    from holdfast.history.export import Export
    from holdfast.history.writing import FileFormat

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_STANDARD_OUTPUT: Final = "-"
_MISSING: Final = 'export needs Arrow, which is not installed; install it with: pip install "holdfast[history]"'


class Kind(StrEnum):
    """The same as FileFormat, without Arrow, so that the help needs none."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


@grouped
def export(
    topic_filter: Annotated[str, typer.Argument(metavar="FILTER", help="Topic filter; + and # are wildcards.")],
    since: Annotated[
        str,
        typer.Option(metavar="T", help="earliest, a time (ISO 8601, Unix microseconds), how long ago (-2h)."),
    ] = EARLIEST,
    until: Annotated[
        str | None, typer.Option(metavar="T", help="The end, in the same words; not included.", show_default="all")
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--format",
            help="Without it the name of the file says which; standard output gets jsonl.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The file to make; - is standard output.")
    ] = _STANDARD_OUTPUT,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="These columns, in this order.", show_default="all")
    ] = None,
    by_time: Annotated[
        bool, typer.Option("--by-time", help="All messages in the order of time; else those of each shard are.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    *,
    options: FolderOptions,
) -> None:
    """Write stored messages to a file, from the data folder itself. The broker may run meanwhile."""
    try:
        from holdfast.history.export import Export
        from holdfast.history.reader import HistoryReader
        from holdfast.history.writing import FileFormat, open_writer
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("pyarrow", "numpy"):
            fail(_MISSING, WRONG_USAGE)
        raise
    file_format = FileFormat(kind or _kind_of(output))
    wanted = _columns(columns, file_format)
    parsed = _parse(topic_filter)
    since_us, until_us = span_of("--since", since, "--until", until)
    path = None if output == _STANDARD_OUTPUT else Path(output)
    if path is None and file_format is FileFormat.PARQUET and sys.stdout.isatty():
        fail("Parquet is nothing to look at on a terminal; name a file with -o FILE", WRONG_USAGE)
    began_s = time.monotonic()
    try:
        reader = HistoryReader.open(options.folder())
    except HoldfastError as error:
        fail(str(error), WRONG_USAGE)
    with ends_with_its_reader(), reader:
        try:
            work = Export(reader, parsed, wanted, since_us, FOR_EVER if until_us is None else until_us)
            with whole_file(path) as sink, Meter("export", shown=path is not None or not sys.stdout.isatty()) as meter:
                writer = open_writer(file_format, sink, wanted)
                for batch in work.batches(by_time=by_time):
                    writer.write(batch)
                    if meter.is_due():
                        meter.update(work.share(), f"{work.messages:,} messages, {size_in_words(sink.size_bytes)}")
                writer.close()
        except BrokenPipeError:
            raise
        except HoldfastError as error:
            fail(str(error), _FAILED)
        except OSError as error:
            fail(f"{output}: {error.strerror or error}", _FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        _print_summary(work, output, sink.size_bytes, time.monotonic() - began_s, as_json=as_json)


def _kind_of(output: str) -> Kind:
    if output == _STANDARD_OUTPUT:
        return Kind.JSONL
    suffix = Path(output).suffix.removeprefix(".").lower()
    if suffix not in list(Kind):
        fail("say which format: --format parquet, csv or jsonl; or end the name of FILE with one of them", WRONG_USAGE)
    return Kind(suffix)


def _columns(text: str | None, file_format: "FileFormat") -> tuple[str, ...]:
    from holdfast.history.arrow import schema_of

    if text is None:
        return file_format.columns
    names = tuple(name.strip() for name in text.split(","))
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        fail(f"--columns: {twice[0]} stands twice; give it once", WRONG_USAGE)
    try:
        schema_of(names)
    except MisuseError as error:
        fail(f"--columns: {error}", WRONG_USAGE)
    return names


def _parse(text: str) -> TopicFilter:
    try:
        parsed = parse_filter(text.encode())
    except PeerError as error:
        fail(error.detail, WRONG_USAGE)
    if parsed.since or parsed.group:
        fail(f"{text}: write the filter alone, without $replay/ and $share/", WRONG_USAGE)
    return parsed


def _print_summary(work: "Export", output: str, size_bytes: int, seconds: float, *, as_json: bool) -> None:
    """Standard output may belong to the messages."""
    span = [iso_time(work.first_us), iso_time(work.last_us)] if work.messages else [None, None]
    if as_json:
        row = {"file": output, "messages": work.messages, "bytes": size_bytes, "from": span[0], "to": span[1]}
        text = json.dumps(row | {"seconds": round(seconds, 3)}, ensure_ascii=False)
    else:
        between = f", from {span[0]} to {span[1]}" if work.messages else ""
        text = f"{output}: {work.messages:,} messages, {size_in_words(size_bytes)}{between}, in {seconds:.1f} s"
    typer.echo(text, err=output == _STANDARD_OUTPUT)
