"""`holdfast export`: stored messages as Parquet, CSV or JSON lines, from the data folder, also while a broker runs.

Exit codes: 0 done, 1 the data cannot be read or the file not be written, 2 wrong usage or no data folder, 130 Ctrl-C.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import FAILED, INTERRUPTED, exit_on, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.options.times import parse_time_span
from holdfast.cli.output.file import open_output
from holdfast.cli.output.meter import Meter
from holdfast.cli.output.standard_output import tolerate_closed_pipe
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.storage.command import FolderOptions
from holdfast.durable.log import NO_END
from holdfast.history.arrow.file_columns import FileFormat
from holdfast.model.errors import HoldfastError, MisuseError, PeerError
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.since import EARLIEST

if TYPE_CHECKING:
    from holdfast.history.export import Export

_STANDARD_OUTPUT: Final = "-"
_MISSING: Final = 'export needs Arrow, which is not installed; install it with: pip install "holdfast[history]"'


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Which messages are exported, and how."""

    since: Annotated[
        str, typer.Option(metavar="T", help="earliest, a time (ISO 8601, Unix microseconds), how long ago (-2h).")
    ] = EARLIEST
    until: Annotated[
        str | None, typer.Option(metavar="T", help="The end, in the same forms; not included.", show_default="all")
    ] = None
    kind: Annotated[
        FileFormat | None,
        typer.Option("--format", help="Without it the name of the file decides; standard output gets jsonl."),
    ] = None
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The file to make; - is standard output.")
    ] = _STANDARD_OUTPUT
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="These columns, in this order.", show_default="all")
    ] = None
    by_time: Annotated[
        bool, typer.Option("--by-time", help="All messages in the order of time; else those of each shard are.")
    ] = False


@grouped
def export(
    topic_filter: Annotated[str, typer.Argument(metavar="FILTER", help="Topic filter; + and # are wildcards.")],
    wanted: ExportOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    *,
    options: FolderOptions,
) -> None:
    """Write stored messages to a file, from the data folder itself. The broker may run meanwhile."""
    try:
        from holdfast.history.arrow.file_writer import open_writer
        from holdfast.history.export import Export
        from holdfast.history.reader.reader import HistoryReader
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("pyarrow", "numpy"):
            fail(_MISSING)
        raise
    output = wanted.output
    file_format = wanted.kind or _format_of(output)
    columns = _columns(wanted.columns, file_format)
    parsed = _parse(topic_filter)
    since_us, until_us = parse_time_span("--since", wanted.since, "--until", wanted.until)
    path = None if output == _STANDARD_OUTPUT else Path(output)
    if path is None and file_format is FileFormat.PARQUET and sys.stdout.isatty():
        fail("Parquet is nothing to look at on a terminal; name a file with -o FILE")
    began_s = time.monotonic()
    with exit_on(HoldfastError):
        reader = HistoryReader.open(options.folder())
    with tolerate_closed_pipe(), reader, exit_on(HoldfastError, code=FAILED):
        try:
            work = Export(reader, parsed, columns, since_us, NO_END if until_us is None else until_us)
            with open_output(path) as sink, Meter("export", shown=path is not None or not sys.stdout.isatty()) as meter:
                writer = open_writer(file_format, sink, columns)
                for batch in work.batches(by_time=wanted.by_time):
                    writer.write(batch)
                    if meter.is_due():
                        meter.update(work.share(), f"{work.messages:,} messages, {format_size(sink.size_bytes)}")
                writer.close()
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(f"{output}: {error.strerror or error}", FAILED)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        _print_summary(work, output, sink.size_bytes, time.monotonic() - began_s, as_json=as_json)


def _format_of(output: str) -> FileFormat:
    if output == _STANDARD_OUTPUT:
        return FileFormat.JSONL
    suffix = Path(output).suffix.removeprefix(".").lower()
    if suffix not in list(FileFormat):
        fail("say which format: --format parquet, csv or jsonl; or end the name of FILE with one of them")
    return FileFormat(suffix)


def _columns(text: str | None, file_format: FileFormat) -> tuple[str, ...]:
    from holdfast.history.arrow.file_writer import default_columns
    from holdfast.history.arrow.message_batches import schema_of

    if text is None:
        return default_columns(file_format)
    names = tuple(name.strip() for name in text.split(","))
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        fail(f"--columns: {twice[0]} stands twice; give it once")
    with exit_on(MisuseError, named="--columns"):
        schema_of(names)
    return names


def _parse(text: str) -> TopicFilter:
    with exit_on(PeerError):
        parsed = parse_filter(text.encode())
    if parsed.since or parsed.group:
        fail(f"{text}: write the filter alone, without $replay/ and $share/")
    return parsed


def _print_summary(work: "Export", output: str, size_bytes: int, seconds: float, *, as_json: bool) -> None:
    """On standard error if standard output has the messages."""
    span = [format_time(work.first_us), format_time(work.last_us)] if work.messages else [None, None]
    if as_json:
        row = {"file": output, "messages": work.messages, "bytes": size_bytes, "from": span[0], "to": span[1]}
        text = json.dumps(row | {"seconds": round(seconds, 3)}, ensure_ascii=False)
    else:
        between = f", from {span[0]} to {span[1]}" if work.messages else ""
        text = f"{output}: {work.messages:,} messages, {format_size(size_bytes)}{between}, in {seconds:.1f} s"
    typer.echo(text, err=output == _STANDARD_OUTPUT)
