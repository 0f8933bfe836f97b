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
from typing import Final, cast

from holdfast.exchange.client import Channel, Link
from holdfast.server.listener_connections import HIGH_WATER_BYTES, LOW_WATER_BYTES, ListenerConnections
from holdfast.server.tls import verified_subject


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
