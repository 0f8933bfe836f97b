"""A handler that records what listeners tell it, and a way to run a test on each event loop."""

import asyncio
import functools
import inspect
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from holdfast.broker.connections.connection_handler import ConnectionHandler
from holdfast.broker.connections.origin import Origin
from holdfast.exchange.client import Channel, Link
from holdfast.server.listener_spec import ListenerSpec
from holdfast.server.listeners import Listeners, open_listeners
from holdfast.wire.framing import MAX_PACKET_BYTES

#: Seconds for a whole test; what is awaited in one comes at once, or never.
DEADLINE_S = 30

LOOPS = [pytest.param(asyncio.new_event_loop, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


#: For tests of IPv6. Where it is missing they are skipped on a laptop; in CI they run, and fail with what is wrong.
ipv6 = pytest.mark.skipif(
    not has_ipv6() and "CI" not in os.environ,
    reason="no IPv6 on loopback: sysctl -w net.ipv6.conf.lo.disable_ipv6=0, or boot without ipv6.disable=1",
)


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test on asyncio's loop and on uvloop. What a loop reports as an error fails the test."""

    @functools.wraps(test)
    def run(loop_factory: Callable[[], asyncio.AbstractEventLoop], **fixtures: object) -> None:
        reported: list[dict[str, Any]] = []
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.get_loop().set_exception_handler(lambda loop, context: reported.append(context))
            runner.run(asyncio.wait_for(test(**fixtures), DEADLINE_S))
        assert reported == []

    chosen = inspect.Parameter("loop_factory", inspect.Parameter.KEYWORD_ONLY)
    parameters = [*inspect.signature(test).parameters.values(), chosen]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    on_both: Callable[..., None] = pytest.mark.parametrize("loop_factory", LOOPS)(run)
    return on_both


class Visit:
    """One connection, as the handler saw it."""

    def __init__(self, link: Link, origin: Origin) -> None:
        self.link = link
        self.origin = origin
        self.received = bytearray()
        self.pieces: list[bytes] = []
        self.unfinished: list[int] = []
        self.writable = True
        self.lost = 0
        self._changed = asyncio.Event()

    def change(self) -> None:
        self._changed.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        while not happened():
            self._changed.clear()
            await self._changed.wait()

    async def until_received(self, data: bytes) -> None:
        await self.until(lambda: len(self.received) >= len(data))
        assert self.received == data

    async def until_lost(self) -> None:
        await self.until(lambda: self.lost > 0)


class RecordingHandler(ConnectionHandler):
    """Writes down what it is told; `on_received` answers."""

    def __init__(self, on_received: Callable[[Visit, bytes], None] = lambda visit, data: None) -> None:
        self.visits: list[Visit] = []
        self.refusals: list[tuple[str, str, str, str]] = []
        self._on_received = on_received
        self._came = asyncio.Event()

    async def visit(self, number: int = 0) -> Visit:
        """The connection of that number, as soon as it is there."""
        while len(self.visits) <= number:
            self._came.clear()
            await self._came.wait()
        return self.visits[number]

    def opened(self, link: Link, origin: Origin) -> Channel:
        self.visits.append(Visit(link, origin))
        self._came.set()
        return Channel(link, MAX_PACKET_BYTES, len(self.visits) - 1)

    def received(self, channel: Channel, data: bytes) -> None:
        visit = self.visits[channel.number]
        assert type(data) is bytes
        assert not visit.lost
        visit.received += data
        visit.pieces.append(data)
        visit.change()
        self._on_received(visit, data)

    def writable(self, channel: Channel, *, yes: bool) -> None:
        visit = self.visits[channel.number]
        assert visit.writable != yes
        visit.writable = yes
        visit.change()

    def unfinished(self, channel: Channel, size_bytes: int) -> None:
        visit = self.visits[channel.number]
        visit.unfinished.append(size_bytes)
        visit.change()

    def refused(self, listener: str, address: str, event: str, why: str) -> None:
        self.refusals.append((listener, address, event, why))
        self._came.set()

    async def refusal(self) -> tuple[str, str, str, str]:
        """The next connection that ended before it could speak MQTT."""
        while not self.refusals:
            self._came.clear()
            await self._came.wait()
        return self.refusals.pop(0)

    def lost(self, channel: Channel) -> None:
        visit = self.visits[channel.number]
        visit.lost += 1
        visit.change()


def echo(visit: Visit, data: bytes) -> None:
    visit.link.write(data)


@asynccontextmanager
async def listening(handler: ConnectionHandler, *specs: ListenerSpec) -> AsyncIterator[Listeners]:
    """Open listeners, and leave nothing behind."""
    listeners = await open_listeners(specs, handler)
    try:
        yield listeners
    finally:
        await listeners.close(0)


@asynccontextmanager
async def dialled(
    listeners: Listeners, name: str = "main", host: str | None = None, **options: Any
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client's connection to a listener, closed in the end."""
    bound, port = listeners.addresses()[name]
    reader, writer = await asyncio.open_connection(host or bound, port, **options)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):  # the other side was first
            await writer.wait_closed()


async def until_gone(reader: asyncio.StreamReader) -> bytes:
    """What came before the other side closed, by a proper end or by a reset."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def spec(**fields: Any) -> ListenerSpec:
    """A listener called `main` on a free port of this machine."""
    defaults: dict[str, Any] = {"name": "main", "host": "127.0.0.1", "port": 0}
    return ListenerSpec(**(defaults | fields))
