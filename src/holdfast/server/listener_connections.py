"""What the connections of one listener share, whatever links they have: the handler, the read buffer, the counters.

Apart from `stream`, because it is compiled and a protocol of asyncio cannot be.
"""

import asyncio
from typing import Final, Protocol

from holdfast.broker.connections.connection_handler import ConnectionHandler
from holdfast.broker.connections.origin import Origin
from holdfast.exchange.client import Channel
from holdfast.server.listener_spec import ListenerSpec

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
        #: Connections that could speak MQTT, since the start.
        self.opened = 0
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
        self.opened += 1
        spec = self.spec
        origin = Origin(
            spec.name,
            address,
            port,
            spec.kind,
            tls_subject,
            spec.mount_point,
            allow_anonymous=spec.allow_anonymous,
        )
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
