"""All listeners of a node: opened together or not at all, reloaded and closed together.

This module puts sockets, TLS, WebSocket and PROXY headers together as each `ListenerSpec` asks. It knows nothing
of MQTT, and hands every connection to the one handler.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.broker.connections.connection_handler import ConnectionHandler
from holdfast.model.errors import SettingsError
from holdfast.server import tcp_server
from holdfast.server.handshake_server import HandshakeServer
from holdfast.server.listener_connections import ListenerConnections
from holdfast.server.listener_spec import ListenerSpec
from holdfast.server.sockets import ACCEPTS_PER_ITERATION, BACKLOG, listen
from holdfast.server.stream import SocketLink
from holdfast.server.tcp_server import TcpServer
from holdfast.server.tls import TlsContext
from holdfast.server.websocket import WebSocketLink


class BoundListener:
    """One listener: its sockets, and what accepts on them."""

    def __init__(self, spec: ListenerSpec, handler: ConnectionHandler) -> None:
        self.spec: Final = spec
        self.connections: Final = ListenerConnections(handler, spec)
        self.tls: Final = TlsContext(spec) if spec.secure else None
        self.port = spec.port
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server | TcpServer | HandshakeServer] = []

    async def bind(self) -> None:
        """Take the port."""
        try:
            self._sockets = await listen(self.spec.host, self.spec.port)
        except SettingsError as error:
            raise SettingsError(f"listener {self.spec.name}: {error}") from error
        self.port = self._sockets[0].getsockname()[1]

    async def serve(self) -> None:
        """Accept connections from now on."""
        while self._sockets:
            self._servers.append(await self._serve_one(self._sockets.pop()))

    async def stop(self) -> None:
        """Accept no more, and free the port."""
        for one in self._sockets:
            one.close()
        for server in self._servers:
            if isinstance(server, HandshakeServer):
                await server.close()
            else:
                server.close()
        self._sockets.clear()
        self._servers.clear()

    async def _serve_one(self, sock: socket.socket) -> asyncio.Server | TcpServer | HandshakeServer:
        if self.spec.proxy_protocol or self.tls is not None:
            return HandshakeServer(sock, self.connections, self._make, self.tls)
        if self.spec.kind == "tcp" and tcp_server.AVAILABLE:
            return TcpServer(sock, self.connections)
        server = await asyncio.get_running_loop().create_server(
            lambda: self._make(None),
            sock=sock,
            # asyncio accepts as many in one turn as it is told to keep waiting: thousands would be too many.
            backlog=ACCEPTS_PER_ITERATION,
        )
        sock.listen(BACKLOG)
        return server

    def _make(self, source: tuple[str, int] | None) -> SocketLink:
        if self.spec.kind in ("ws", "wss"):
            return WebSocketLink(self.connections, source)
        return SocketLink(self.connections, source)


class Listeners:
    """The open listeners of a node."""

    def __init__(self, listeners: Sequence[BoundListener]) -> None:
        self._listeners: Final = listeners

    @property
    def connections(self) -> Mapping[str, ListenerConnections]:
        """By name: the present connections and the counters of each listener."""
        return {one.spec.name: one.connections for one in self._listeners}

    def addresses(self) -> dict[str, tuple[str, int]]:
        """By name: the host as it was asked for, and the port that was taken."""
        return {one.spec.name: (one.spec.host, one.port) for one in self._listeners}

    def certificate_expiries(self) -> dict[str, float]:
        """By the name of each listener with TLS: the Unix time at which its certificate ends."""
        return {one.spec.name: one.tls.expires_s for one in self._listeners if one.tls is not None}

    def reload_certificates(self) -> None:
        """Let new connections use the files as they are now.

        A listener whose files are bad keeps what it has and does not hold up the others; SettingsError names each.
        """
        problems: list[str] = []
        for one in self._listeners:
            if one.tls is not None:
                try:
                    one.tls.reload()
                except SettingsError as error:
                    problems.append(str(error))
        if problems:
            raise SettingsError("; ".join(problems))

    async def stop(self) -> None:
        """Stop accepting."""
        for one in self._listeners:
            await one.stop()

    async def close(self, grace_s: float) -> None:
        """Stop accepting, then close connections, and cut off those still there after `grace_s`."""
        await self.stop()
        async with asyncio.TaskGroup() as closing:
            for one in self._listeners:
                closing.create_task(one.connections.close(grace_s))


async def open_listeners(specs: Iterable[ListenerSpec], handler: ConnectionHandler) -> Listeners:
    """Open all of them, or none: SettingsError says which one cannot be opened, and what to do."""
    wanted = list(specs)
    for name, times in Counter(spec.name for spec in wanted).items():
        if times > 1:
            raise SettingsError(f"listener {name}: there are {times} of this name; give each its own")
    listeners = [BoundListener(spec, handler) for spec in wanted]
    try:
        for one in listeners:
            await one.bind()
        for one in listeners:
            await one.serve()
    except BaseException:
        for one in listeners:
            await one.stop()
        raise
    return Listeners(listeners)
