"""Sockets, TLS and limits of the console, around uvicorn.

| what | at most | answer |
|---|---|---|
| connections | 64 | 503 |
| bytes of a header | 16 KB | 431 |
| time for a request to arrive | 30 s | 408 |

A certificate that was replaced is used for new connections within some seconds, without a restart.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.console.options import ConsoleOptions
from holdfast.console.problems import ProblemError
from holdfast.console.web.app import ConsoleApp, problem_answer
from holdfast.console.web.request_checks import ARRIVAL_S, MAX_HEADER_BYTES
from holdfast.files.stamp import file_stamp
from holdfast.model.errors import SettingsError

_log = structlog.get_logger()

MAX_CONNECTIONS: Final = 64
_KEEP_ALIVE_S: Final = 20
_BACKLOG: Final = 128
_CERTIFICATE_S: Final = 5.0
#: Event streams do not end by themselves.
_STOP_S: Final = 1

_TOO_MANY: Final = ProblemError(
    503,
    f"there are {MAX_CONNECTIONS} connections to the console already; close some tabs, or try again",
    headers={"Retry-After": "5", "Connection": "close"},
)


class LimitedProtocol(H11Protocol):
    """A connection with limits on its number, its headers and its patience."""

    _arrival: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self.app = partial(self._console_app().refuse, _TOO_MANY)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._arrival is None and not self._is_answering():
            self._expect()
        super().data_received(data)
        if self._is_answering():
            # Its headers are there. For its body, `read_body` has another limit.
            self._arrived()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Called for bytes that are no request, and for headers without end."""
        is_long = len(self.conn.trailing_data[0]) > MAX_HEADER_BYTES
        if is_long:
            problem = ProblemError(431, f"the headers have more than {MAX_HEADER_BYTES} bytes")
        else:
            problem = ProblemError(400, "this is no HTTP request")
        self._refuse(problem)

    def _console_app(self) -> ConsoleApp:
        app = self.config.app
        assert isinstance(app, ConsoleApp)  # by `serving`
        return app

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect(self) -> None:
        self._arrival = self.loop.call_later(ARRIVAL_S, self._too_late)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _too_late(self) -> None:
        self._arrival = None
        if not self._is_answering() and not self.transport.is_closing():
            self._refuse(ProblemError(408, f"the request took more than {ARRIVAL_S:g} s to arrive"))

    def _refuse(self, problem: ProblemError) -> None:
        """Answer without h11, whose state does not allow one any more, and close."""
        self._console_app().refused(problem)
        answer = problem_answer(problem)
        head = f"HTTP/1.1 {problem.status} {problem.body()['title']}\r\nConnection: close\r\n"
        lines = "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in answer.raw_headers)
        self.transport.write(f"{head}{lines}\r\n".encode() + bytes(answer.body))
        self.transport.close()


class _Server(uvicorn.Server):
    """The process handles signals itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_socket(options: ConsoleOptions) -> socket.socket:
    """The listening socket. SettingsError, with the command that helps, if it cannot be had."""
    host = "" if options.host == "*" else options.host
    try:
        found = socket.getaddrinfo(host or None, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _kind, _protocol, _name, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        port = options.port
        raise SettingsError(
            f"the console cannot listen on {options.host}, port {port}: {error.strerror or error}; find who has it "
            f"with: ss -ltnp 'sport = :{port}', or choose another port: --set console.port={port + 1}"
        ) from error
    # Its connections inherit it; asyncio sets it only where the socket names its protocol. Without it each answer over
    # a kept connection waits 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket, options: ConsoleOptions) -> str:
    """The URL of the console."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if options.uses_tls else 'http'}://{shown}:{port}"


@asynccontextmanager
async def serving(app: ConsoleApp, options: ConsoleOptions, listening: socket.socket) -> AsyncIterator[None]:
    """Serve for the length of the block. SettingsError if certificate and key do not fit."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        loop="none",
        log_config=None,
        # Failures are logged by `ConsoleApp`.
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        raise SettingsError(f"the certificate of the console cannot be used: {error}") from error
    server = _Server(config)
    tasks = [asyncio.create_task(server.serve([listening]))]
    if options.certificate is not None and options.key is not None:
        tasks.append(asyncio.create_task(_reload_certificate(config, options.certificate, options.key)))
    try:
        yield
    finally:
        server.should_exit = True
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _reload_certificate(config: uvicorn.Config, certificate: Path, key: Path) -> None:
    stamps = (file_stamp(certificate), file_stamp(key))
    while True:
        await asyncio.sleep(_CERTIFICATE_S)
        now = (file_stamp(certificate), file_stamp(key))
        if now == stamps or config.ssl is None:
            continue
        stamps = now
        try:
            config.ssl.load_cert_chain(certificate, key)
        except (OSError, ValueError) as error:
            _log.error("not reloaded, the old one stays", what="certificate of the console", why=str(error))
        else:
            _log.info("reloaded", what="certificate of the console")
