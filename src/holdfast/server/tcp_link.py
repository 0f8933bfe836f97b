"""One connection on the epoll of a `TcpServer`: its socket, the events it waits for, and its end."""

import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from holdfast.exchange.client import Channel
from holdfast.server.listener_connections import HIGH_WATER_BYTES, LOW_WATER_BYTES

if TYPE_CHECKING:
    from holdfast.server.tcp_server import TcpServer

# Flags of epoll, defined here because `select` has them on Linux only.
IN: Final = 0x001
OUT: Final = 0x004


class _Backlog:
    """Bytes that the kernel has not taken yet."""

    __slots__ = ("pieces", "size_bytes", "stuck")

    def __init__(self) -> None:
        self.pieces: Final[deque[memoryview]] = deque()
        self.size_bytes = 0
        #: Whether the handler was told to stop.
        self.stuck = False

    def add(self, data: memoryview) -> None:
        self.pieces.append(data)
        self.size_bytes += len(data)


class TcpLink:
    """One connection over TCP.

    1. `_events` are the watched events; 0 if the socket is not watched.
    2. `_backlog` is None or not empty.
    3. `_fd` is the socket, which belongs to the link; -1 once it is closed. A descriptor, because a socket object for
       each connection takes memory and does nothing more here.
    """

    __slots__ = ("_backlog", "_channel", "_closing", "_events", "_fd", "_server")

    def __init__(self, server: "TcpServer", fd: int) -> None:
        self._server: Final = server
        self._fd = fd
        self._channel: Channel | None = None
        self._events = 0
        self._closing = False
        self._backlog: _Backlog | None = None

    # What the server calls.

    def begin(self, address: str, port: int) -> None:
        """Pass the connection to the handler."""
        self._want(IN)
        self._channel = self._server.connections.open(self, address, port)

    def ready(self, events: int) -> None:
        """The socket can be read or written, or is broken, which the next call shows."""
        if events & OUT:
            self._drain()
        if self._events & IN and events & ~OUT:
            self._read()

    def lose(self) -> None:
        """The connection is over: let go of the socket, and tell the handler, once."""
        self._free()
        server = self._server
        server.connections.dismiss(self)
        channel, self._channel = self._channel, None
        if channel is not None:
            server.connections.handler.lost(channel)

    # What the exchange calls.

    def write(self, data: bytes) -> None:
        if self._closing:
            return
        backlog = self._backlog
        if backlog is None:
            try:
                sent = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                self.abort()
                return
            if sent == len(data):
                return
            backlog = self._backlog = _Backlog()
            backlog.add(memoryview(data)[sent:])
            self._want(self._events | OUT)
        else:
            backlog.add(memoryview(data))
        if backlog.size_bytes > HIGH_WATER_BYTES and not backlog.stuck:
            backlog.stuck = True
            if self._channel is not None:
                self._server.connections.handler.writable(self._channel, yes=False)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._backlog is None and self._peer_has_closed():
            self._free()
            self._server.lose_later(self)
            return
        self._server.cut_off_later(self)
        # Closing a socket that holds unread bytes resets the connection, and the reset overtakes what was sent: the
        # client would never learn why. So the rest is read and dropped until it closes.
        self._want(self._events | IN)
        if self._backlog is None:
            self._say_goodbye()

    def pause_reading(self) -> None:
        if not self._closing:
            self._want(self._events & ~IN)

    def resume_reading(self) -> None:
        if not self._closing:
            self._want(self._events | IN)

    # For the listener.

    def abort(self) -> None:
        """Cut the connection off; what was not sent is dropped."""
        self._closing = True
        self._server.loop.call_soon(self.lose)

    # Steps.

    def _read(self) -> None:
        connections = self._server.connections
        buffer = connections.buffer
        try:
            count = os.readv(self._fd, [buffer])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lose()
            return
        if count:
            if not self._closing and self._channel is not None:
                connections.handler.received(self._channel, buffer[:count].tobytes())
        else:
            self._ended()

    def _ended(self) -> None:
        """The peer has closed its side; it may still read the rest."""
        if self._backlog is None:
            self.lose()
        else:
            self._closing = True
            self._server.cut_off_later(self)
            self._want(self._events & ~IN)

    def _drain(self) -> None:
        backlog = self._backlog
        if backlog is None:
            return
        pieces = backlog.pieces
        try:
            while pieces:
                sent = os.write(self._fd, pieces[0])
                backlog.size_bytes -= sent
                if sent < len(pieces[0]):
                    pieces[0] = pieces[0][sent:]
                    break
                pieces.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.lose()
            return
        if not pieces:
            self._backlog = None
            self._want(self._events & ~OUT)
        if self._closing:
            if not pieces:
                if self._events & IN:
                    self._say_goodbye()
                else:
                    self.lose()
        elif backlog.stuck and backlog.size_bytes <= LOW_WATER_BYTES and self._channel is not None:
            backlog.stuck = False
            self._server.connections.handler.writable(self._channel, yes=True)

    def _say_goodbye(self) -> None:
        sock = socket.socket(fileno=self._fd)
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:  # reset by the peer, not noticed yet
            self.abort()
        finally:
            sock.detach()

    def _want(self, events: int) -> None:
        """Watch for these events."""
        before = self._events
        if events == before:
            return
        epoll = self._server.epoll
        if not events:
            epoll.unregister(self._fd)
        elif not before:
            epoll.register(self._fd, events)
        else:
            epoll.modify(self._fd, events)
        self._events = events

    def _peer_has_closed(self) -> bool:
        """Whether nothing more can come: then closing resets nothing, and the kernel sends the rest.

        So it is as a rule behind a DISCONNECT: clients close at once.
        """
        try:
            return os.readv(self._fd, [self._server.connections.buffer]) == 0
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # reset
            return True

    def _free(self) -> None:
        fd = self._fd
        if fd < 0:
            return
        self._fd = -1
        self._closing = True
        self._backlog = None
        self._events = 0
        os.close(fd)  # which also removes it from the epoll
        self._server.forget(self, fd)
