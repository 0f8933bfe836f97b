"""Plain TCP on our own epoll, which the event loop watches like a socket.

With the loop's own transports a connect cost twice as much (ADR 0009): uvloop accepts one connection per loop
iteration. Here an iteration accepts and reads all that is ready, and a connection is a descriptor and a `TcpLink`. It
moves bytes and knows nothing of MQTT.

    open ──► closing ──► gone

Rules, besides those of `stream`:

1. Events are level-triggered: what is not handled now is reported again. A link that waits for no event is not watched,
   because epoll would report a reset again and again.
2. A closing link reads and drops bytes until the peer closes; if it is not reading, the peer has closed. One whose
   peer has closed already, and that has nothing left to send, is closed at once.
3. `lost` is called from the loop, never from inside a call of the exchange.
"""

import asyncio
import os
import select
import socket
from typing import Final

import structlog

from holdfast.server.listener_connections import ListenerConnections
from holdfast.server.sockets import ACCEPTS_PER_ITERATION, PAUSE_S
from holdfast.server.tcp_link import IN, TcpLink

#: Whether this system has epoll; if not, the loop's own transports are used.
AVAILABLE: Final = hasattr(select, "epoll")

#: The most connections served per loop iteration; the others are reported again in the next one.
_EVENTS_PER_ITERATION: Final = 1024

_log = structlog.get_logger()


class TcpServer:
    """Accepts on one listening socket, which it owns, and watches its connections.

    1. `_links` holds the open and closing links at the index of their file descriptor. Descriptors are small and used
       again, so this takes a seventh of a dictionary.
    2. `_endings` holds closing links and when to abort them, the earliest first: all have the same deadline.
    """

    def __init__(self, sock: socket.socket, connections: ListenerConnections) -> None:
        self.connections: Final = connections
        self.loop: Final = asyncio.get_running_loop()
        self.epoll: Final = select.epoll()
        self._sock: Final = sock
        self._accepting = True
        self._pause: asyncio.TimerHandle | None = None
        self._links: Final[list[TcpLink | None]] = []
        self._count = 0
        self._endings: Final[dict[TcpLink, float]] = {}
        self._cutter: asyncio.TimerHandle | None = None
        #: Links whose socket is closed, and whose handler was not told yet.
        self._gone: list[TcpLink] = []
        self.loop.add_reader(self.epoll.fileno(), self._ready)
        self._watch()

    def __len__(self) -> int:
        """How many links are open or closing."""
        return self._count

    def close(self) -> None:
        """Stop accepting. Links live on until their own `close` or `abort`."""
        if self._pause is not None:
            self._pause.cancel()
        else:
            self.epoll.unregister(self._sock)
        self._sock.close()
        self._accepting = False
        self._rest()

    def _watch(self) -> None:
        self._pause = None
        self.epoll.register(self._sock.fileno(), IN)

    def _ready(self) -> None:
        """The epoll reports events."""
        if self._look() and not self.epoll.closed:
            # Clients send their first packet at once: it is there already, and joins this iteration.
            self._look()

    def _look(self) -> bool:
        """Handle all events; whether connections were accepted."""
        came = False
        for fd, events in self.epoll.poll(0, _EVENTS_PER_ITERATION):
            link = self._links[fd] if fd < len(self._links) else None
            if link is None:
                # A link that another event of this round has closed is gone.
                if self._accepting and fd == self._sock.fileno():
                    self._accept()
                    came = True
            else:
                self.serve(link, events)
        return came

    def serve(self, link: TcpLink, events: int) -> None:
        """Handle the events of a link. A bug of ours costs this connection only."""
        try:
            link.ready(events)
        except Exception as error:
            self._report(error, link)

    def _accept(self) -> None:
        connections = self.connections
        for _ in range(ACCEPTS_PER_ITERATION):
            try:
                connection, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Mostly out of file descriptors. The connection stays ready, so an immediate retry would spin.
                _log.error("cannot accept", listener=connections.spec.name, why=error.strerror)
                self.epoll.unregister(self._sock)
                self._pause = self.loop.call_later(PAUSE_S, self._watch)
                return
            connection.setblocking(False)
            fd = connection.detach()
            link = TcpLink(self, fd)
            if not connections.admit(link):
                os.close(fd)
                continue
            while len(self._links) <= fd:
                self._links.append(None)
            self._links[fd] = link
            self._count += 1
            try:
                link.begin(peer[0], peer[1])
            except Exception as error:
                self._report(error, link)

    def _report(self, error: Exception, link: TcpLink) -> None:
        self.loop.call_exception_handler({"message": "a connection failed", "exception": error})
        link.abort()

    # For links.

    def cut_off_later(self, link: TcpLink) -> None:
        """Abort the link later, unless it ends before."""
        if link not in self._endings:
            self._endings[link] = self.loop.time() + self.connections.close_deadline_s
            if self._cutter is None:
                self._cutter = self.loop.call_later(self.connections.close_deadline_s, self._cut_off)

    def lose_later(self, link: TcpLink) -> None:
        """Lose a link from the loop; one call of it is enough for all that end in an iteration."""
        if not self._gone:
            self.loop.call_soon(self._lose_gone)
        self._gone.append(link)

    def _lose_gone(self) -> None:
        gone, self._gone = self._gone, []
        for link in gone:
            try:
                link.lose()
            except Exception as error:
                self._report(error, link)

    def forget(self, link: TcpLink, fd: int) -> None:
        """Remove a link that has ended."""
        self._links[fd] = None
        self._count -= 1
        self._endings.pop(link, None)
        self._rest()

    def _cut_off(self) -> None:
        now = self.loop.time()
        self._cutter = None
        for link, due in list(self._endings.items()):
            if due > now:
                self._cutter = self.loop.call_at(due, self._cut_off)
                return
            del self._endings[link]
            link.abort()

    def _rest(self) -> None:
        """Remove the epoll from the loop when nothing is left to watch."""
        if self._count or self._accepting or self.epoll.closed:
            return
        if self._cutter is not None:
            self._cutter.cancel()
        self.loop.remove_reader(self.epoll.fileno())
        self.epoll.close()
