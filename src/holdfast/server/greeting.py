"""Accepting where something comes in front of the connection: a PROXY header, TLS, or both in that order.

asyncio's own server begins TLS with the first byte, and says nothing of a handshake that failed, so these listeners
accept by themselves. Not one byte beyond the header is read here; the rest of a connection's life is that of any other.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.broker.gate import PROXY_HEADER, TLS_HANDSHAKE
from holdfast.server.proxy_protocol import Incomplete, ProxyHeader, ProxyHeaderError, decode
from holdfast.server.sockets import ACCEPTS_PER_TURN, PAUSE_S
from holdfast.server.stream import Entrance, SocketLink
from holdfast.server.tls import ConnectionTls, TlsContext, describe_failure

#: Seconds for the header. A proxy sends it together with the connection.
HEADER_DEADLINE_S: Final = 5.0

_log = structlog.get_logger()


class GreetingServer:
    """Accepts on one listening socket, which it owns together with the connections that are no links yet."""

    def __init__(
        self,
        sock: socket.socket,
        entrance: Entrance,
        make: Callable[[tuple[str, int] | None], SocketLink],
        tls: TlsContext | None,
        *,
        proxy_protocol: bool,
        tls_deadline_s: float,
        header_deadline_s: float = HEADER_DEADLINE_S,
    ) -> None:
        self._sock: Final = sock
        self._entrance: Final = entrance
        self._make: Final = make
        self._tls: Final = tls
        self._proxy_protocol: Final = proxy_protocol
        self._tls_deadline_s: Final = tls_deadline_s
        self._header_deadline_s: Final = header_deadline_s
        self._loop: Final = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        #: Connections whose header or TLS handshake is under way.
        self._greetings: Final[dict[asyncio.Task[None], socket.socket]] = {}
        self._watch()

    async def close(self) -> None:
        """Stop accepting, and drop the connections that have not come as far as a link."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        greetings = dict(self._greetings)
        for task in greetings:
            task.cancel()
        await asyncio.gather(*greetings, return_exceptions=True)
        # A cancelled task closes nothing; some had not even begun.
        for connection in greetings.values():
            connection.close()

    def _watch(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of file descriptors, mostly. The connection stays ready, so looking again at once would spin.
                _log.error("cannot accept", listener=self._entrance.listener, why=error.strerror)
                self._loop.remove_reader(self._sock)
                self._pause = self._loop.call_later(PAUSE_S, self._watch)
                return
            if not self._entrance.has_room(len(self._greetings)):
                self._entrance.refused_full += 1
                connection.close()
                continue
            connection.setblocking(False)
            task = self._loop.create_task(self._greet(connection, peer), name=f"greet {self._entrance.listener}")
            self._greetings[task] = connection
            task.add_done_callback(self._greetings.pop)

    async def _greet(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        """From an accepted socket to a link. Whatever is wrong with one connection ends here."""
        source: tuple[str, int] | None = None
        if self._proxy_protocol:
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
                ssl_handshake_timeout=self._tls_deadline_s if tls else None,
                ssl_shutdown_timeout=self._entrance.close_deadline_s if tls else None,
            )
        except OSError as error:  # TLS failed, or the peer went away meanwhile
            if tls is not None:
                self._entrance.refused_tls += 1
                self._refuse((source or peer)[0], TLS_HANDSHAKE, describe_failure(tls.failure or error))
        except Exception:
            _log.exception("a connection failed", listener=self._entrance.listener)

    async def _header(self, connection: socket.socket, peer: tuple[str, int]) -> ProxyHeader | None:
        """The header, or None when the connection was closed for want of one."""
        try:
            async with asyncio.timeout(self._header_deadline_s):
                return await self._read_header(connection)
        except ProxyHeaderError as error:
            self._refuse_header(peer, str(error))
        except TimeoutError:
            self._refuse_header(peer, f"no PROXY header within {self._header_deadline_s} s")
        except OSError:  # the peer went away; load balancers look in like this to see whether we are there
            pass
        connection.close()
        return None

    async def _read_header(self, connection: socket.socket) -> ProxyHeader:
        data = b""
        while isinstance(found := decode(data), Incomplete):
            chunk = await self._loop.sock_recv(connection, found.missing)
            if not chunk:
                raise ConnectionResetError("closed before its PROXY header was complete")
            data += chunk
        return found

    def _refuse_header(self, peer: tuple[str, int], why: str) -> None:
        self._entrance.refused_proxy += 1
        self._refuse(peer[0], PROXY_HEADER, why)

    def _refuse(self, address: str, event: str, why: str) -> None:
        self._entrance.gate.refused(self._entrance.listener, address, event, why)
