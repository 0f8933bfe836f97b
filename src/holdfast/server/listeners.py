"""All listeners of a node: opened together or not at all, reloaded and closed together.

This module puts sockets, TLS, WebSocket and PROXY headers together as each `ListenerSpec` asks. It knows nothing
of MQTT, and hands every connection to the one handler.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from holdfast.broker.connections.connection_handler import ConnectionHandler
from holdfast.model.errors import SettingsError
from holdfast.server import tcp_server
from holdfast.server.handshake_server import HEADER_DEADLINE_S, HandshakeServer
from holdfast.server.sockets import ACCEPTS_PER_ITERATION, BACKLOG, listen
from holdfast.server.stream import ListenerConnections, SocketLink
from holdfast.server.tcp_server import TcpServer
from holdfast.server.tls import TlsContext, TlsFiles
from holdfast.server.websocket import MESSAGE_LIMIT_BYTES, WebSocketLink, WebSocketTerms

Kind = Literal["tcp", "tls", "ws", "wss"]

#: Seconds for each handshake of a connection, unless the listener says otherwise.
HANDSHAKE_DEADLINE_S: Final = 10.0


@dataclass(frozen=True)
class ListenerSpec:
    """What an operator says of one listener. Impossible combinations raise SettingsError."""

    name: str
    kind: Kind = "tcp"
    #: An address or name; `localhost` is both loopbacks, `*` is every address, `::` every IPv6 address.
    host: str = "127.0.0.1"
    #: 0 picks a free one.
    port: int = 1883
    mount_point: str = ""
    allow_anonymous: bool = False
    #: Whether each connection begins with a PROXY header, version 2. A client that reaches such a listener can claim
    #: any address.
    proxy_protocol: bool = False
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    require_client_certificate: bool = False
    crl: Path | None = None
    #: WebSocket: where MQTT is; another path is answered with 404.
    path: str = "/mqtt"
    #: WebSocket: values of the `Origin` header that browsers may come with; None for any.
    allowed_origins: tuple[str, ...] | None = None
    #: WebSocket: at least the largest packet, which many clients send as one message.
    max_message_bytes: int = MESSAGE_LIMIT_BYTES
    #: None for no limit but the machine's.
    max_connections: int | None = None
    #: Seconds for each of: PROXY header, TLS handshake, WebSocket handshake.
    handshake_deadline_s: float = HANDSHAKE_DEADLINE_S

    @property
    def secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.kind in ("tls", "wss")

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise SettingsError(f"listener {self.name}: {problem}")

    def _problem(self) -> str | None:
        if self.kind not in get_args(Kind):
            return f"kind {self.kind!r} is unknown; choose one of {', '.join(get_args(Kind))}"
        if not 0 <= self.port <= 65535:
            return f"port {self.port} is out of range; choose 1 to 65535, or 0 for any free one"
        if self.secure and (self.certificate is None or self.key is None):
            return f"{self.kind} needs certificate and key, both PEM files"
        files = (self.certificate, self.key, self.client_ca, self.crl)
        if not self.secure and (any(files) or self.require_client_certificate):
            return f"{self.kind} is not encrypted; take certificates off, or choose kind tls or wss"
        if self.require_client_certificate and self.client_ca is None:
            return "require_client_certificate needs client_ca, the file of those who sign client certificates"
        if self.crl is not None and self.client_ca is None:
            return "crl needs client_ca, the file of those who sign client certificates"
        if self.mount_point and not self.mount_point.endswith("/"):
            return f"mount_point {self.mount_point!r} has to end with /, so that it is whole levels of a topic"
        if "+" in self.mount_point or "#" in self.mount_point or "\0" in self.mount_point:
            return f"mount_point {self.mount_point!r} may not contain wildcards"
        if not self.path.startswith("/"):
            return f"path {self.path!r} has to begin with /"
        if self.max_connections is not None and self.max_connections < 1:
            return "max_connections has to be at least 1; leave it out for no limit"
        return None


class BoundListener:
    """One listener: its sockets, and what accepts on them."""

    def __init__(self, spec: ListenerSpec, handler: ConnectionHandler) -> None:
        self.spec: Final = spec
        self.connections: Final = ListenerConnections(
            handler,
            listener=spec.name,
            transport=spec.kind,
            mount_point=spec.mount_point,
            allow_anonymous=spec.allow_anonymous,
            max_connections=spec.max_connections,
        )
        self.tls: Final = _tls_context(spec)
        self.port = spec.port
        self._web: Final = WebSocketTerms(
            spec.path, spec.allowed_origins, spec.max_message_bytes, spec.handshake_deadline_s
        )
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
        deadline_s = self.spec.handshake_deadline_s
        if self.spec.proxy_protocol or self.tls is not None:
            return HandshakeServer(
                sock,
                self.connections,
                self._make,
                self.tls,
                proxy_protocol=self.spec.proxy_protocol,
                tls_deadline_s=deadline_s,
                header_deadline_s=min(deadline_s, HEADER_DEADLINE_S),
            )
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
            return WebSocketLink(self.connections, self._web, source)
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


def _tls_context(spec: ListenerSpec) -> TlsContext | None:
    if spec.certificate is None or spec.key is None:
        return None
    return TlsContext(
        TlsFiles(spec.name, spec.certificate, spec.key, spec.client_ca, spec.require_client_certificate, spec.crl),
    )
