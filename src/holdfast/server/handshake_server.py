"""A server for connections that begin with a PROXY header, TLS, or both in that order.

asyncio's own server begins TLS with the first byte, and does not report a failed handshake, so this server accepts
connections itself. It reads no byte beyond the header; after that a connection is like any other.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.broker.connections.connection_handler import PROXY_HEADER, TLS_HANDSHAKE
from holdfast.server.listener_connections import ListenerConnections
from holdfast.server.proxy_protocol import IncompleteHeader, ProxyHeader, ProxyHeaderError, decode
from holdfast.server.sockets import ACCEPTS_PER_ITERATION, PAUSE_S
from holdfast.server.stream import SocketLink
from holdfast.server.tls import ConnectionTls, TlsContext, describe_failure

#: Seconds for the header. A proxy sends it together with the connection.
HEADER_DEADLINE_S: Final = 5.0

_log = structlog.get_logger()


class HandshakeServer:
    """Accepts on one listening socket. It owns the socket, and connections until they become links."""

    def __init__(
        self,
        sock: socket.socket,
        connections: ListenerConnections,
        make: Callable[[tuple[str, int] | None], SocketLink],
        tls: TlsContext | None,
    ) -> None:
        self._sock: Final = sock
        self._connections: Final = connections
        self._make: Final = make
        self._tls: Final = tls
        self._spec: Final = connections.spec
        self._header_deadline_s: Final = min(self._spec.handshake_deadline_s, HEADER_DEADLINE_S)
        self._loop: Final = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        #: Connections whose header or TLS handshake is not complete.
        self._greetings: Final[dict[asyncio.Task[None], socket.socket]] = {}
        self._watch()

    async def close(self) -> None:
        """Stop accepting, and drop the connections that are not links yet."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        greetings = dict(self._greetings)
        for task in greetings:
            task.cancel()
        await asyncio.gather(*greetings, return_exceptions=True)
        # A cancelled task closes nothing, and some have not begun.
        for connection in greetings.values():
            connection.close()

    def _watch(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_ITERATION):
            try:
                connection, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Mostly out of file descriptors. The connection stays ready, so an immediate retry would spin.
                _log.error("cannot accept", listener=self._spec.name, why=error.strerror)
                self._loop.remove_reader(self._sock)
                self._pause = self._loop.call_later(PAUSE_S, self._watch)
                return
            if not self._connections.has_room(len(self._greetings)):
                self._connections.refused_full += 1
                connection.close()
                continue
            connection.setblocking(False)
            task = self._loop.create_task(self._greet(connection, peer), name=f"greet {self._spec.name}")
            self._greetings[task] = connection
            task.add_done_callback(self._greetings.pop)

    async def _greet(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        """Make a link of an accepted socket. An error of one connection ends here."""
        source: tuple[str, int] | None = None
        if self._spec.proxy_protocol:
            header = await self._header(connection, peer)
            if header is None:
                return
            source = header.source
        tls = None if self._tls is None else ConnectionTls(self._tls)
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make(source),
                connection,
                ssl=tls,
                ssl_handshake_timeout=self._spec.handshake_deadline_s if tls else None,
                ssl_shutdown_timeout=self._connections.close_deadline_s if tls else None,
            )
        except OSError as error:  # TLS failed, or the peer has left
            if tls is not None:
                self._connections.refused_tls += 1
                self._refuse((source or peer)[0], TLS_HANDSHAKE, describe_failure(tls.failure or error))
        except Exception:
            _log.exception("a connection failed", listener=self._spec.name)

    async def _header(self, connection: socket.socket, peer: tuple[str, int]) -> ProxyHeader | None:
        """The header, or None if the connection was closed because it had none."""
        try:
            async with asyncio.timeout(self._header_deadline_s):
                return await self._read_header(connection)
        except ProxyHeaderError as error:
            why = str(error)
        except TimeoutError:
            why = f"no PROXY header within {self._header_deadline_s} s"
        except OSError:
            why = ""  # the peer has left; load balancers check this way whether the port is open
        if why:
            self._connections.refused_proxy += 1
            self._refuse(peer[0], PROXY_HEADER, why)
        connection.close()
        return None

    async def _read_header(self, connection: socket.socket) -> ProxyHeader:
        data = b""
        while isinstance(found := decode(data), IncompleteHeader):
            chunk = await self._loop.sock_recv(connection, found.missing)
            if not chunk:
                raise ConnectionResetError("closed before its PROXY header was complete")
            data += chunk
        return found

    def _refuse(self, address: str, event: str, why: str) -> None:
        self._connections.handler.refused(self._spec.name, address, event, why)
