"""A byte stream as a link: one protocol object per connection, the same for TCP and TLS.

It moves bytes and knows nothing of MQTT, of settings or of other connections. Its life:

    made ──► admitted ──► open ──► closing ──► lost
      └► refused (the listener is full or closed) ──────┘

Rules:

1. The handler hears `opened` once, then `received` and `writable`, then `lost` once; after `close` only `lost`.
2. A dead or closing transport is never an error: what is written to it is dropped, as the contract allows.
3. A connection that is being closed, by either side, is cut off after `close_deadline_s`.
"""

import asyncio
from typing import Final, Protocol, cast

from holdfast.broker.connections.connection_handler import ConnectionHandler, Origin
from holdfast.exchange.client import Channel, Link
from holdfast.server.listener_spec import ListenerSpec
from holdfast.server.tls import verified_subject

#: Bytes in the send buffer. Above the high mark the handler is told to stop, below the low one to go on. The low mark
#: is several segments, so that the socket does not run dry before the next loop iteration.
LOW_WATER_BYTES: Final = 64 * 1024
HIGH_WATER_BYTES: Final = 256 * 1024

#: Bytes of one read at most. As much as asyncio itself would read: many packets per loop iteration.
READ_BYTES: Final = 256 * 1024

#: Seconds that a peer has to read what it was sent and to close its side.
CLOSE_DEADLINE_S: Final = 10.0


class ListenerConnection(Protocol):
    """A connection, as its listener sees it."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        """Abort it; what was not sent is dropped."""
        ...


class ListenerConnections:
    """What the connections of one listener share: the handler, what the operator said, and the counters."""

    def __init__(
        self, handler: ConnectionHandler, spec: ListenerSpec, *, close_deadline_s: float = CLOSE_DEADLINE_S
    ) -> None:
        self.handler: Final = handler
        self.spec: Final = spec
        self.close_deadline_s: Final = close_deadline_s
        #: Each read lands here and is copied out at once. For a plain protocol asyncio allocates as much for
        #: every read and shrinks it to what came: as a rule two system calls and fresh pages, which took the CPU
        #: time of a small round trip from 10 µs to 27 µs. uvloop needs no such help, and loses 0.3 µs by it.
        self.buffer: Final = memoryview(bytearray(READ_BYTES))
        #: The present connections, closing ones included.
        self.links: Final[set[ListenerConnection]] = set()
        #: Connections closed at once because the listener was full.
        self.refused_full = 0
        #: Connections closed for a missing or malformed PROXY header.
        self.refused_proxy = 0
        #: Connections closed for a WebSocket handshake that was wrong or too slow.
        self.refused_handshake = 0
        #: Connections closed for a TLS handshake that failed or was too slow.
        self.refused_tls = 0
        self._closed = False
        self._emptied: Final = asyncio.Event()

    def has_room(self, more: int = 0) -> bool:
        """Whether one more connection is allowed, besides `more` that are being set up."""
        limit = self.spec.max_connections
        return limit is None or len(self.links) + more < limit

    def admit(self, link: ListenerConnection) -> bool:
        """Add a connection; False if it must be closed."""
        if self._closed:
            return False
        if not self.has_room():
            self.refused_full += 1
            return False
        self.links.add(link)
        return True

    def open(self, link: ListenerConnection, address: str, port: int, tls_subject: str | None = None) -> Channel:
        """Pass a connection that may speak MQTT to the handler."""
        spec = self.spec
        origin = Origin(spec.name, address, port, spec.kind, tls_subject, spec.mount_point, spec.allow_anonymous)
        return self.handler.opened(link, origin)

    def dismiss(self, link: ListenerConnection) -> None:
        """Remove a connection that has ended."""
        self.links.discard(link)
        if self._closed and not self.links:
            self._emptied.set()

    async def close(self, grace_s: float) -> None:
        """Admit no more connections, close all, and abort those that are left after `grace_s`."""
        self._closed = True
        if not self.links:
            self._emptied.set()
        for link in tuple(self.links):
            link.close()
        try:
            async with asyncio.timeout(grace_s):
                await self._emptied.wait()
        except TimeoutError:
            for link in tuple(self.links):
                link.abort()
            await self._emptied.wait()


class SocketLink(asyncio.BufferedProtocol, Link):
    """One connection over TCP or TLS."""

    __slots__ = ("_channel", "_closing", "_connections", "_deadline", "_source", "_transport")

    _transport: asyncio.Transport

    def __init__(self, connections: ListenerConnections, source: tuple[str, int] | None = None) -> None:
        """`source` is the client's address if a proxy stated it."""
        self._connections: Final = connections
        self._source: Final = source
        self._channel: Channel | None = None
        self._closing = False
        self._deadline: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        if self._connections.admit(self):
            self._begin()
        else:
            self._closing = True
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - one buffer fits every read
        return self._connections.buffer

    def buffer_updated(self, nbytes: int) -> None:
        channel = self._channel
        if channel is not None and not self._closing:
            connections = self._connections
            connections.handler.received(channel, connections.buffer[:nbytes].tobytes())

    def eof_received(self) -> None:
        # The transport now closes after it has sent its buffer, which a peer that does not read can delay without
        # end.
        self._closing = True
        self._set_deadline(self._connections.close_deadline_s)

    def pause_writing(self) -> None:
        if self._channel is not None and not self._closing:
            self._connections.handler.writable(self._channel, yes=False)

    def resume_writing(self) -> None:
        if self._channel is not None and not self._closing:
            self._connections.handler.writable(self._channel, yes=True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone, whatever the reason
        self._closing = True
        self._cancel_deadline()
        channel, self._channel = self._channel, None
        self._connections.dismiss(self)
        if channel is not None:
            self._connections.handler.lost(channel)

    # What the exchange calls.

    def write(self, data: bytes) -> None:
        if not self._closing:
            self._transport.write(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._end()

    def pause_reading(self) -> None:
        if not self._closing and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._closing and not self._transport.is_closing():
            self._transport.resume_reading()

    # For the listener.

    def abort(self) -> None:
        """Cut the connection off; what was not sent is dropped."""
        self._transport.abort()

    # Steps shared with what is built on byte streams.

    def _begin(self) -> None:
        """The connection may speak MQTT."""
        connections, transport = self._connections, self._transport
        # A peer that is gone already has no address any more.
        address, port = self._source or (transport.get_extra_info("peername") or ("", 0))[:2]
        subject = verified_subject(transport.get_extra_info("peercert"))
        try:
            self._channel = connections.open(self, address, port, subject)
        except BaseException:
            # The loop reports the error, and would otherwise keep a connection without a handler.
            self._closing = True
            transport.abort()
            raise

    def _end(self) -> None:
        """Send what was written, then close, within the deadline."""
        transport = self._transport
        self._set_deadline(self._connections.close_deadline_s)
        if transport.is_closing():
            return
        if transport.can_write_eof():
            # Closing a socket that holds unread bytes resets the connection, and the reset overtakes what was
            # sent: the client would never learn why. So the rest is read and dropped until it closes.
            transport.resume_reading()
            try:
                transport.write_eof()
            except OSError:  # reset by the peer, which the loop has yet to notice
                transport.abort()
        else:
            transport.close()

    def _set_deadline(self, after_s: float) -> None:
        """Cut the connection off in `after_s`, whatever was set before."""
        self._cancel_deadline()
        self._deadline = asyncio.get_running_loop().call_later(after_s, self._overdue)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _overdue(self) -> None:
        self._deadline = None
        self.abort()
