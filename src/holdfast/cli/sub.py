"""`holdfast sub`: subscribe, and print what comes."""

import base64
import json
from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.commands import exit_on, fail
from holdfast.cli.options.broker import BrokerOptions, QosOption, Version, run
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.standard_output import tolerate_closed_pipe, write_line
from holdfast.client.asyncio_client import Client
from holdfast.model.errors import PeerError
from holdfast.model.protocol import MAX_U32
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.since import parse_since
from holdfast.wire.packets import Publish, Subscription
from holdfast.wire.properties import NO_PROPERTIES, Properties


class MessageFormat(StrEnum):
    """How a message is printed."""

    TEXT = "text"
    JSON = "json"


@grouped
def sub(
    filters: Annotated[list[str], typer.Argument(metavar="FILTER...", help="Topic filters; + and # are wildcards.")],
    qos: QosOption = 0,
    count: Annotated[int | None, typer.Option(help="Leave after this many messages.", min=1)] = None,
    output: Annotated[
        MessageFormat, typer.Option("--format", help="A line each: topic and payload, or JSON.")
    ] = MessageFormat.TEXT,
    persistent: Annotated[
        bool, typer.Option("--persistent/--clean", help="Keep the session, and what is missed meanwhile; needs --id.")
    ] = False,
    replay_from: Annotated[
        str | None,
        typer.Option(help="History first: earliest, a time (ISO 8601, Unix microseconds), or how long ago (-2h)."),
    ] = None,
    replay_until: Annotated[
        str | None, typer.Option(help="Where --replay-from ends, in the same forms; nothing comes from then on.")
    ] = None,
    replay_speed: Annotated[
        str | None,
        typer.Option(help="How fast --replay-from is: max, or a number; 1 is as it was published, 10 ten times that."),
    ] = None,
    *,
    broker: BrokerOptions,
) -> None:
    """Subscribe, and print messages until Ctrl-C.

    A message is acknowledged after it was printed.
    """
    if persistent and not broker.client_id:
        fail("--persistent needs --id NAME, by which the session is found again")
    with exit_on(PeerError):
        parsed = [_parse(text, replay_from, broker.version) for text in filters]
    target = broker.target(clean_start=not persistent, session_expiry_s=MAX_U32 if persistent else 0)
    properties = NO_PROPERTIES
    if replay_until is not None or replay_speed is not None:
        if replay_from is None and not all(line.since for line in parsed):
            fail("--replay-until and --replay-speed need --replay-from, which says where to begin")
        if broker.version is not Version.V5:
            fail("--replay-until and --replay-speed need MQTT 5; leave --mqtt-version out")
    if broker.version is Version.V5:
        asked = {"replay-from": replay_from, "replay-until": replay_until, "replay-speed": replay_speed}
        properties = Properties(
            user_properties=tuple((name, value) for name, value in asked.items() if value is not None)
        )

    async def print_messages() -> None:
        async with Client(target) as client:
            suback = await client.subscribe([Subscription(line, qos) for line in parsed], properties=properties)
            for line, reason in zip(parsed, suback.reasons, strict=True):
                typer.echo(f"subscribed to {line.raw.decode()} with QoS {reason}", err=True)
            printed = 0
            while count is None or printed < count:
                message = await client.receive()
                write_line(render(message, output))
                client.acknowledge(message)
                printed += 1

    try:
        with tolerate_closed_pipe():
            run(print_messages())
    except KeyboardInterrupt:
        return


def _parse(text: str, replay_from: str | None, version: Version) -> TopicFilter:
    """The filter to send. MQTT 3 has no properties, so there the start of a replay stands in the filter."""
    parsed = parse_filter(text.encode())
    if replay_from is None:
        return parsed
    parse_since(replay_from)
    if version is Version.V5:
        return parsed
    if parsed.since:
        fail(f"{text} says where to begin already; leave --replay-from out")
    inner = f"$replay/{replay_from}/{parsed.inner().decode()}"
    return parse_filter((f"$share/{parsed.group}/{inner}" if parsed.group else inner).encode())


def render(message: Publish, output: MessageFormat) -> bytes:
    """A message as a line; binary payloads are Base64 in JSON."""
    if output is MessageFormat.TEXT:
        return message.topic.encode() + b" " + message.payload + b"\n"
    return json.dumps(as_row(message), ensure_ascii=False).encode() + b"\n"


def as_row(message: Publish) -> dict[str, object]:
    """A message as JSON has it."""
    row: dict[str, object] = {"topic": message.topic}
    try:
        row["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        row["payload_base64"] = base64.b64encode(message.payload).decode()
    row |= {"qos": message.qos, "retain": message.retain, "dup": message.dup}
    properties = message.properties.present()
    if "correlation_data" in properties:
        data = message.properties.correlation_data or b""
        properties["correlation_data"] = base64.b64encode(data).decode()
    if properties:
        row["properties"] = properties
    return row
