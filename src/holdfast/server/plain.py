"""Plain TCP on an epoll of our own, which the loop watches as if it were one more socket.

With the loop's own transports a connect cost twice as much (ADR 0009): uvloop accepts one connection per turn of the
loop. Here a turn accepts and reads all that is ready, and a connection is one socket and one `PlainLink`. It moves
bytes and knows nothing of MQTT.

    open ──► closing ──► gone

Rules, beside those of `stream`, which hold here too:

1. The kernel's events are levels: what is not taken now is told again. A link that wants none of them is not watched,
   because the kernel would tell of a reset even so, again and again.
2. While closing, a link reads and drops until the peer's end; so if it is not reading, that end has come.
3. `lost` is never told from inside a call of the exchange, but from the loop.
"""

import asyncio
import select
import socket
from typing import Final

import structlog

from holdfast.server.plain_link import IN, PlainLink
from holdfast.server.sockets import ACCEPTS_PER_TURN, PAUSE_S
from holdfast.server.stream import Entrance

#: Whether this system has what is needed here; where it has not, the loop's own transports do.
AVAILABLE: Final = hasattr(select, "epoll")

#: Connections looked after in one turn of the loop at most; the others are told of again in the next one.
_EVENTS_PER_TURN: Final = 1024

_log = structlog.get_logger()


class PlainServer:
    """Accepts on one listening socket, which it owns, and watches the connections that came by it.

    1. `_links` holds the open and closing links by their file descriptor.
    2. `_endings` holds closing links and when to cut them off, the earliest first: all have the same time.
    """

    def __init__(self, sock: socket.socket, entrance: Entrance) -> None:
        self.entrance: Final = entrance
        self.loop: Final = asyncio.get_running_loop()
        self.epoll: Final = select.epoll()
        self._sock: Final = sock
        self._accepting = True
        self._pause: asyncio.TimerHandle | None = None
        self._links: Final[dict[int, PlainLink]] = {}
        self._endings: Final[dict[PlainLink, float]] = {}
        self._cutter: asyncio.TimerHandle | None = None
        self.loop.add_reader(self.epoll.fileno(), self._ready)
        self._watch()

    def close(self) -> None:
        """Stop accepting. Links live on until they are closed, each by its own `close` or `abort`."""
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
        """Something is ready, here or there."""
        if self._look() and not self.epoll.closed:
            # Clients send their first packet at once: it is there, and joins the turn of the others.
            self._look()

    def _look(self) -> bool:
        """Look after everything that is ready; whether connections came."""
        came = False
        for fd, events in self.epoll.poll(0, _EVENTS_PER_TURN):
            link = self._links.get(fd)
            if link is None:
                # Whoever was closed by another one's event in this round is not there any more.
                if self._accepting and fd == self._sock.fileno():
                    self._accept()
                    came = True
            else:
                self.serve(link, events)
        return came

    def serve(self, link: PlainLink, events: int) -> None:
        """Something is ready at a link. If that fails, by a fault of our own, it costs this connection only."""
        try:
            link.ready(events)
        except Exception as error:
            self._report(error, link)

    def _accept(self) -> None:
        entrance = self.entrance
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of file descriptors, mostly. The connection stays ready, so looking again at once would spin.
                _log.error("cannot accept", listener=entrance.listener, why=error.strerror)
                self.epoll.unregister(self._sock)
                self._pause = self.loop.call_later(PAUSE_S, self._watch)
                return
            connection.setblocking(False)
            link = PlainLink(self, connection)
            if not entrance.admit(link):
                connection.close()
                continue
            self._links[connection.fileno()] = link
            try:
                link.begin(peer[0], peer[1])
            except Exception as error:
                self._report(error, link)

    def _report(self, error: Exception, link: PlainLink) -> None:
        self.loop.call_exception_handler({"message": "a connection failed", "exception": error})
        link.abort()

    # For links.

    def cut_off_later(self, link: PlainLink) -> None:
        """The link has a while to end by itself."""
        if link not in self._endings:
            self._endings[link] = self.loop.time() + self.entrance.close_deadline_s
            if self._cutter is None:
                self._cutter = self.loop.call_later(self.entrance.close_deadline_s, self._cut_off)

    def forget(self, link: PlainLink, fd: int) -> None:
        """The link is gone."""
        del self._links[fd]
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
        """Leave the loop when there is nothing more to watch."""
        if self._links or self._accepting or self.epoll.closed:
            return
        if self._cutter is not None:
            self._cutter.cancel()
        self.loop.remove_reader(self.epoll.fileno())
        self.epoll.close()
