"""`holdfast pub`: publish one message, or one per line of standard input."""

import asyncio
import io
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli.commands import exit_on, fail
from holdfast.cli.options.broker import BrokerOptions, QosOption, Version, run
from holdfast.cli.options.groups import grouped
from holdfast.client.asyncio_client import Client
from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import PUBLISH
from holdfast.topics.names import check_topic_name
from holdfast.wire.codec import encode
from holdfast.wire.packets import Publish
from holdfast.wire.properties import (
    BINARY,
    PROPERTIES,
    TEXT,
    TOPIC_ALIAS,
    USER_PROPERTY,
    Properties,
    check_response_topic,
)

_CHUNK_BYTES: Final = 65_536
#: Chunks of standard input that wait to be published; beyond that, the program that writes there has to wait.
_CHUNKS_AHEAD: Final = 4
#: A subscription to such a name is to what stands behind it.
_FILTERS_ONLY: Final = ("$share/", "$replay/")
_SETTABLE: Final = {
    spec.name: spec
    for spec in PROPERTIES
    if PUBLISH in spec.packets
    and spec.identifier not in (TOPIC_ALIAS, USER_PROPERTY)
    and spec.name[:12] != "subscription"
}


@grouped
def pub(
    topic: Annotated[str, typer.Argument(help="Topic to publish to.")],
    message: Annotated[
        bytes | None,
        typer.Option(
            "-m", "--message", metavar="TEXT", parser=os.fsencode, help="The message; empty is a message too."
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Publish the contents of this file.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Publish each line of standard input.")] = False,
    qos: QosOption = 0,
    retain: Annotated[bool, typer.Option("--retain", help="Keep it for future subscribers.")] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help=f"MQTT 5: {', '.join(_SETTABLE)}; any other name is a user property. May be repeated.",
        ),
    ] = None,
    *,
    broker: BrokerOptions,
) -> None:
    """Publish a message, and wait until the broker has it.

    With QoS 1 and 2 that is its acknowledgement.
    """
    if [message is not None, file is not None, lines].count(True) != 1:
        fail("give the message by exactly one of -m MESSAGE, --file FILE and --lines")
    payload = message or b""
    if file is not None:
        try:
            payload = file.read_bytes()
        except OSError as error:
            fail(f"--file {file}: {error.strerror}")
    extras = _parse_properties(properties or [], broker.version)
    with exit_on(PeerError, MisuseError):
        check_topic_name(topic.encode())
        if topic.startswith(_FILTERS_ONLY):
            fail(f"{topic}: no filter reaches this topic, as $share and $replay begin filters alone")
        encode(Publish(topic, payload, qos, 1 if qos else 0, retain=retain, properties=extras), broker.version.level)
    target = broker.target()

    async def publish() -> None:
        async with Client(target) as client:
            if lines:
                async for line in _stdin_lines():
                    await client.publish(topic, line, qos, retain=retain, properties=extras)
            else:
                await client.publish(topic, payload, qos, retain=retain, properties=extras)
            await client.settle()

    run(publish())


def _parse_properties(pairs: list[str], version: Version) -> Properties:
    if pairs and version is not Version.V5:
        fail("properties need MQTT 5; use -V 5 or leave --property out")
    values: dict[str, Any] = {}
    own: list[tuple[str, str]] = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            fail(f"--property {pair}: write NAME=VALUE")
        spec = _SETTABLE.get(name)
        if spec is None:
            own.append((name, value))
        elif name in values:
            fail(f"--property {name} stands twice; give it once")
        elif spec.kind in (TEXT, BINARY):
            values[name] = value if spec.kind == TEXT else value.encode()
        elif not (value.isascii() and value.isdigit()):
            fail(f"--property {name} is {value!r}; it must be a whole number")
        else:
            values[name] = int(value)
    if "response_topic" in values:
        with exit_on(PeerError):
            check_response_topic(values["response_topic"].encode())
    return Properties(**values, user_properties=tuple(own))


async def _stdin_lines() -> AsyncIterator[bytes]:
    """Lines of standard input without their ends, as they come; a last line may lack its end.

    A thread reads, because standard input may be a file, a pipe or a terminal, and only a thread can wait for all of
    them. It is left behind if the broker goes away first.
    """
    chunks: asyncio.Queue[bytes] = asyncio.Queue(_CHUNKS_AHEAD)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_feed, args=(_stdin_reader(), chunks, loop), daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


def _stdin_reader() -> Callable[[], bytes]:
    try:
        number = sys.stdin.fileno()
    except io.UnsupportedOperation:
        return lambda: sys.stdin.buffer.read(_CHUNK_BYTES)
    # Past Python's buffer, whose lock a thread that is left behind would never release.
    return lambda: os.read(number, _CHUNK_BYTES)


def _feed(read: Callable[[], bytes], chunks: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    chunk = b"begin"
    while chunk:
        chunk = read()
        put = chunks.put(chunk)
        try:
            asyncio.run_coroutine_threadsafe(put, loop).result()
        except (RuntimeError, asyncio.CancelledError):
            put.close()  # the loop is gone, and with it the connection
            return
