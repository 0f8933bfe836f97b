"""History by HTTP, for whoever has no Arrow: `GET /history` and `GET /healthz`.

Made of the standard library. Reading is blocking work, so each request needs a thread anyway; there are two paths, no
bodies come in, and nothing here is worth a web framework and an event loop beside Arrow's.

1. A response is sent as it is read: memory is a batch of messages, whatever is asked for.
2. A response that fails half-way does not end as one that is whole: its last chunk is missing, and the connection is
   closed.
3. There are not more connections than so many, and one that neither sends nor takes anything is closed.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from holdfast.history.http_query import Query, parse_query
from holdfast.history.reader_pool import ReaderPool
from holdfast.history.tokens import Tokens
from holdfast.history.view import View
from holdfast.history.writing import FileFormat, open_writer
from holdfast.model.errors import HoldfastError, TransientError

_log = structlog.get_logger()

MAX_CONNECTIONS: Final = 64
#: Seconds that one step of a connection may take: to send a request, to take a piece of a response.
_STEP_S: Final = 60.0
_CHUNK_BYTES: Final = 64 * 1024
_MICROSECOND_NS: Final = 1_000
_TYPES: Final = {
    FileFormat.JSONL: "application/x-ndjson",
    FileFormat.CSV: "text/csv; charset=utf-8",
    FileFormat.PARQUET: "application/vnd.apache.parquet",
}
LOST_HEADER: Final = "Holdfast-Lost-At-Most"


class HistoryHttp(ThreadingHTTPServer):
    """Requires: `serve_forever` in a thread, `shutdown` at the end. OSError if the port cannot be had."""

    daemon_threads = True
    #: A restart must not wait for connections of the last life.
    allow_reuse_address = True

    def __init__(
        self, pool: ReaderPool, tokens: Tokens, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self.pool: Final = pool
        self.tokens: Final = tokens
        self._tls: Final = tls
        self._places: Final = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__(("" if host == "*" else host, port), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        connection.settimeout(_STEP_S)
        if self._tls is not None:
            # The handshake is made by the thread of the connection, with its first read: nobody waits for it here.
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            _log.warning("a connection is refused: there are too many", most=MAX_CONNECTIONS)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (the contract's)
        """A connection broke, or is no HTTP at all."""
        _log.debug("a connection failed", client=client_address[0], exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _STEP_S
    server: HistoryHttp

    def version_string(self) -> str:
        return "holdfast"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002 (the contract's)
        # Not the query: people write into it what is nobody's business.
        _log.debug("http", client=self.client_address[0], path=self.path.partition("?")[0], status=code)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug("http", client=self.client_address[0], what=format % args)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/healthz":
            self._health()
        elif parts.path == "/history":
            self._history(parts.query)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing at {parts.path}; there are /history and /healthz")

    def _health(self) -> None:
        try:
            self.server.pool.view()
        except HoldfastError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        else:
            self._answer(HTTPStatus.OK, {"status": "ok"})

    def _history(self, query: str) -> None:
        if self.server.tokens.name_of(self.headers.get("Authorization", "")) is None:
            text = "a token is needed; `holdfast token add` makes one, to be shown as: Authorization: Bearer TOKEN"
            self._refuse(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": "Bearer"})
            return
        try:
            asked = parse_query(query, time.time_ns() // _MICROSECOND_NS)
        except (HoldfastError, ValueError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        try:
            view = self.server.pool.view()
            if asked.zone is not None and asked.zone not in view.zones:
                names = ", ".join(sorted(view.zones))
                self._refuse(HTTPStatus.BAD_REQUEST, f"there is no zone {asked.zone!r}; there are {names}")
                return
            batches = self._batches(view, asked)
            # What fails at once has a status of its own.
            first = next(batches, None)
        except TransientError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "5"})
        except HoldfastError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        else:
            self._send(view, asked, batches if first is None else chain([first], batches))

    def _batches(self, view: View, asked: Query) -> Iterator[Any]:
        left = asked.limit
        for part in view.parts(asked.since_us, asked.until_us, asked.zone):
            for batch in self.server.pool.scan(part, asked.levels, asked.columns):
                if left is None:
                    yield batch
                    continue
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if not left:
                    return

    def _send(self, view: View, asked: Query, batches: Iterator[Any]) -> None:
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or not chunked
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _TYPES[asked.file_format])
        if lost := _lost(view, asked):
            self.send_header(LOST_HEADER, str(lost))
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        body = _Body(self.wfile, chunked=chunked)
        try:
            writer = open_writer(asked.file_format, body, asked.columns)
            for batch in batches:
                writer.write(batch)
            writer.close()
            body.close()
        except (HoldfastError, OSError) as error:
            # Too late for a status: the end that is missing is what tells the client.
            self.close_connection = True
            _log.warning("a response was not completed", client=self.client_address[0], why=str(error))

    def _refuse(self, status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> None:
        self._answer(status, {"error": text}, headers)

    def _answer(self, status: HTTPStatus, words: dict[str, str], headers: dict[str, str] | None = None) -> None:
        content = json.dumps(words, ensure_ascii=False).encode() + b"\n"
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Body:
    """The body of a response, a chunk at a time."""

    def __init__(self, file: Any, *, chunked: bool) -> None:
        self._file: Final = file
        self._chunked: Final = chunked
        self._held = bytearray()

    def write(self, data: bytes, /) -> int:
        self._held += data
        if len(self._held) >= _CHUNK_BYTES:
            self._pass_on()
        return len(data)

    def close(self) -> None:
        self._pass_on()
        if self._chunked:
            self._file.write(b"0\r\n\r\n")

    def _pass_on(self) -> None:
        if self._held:
            size = b"%x\r\n" % len(self._held) if self._chunked else b""
            self._file.write(size + bytes(self._held) + (b"\r\n" if self._chunked else b""))
            self._held.clear()


def _lost(view: View, asked: Query) -> int:
    """How many messages retention took of what was asked for, at most; who asks for the earliest has lost nothing."""
    if not asked.since_us:
        return 0
    zones = [zone for name, zone in view.zones.items() if asked.zone in (None, name)]
    found = [view.lost(shard, asked.since_us, asked.until_us) for zone in zones for shard in zone.shards]
    return sum(lost.at_most for lost in found if lost is not None)
