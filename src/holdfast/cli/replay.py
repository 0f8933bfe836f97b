"""`holdfast replay`: stored messages of a running broker, printed or published again."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.cli.commands import INTERRUPTED, exit_on, fail
from holdfast.cli.options.broker import BrokerOptions, Version, run
from holdfast.cli.options.groups import grouped
from holdfast.cli.options.times import parse_speed_option, parse_time_span
from holdfast.cli.output.meter import Meter
from holdfast.cli.output.standard_output import tolerate_closed_pipe
from holdfast.cli.replay_transfer import (
    MessagePrinter,
    ReplayPlace,
    ReplaySource,
    ReplaySummary,
    Republisher,
    Transfer,
)
from holdfast.cli.sub import MessageFormat
from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError
from holdfast.client.options import ConnectionOptions
from holdfast.model.errors import PeerError
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.names import check_topic_name
from holdfast.topics.since import LATEST

#: Seconds between two lines of progress.
_PROGRESS_S: Final = 1.0
#: Seconds to wait for acknowledgements after Ctrl-C, so that the place is exact.
_LAST_ACKNOWLEDGEMENTS_S: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class DestinationOptions:
    """Where messages are published again."""

    to_prefix: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="Publish them again, below this topic, instead of printing.")
    ] = None
    into: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Publish them to another broker: HOST:PORT, or an address as --url has."
        ),
    ] = None
    to_same_topics: Annotated[
        bool, typer.Option("--to-same-topics", help="Publish them again, to the topics that they came from.")
    ] = False
    qos: Annotated[int, typer.Option("-q", "--qos", help="Quality of service of publishing.", min=0, max=2)] = 1
    into_user: Annotated[str | None, typer.Option(help="User name at the broker of --into.")] = None
    into_password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Its password's variable.")] = None
    into_password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Its password's file.")] = None
    into_ca: Annotated[Path | None, typer.Option(metavar="FILE", help="Authorities to trust there; PEM.")] = None

    def prefix(self) -> str:
        """What goes in front of topics: with a slash, if there is anything."""
        if self.to_prefix is None:
            return ""
        with exit_on(PeerError, named="--to-prefix"):
            check_topic_name(self.to_prefix.encode())
        return self.to_prefix if self.to_prefix.endswith("/") else f"{self.to_prefix}/"

    def target(self, source: ConnectionOptions, broker: BrokerOptions) -> ConnectionOptions | None:
        """The broker to publish to; None to print."""
        if self.to_same_topics and (self.to_prefix is not None or self.into is not None):
            fail("--to-same-topics is for the broker that is replayed, without --to-prefix and --into")
        if self.into is None:
            if self.into_user or self.into_password_env or self.into_password_file or self.into_ca:
                fail("--into-user and the like are for another broker; add --into HOST:PORT")
            if self.to_prefix is None and not self.to_same_topics:
                return None
            # Another client id: of two connections with the same one, the broker ends the older.
            return BrokerOptions(**{**vars(broker), "client_id": ""}).target()
        url = self.into if "://" in self.into else f"mqtt://{self.into}"
        target = BrokerOptions(
            url=url,
            user=self.into_user,
            password_env=self.into_password_env,
            password_file=self.into_password_file,
            ca=self.into_ca,
        ).target(named="--into")
        if (target.host, target.port) == (source.host, source.port) and self.to_prefix is None:
            fail(f"--into {self.into} is the broker that is replayed; add --to-prefix PREFIX, or use --to-same-topics")
        return target


@dataclass(frozen=True, kw_only=True)
class _ReplayRun:
    """A replay whose options fit together."""

    source: ConnectionOptions
    #: The broker to publish to; None to print.
    sink: ConnectionOptions | None
    topic_filter: TopicFilter
    begin: str
    #: None: go on with live messages.
    end: str | None
    speed: str
    prefix: str
    qos: int
    output: MessageFormat
    #: A line of progress a second on standard output, in place of a bar.
    progress: bool

    async def run(self, summary: ReplaySummary) -> None:
        """Replay up to the end; what was done by then is in `summary`, also if this is cancelled."""
        async with AsyncExitStack() as connections:
            client = await connections.enter_async_context(Client(self.source))
            begin = self.begin if summary.place is None else str(summary.place.position_us)
            source = ReplaySource(client, self.topic_filter, begin, self.end, self.speed)
            writer = None if self.sink is None else await connections.enter_async_context(Client(self.sink))
            await source.subscribe()
            summary.began = True
            # Not where messages are printed on a terminal: a bar would stand in between.
            shown = not self.progress and (writer is not None or not sys.stdout.isatty())
            meter = connections.enter_context(Meter("replay", shown=shown))
            transfer = Transfer(source, self._sink(source, writer), summary, meter)
            try:
                if self.progress:
                    async with transfer.reporting(lambda: typer.echo(json.dumps(summary.as_progress())), _PROGRESS_S):
                        await transfer.run()
                else:
                    await transfer.run()
            except asyncio.CancelledError:
                with suppress(TimeoutError, LostError):
                    async with asyncio.timeout(_LAST_ACKNOWLEDGEMENTS_S):
                        await transfer.settle()
                raise
            summary.complete = True

    def _sink(self, source: ReplaySource, writer: Client | None) -> MessagePrinter | Republisher:
        if self.sink is None or writer is None:
            return MessagePrinter(self.output)
        same_broker = (self.sink.host, self.sink.port) == (self.source.host, self.source.port)
        return Republisher(writer, self.prefix, self.qos, own_since_us=source.asked_us if same_broker else None)


@grouped
def replay(
    topic_filter: Annotated[str, typer.Argument(metavar="FILTER", help="Topic filter; + and # are wildcards.")],
    since: Annotated[
        str,
        typer.Option("--from", metavar="T", help="earliest, a time (ISO 8601, Unix microseconds), how long ago (-2h)."),
    ],
    until: Annotated[
        str | None, typer.Option(metavar="T", help="The end, in the same forms.", show_default="now")
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="SPEED", help="1 as it was, 10 ten times as fast, max as fast as can be.")
    ] = "max",
    follow: Annotated[bool, typer.Option("--follow", help="Go on with live messages, until Ctrl-C.")] = False,
    output: Annotated[
        MessageFormat, typer.Option("--format", help="A line each: time, topic and payload, or JSON.")
    ] = MessageFormat.TEXT,
    after: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Go on behind this place: `place` of --progress of a run that was stopped."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, of messages and of the summary.")] = False,
    progress: Annotated[
        bool, typer.Option("--progress", help="While publishing: a line of JSON a second, and one at the end.")
    ] = False,
    *,
    into: DestinationOptions,
    broker: BrokerOptions,
) -> None:
    """Replay stored messages of a running broker: print them, or publish them again."""
    if broker.version is not Version.V5:
        fail("replay needs MQTT 5; with -V 3 use: holdfast sub '$replay/-2h/FILTER'")
    if follow and until is not None:
        fail("--follow has no end; leave --until out")
    parse_speed_option(speed)
    end = None if follow else until or LATEST
    parse_time_span("--from", since, "--until", end)
    parsed = _filter_of(topic_filter)
    place = _place_of(after, follow=follow)
    source_target = broker.target()
    prefix = into.prefix()
    sink_target = into.target(source_target, broker)
    if progress and (sink_target is None or follow):
        fail("--progress is for publishing up to an end: add --to-prefix PREFIX, and leave --follow out")
    if into.to_same_topics and follow:
        fail("--to-same-topics would follow its own messages; leave --follow out")
    summary = ReplaySummary(place)
    task = _ReplayRun(
        source=source_target,
        sink=sink_target,
        topic_filter=parsed,
        begin=since,
        end=end,
        speed=speed,
        prefix=prefix,
        qos=into.qos,
        output=MessageFormat.JSON if as_json else output,
        progress=progress,
    )
    interrupted = False
    with tolerate_closed_pipe():
        try:
            run(task.run(summary))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if summary.began:
                summary.complete = summary.complete or (follow and interrupted)
                state = "" if summary.complete else " (not all)"
                row = summary.as_progress() if progress else summary.as_row()
                text = json.dumps(row) if as_json or progress else f"replayed {summary.describe()}{state}"
                # Standard output belongs to the messages, if they are printed.
                typer.echo(text, err=sink_target is None)
    if interrupted and not follow:
        raise typer.Exit(INTERRUPTED)


def _place_of(text: str | None, *, follow: bool) -> ReplayPlace | None:
    if text is None:
        return None
    if follow:
        fail("--after needs an end, which keeps the order of all shards; leave --follow out")
    with exit_on(ValueError, named="--after"):
        return ReplayPlace.parse(text)


def _filter_of(text: str) -> TopicFilter:
    with exit_on(PeerError):
        parsed = parse_filter(text.encode())
    if parsed.since:
        fail(f"{text} says where to begin already; write the filter alone, and --from {parsed.since}")
    if parsed.group:
        fail(f"{text} is shared, and a replay is not; write the filter alone")
    return parsed
