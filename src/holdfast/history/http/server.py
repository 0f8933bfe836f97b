"""History by HTTP, for programs without Arrow: `GET /history` and `GET /healthz`.

It uses the standard library. Reading blocks, so each request needs a thread anyway; with two paths and no request
bodies a web framework would add nothing.

1. A response is sent as it is read: it needs the memory of one batch of messages.
2. A response that fails has no last chunk, and the connection is closed, so that the client notices.
3. A client has a slot from a complete request with a right token to the end of its response; before that it has a
   place, until its deadline (`admission.py`). `/healthz` and refusals need no slot.
4. A head has at most HEAD_BYTES, a request body is never used, and a client must read each chunk within STEP_S.
"""

import json
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import chain
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from holdfast.history.arrow.file_columns import FileFormat
from holdfast.history.arrow.file_writer import open_writer
from holdfast.history.http.admission import HttpAdmission, SlotDecision
from holdfast.history.http.query import HttpQuery, parse_query
from holdfast.history.reader.reader import ScanRequest
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import View
from holdfast.history.settings import History
from holdfast.history.tokens import Tokens
from holdfast.model.errors import HoldfastError, TransientError
from holdfast.model.time import MICROSECOND_NS

_log = structlog.get_logger()

#: Bytes of a request line and its headers.
HEAD_BYTES: Final = 16 * 1024
#: Seconds within which a client must read a chunk of a response, _CHUNK_BYTES.
STEP_S: Final = 30.0
_CHUNK_BYTES: Final = 64 * 1024
#: Bytes of a request body that are read and discarded, because a client that still sends does not see the refusal.
_LINGER_BYTES: Final = 4 * 2**20
#: Seconds for which an answer of `/healthz` is reused: it needs no token, and a check costs a few milliseconds.
_HEALTH_S: Final = 1.0
#: Seconds between two lines of the log about connections that were closed.
_TELL_S: Final = 10.0
_METHODS: Final = ("GET", "HEAD")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_TYPES: Final = {
    FileFormat.JSONL: "application/x-ndjson",
    FileFormat.CSV: "text/csv; charset=utf-8",
    FileFormat.PARQUET: "application/vnd.apache.parquet",
}
LOST_HEADER: Final = "Holdfast-LostRange-At-Most"


class HistoryHttp(ThreadingHTTPServer):
    """Requires: `serve_forever` in a thread, `shutdown` at the end. OSError if the port is taken."""

    daemon_threads = True
    #: A restart must not wait for connections of the last run.
    allow_reuse_address = True
    #: The kernel's queue of connections that are not accepted yet.
    request_queue_size = 128

    def __init__(
        self,
        pool: ReaderPool,
        tokens: Tokens,
        settings: History,
        tls: ssl.SSLContext | None = None,
        *,
        now_s: Callable[[], float] = time.monotonic,
        step_s: float = STEP_S,
    ) -> None:
        self.pool: Final = pool
        self.tokens: Final = tokens
        self.step_s: Final = step_s
        self.admission: Final[HttpAdmission[socket.socket]] = HttpAdmission(
            settings.max_requests, settings.max_requests_per_address, now_s
        )
        self._tls: Final = tls
        self._now_s: Final = now_s
        self._checking: Final = threading.Lock()
        self._healthy_until_s = float("-inf")
        self._closed = 0
        self._told_s = float("-inf")
        host = settings.host
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__(("" if host == "*" else host, settings.http_port), _Handler)

    def check_health(self) -> None:
        """HoldfastError if the data cannot be read. Reuses a recent result."""
        with self._checking:
            if self._now_s() >= self._healthy_until_s:
                self.pool.view()
                self._healthy_until_s = self._now_s() + _HEALTH_S

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        if self._tls is not None:
            # The thread of the connection makes the TLS handshake with its first read, so that it delays no other.
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        displaced = self.admission.enter(request, client_address[0])
        if displaced is not None:
            self._cut(displaced, socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.admission.leave(request)

    def service_actions(self) -> None:
        """Called by `serve_forever` between two connections, and while none comes."""
        for connection in self.admission.overdue():
            # The thread of the connection reads the end of the stream, and may still send a refusal.
            self._cut(connection, socket.SHUT_RD)
        if self._closed and self._now_s() - self._told_s >= _TELL_S:
            _log.warning("connections that sent no whole request were closed", connections=self._closed)
            self._closed, self._told_s = 0, self._now_s()

    def _cut(self, connection: socket.socket, how: int) -> None:
        self._closed += 1
        with suppress(OSError):
            # Not `shutdown` of the TLS socket, which would take its state away from the thread that uses it.
            socket.socket.shutdown(connection, how)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (the contract's)
        """A connection broke, or does not speak HTTP."""
        error = sys.exc_info()[1]
        is_theirs = isinstance(error, OSError)
        _log.debug("a connection failed", client=client_address[0], why=str(error), exc_info=not is_theirs)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: The version of a request whose head is not complete.
    default_request_version = "HTTP/1.0"
    server: HistoryHttp

    def setup(self) -> None:
        super().setup()
        self.rfile.close()  # heads are read from the socket, and a file of it would keep it open
        #: Received, and not yet used.
        self._received = bytearray()
        self.command = ""

    def version_string(self) -> str:
        return "holdfast"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002 (the contract's)
        # Not the query, which may hold private data.
        path = getattr(self, "path", "").partition("?")[0]
        _log.debug("http", client=self.client_address[0], path=path, status=code)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug("http", client=self.client_address[0], what=format % args)

    # ---- a request

    def handle_one_request(self) -> None:
        self.close_connection = True
        head = self._read_head()
        if head is None:
            return
        line, _end, fields = head.partition(b"\n")
        self.raw_requestline = line + b"\n"
        self.rfile = BytesIO(fields)
        if not self.parse_request():
            return
        has_body = "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0").strip() != "0"
        self.close_connection = self.close_connection or has_body
        self._respond(has_body=has_body)
        self.server.admission.end(self.connection)
        if has_body:
            self._linger()

    def handle_expect_100(self) -> bool:
        """Send no `100 Continue`: the response follows at once, and the body is not used."""
        return True

    def _read_head(self) -> bytes | None:
        """A request line and its headers; None at the end of the connection, or if it was refused."""
        received = self._received
        self.connection.settimeout(None)  # admission keeps its deadline
        while True:
            del received[: len(received) - len(received.lstrip(b"\r\n"))]
            found = _HEAD_END.search(received)
            if found is not None and found.end() <= HEAD_BYTES:
                head = bytes(received[: found.end()])
                del received[: found.end()]
                self.connection.settimeout(self.server.step_s)
                return head
            if len(received) >= HEAD_BYTES:
                self._refuse_head(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head has {HEAD_BYTES} bytes at most")
                self._linger()
                return None
            data = self.connection.recv(HEAD_BYTES)
            if not data:
                if received and self.server.admission.is_overdue(self.connection):
                    self._refuse_head(HTTPStatus.REQUEST_TIMEOUT, "the request was not complete in time")
                return None
            received += data

    def _refuse_head(self, status: HTTPStatus, text: str) -> None:
        self.connection.settimeout(self.server.step_s)
        self.requestline, self.request_version = "", self.protocol_version
        self._refuse(status, text)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the refusal of `parse_request`."""
        self.close_connection = True
        self._refuse(HTTPStatus(code), message or explain or HTTPStatus(code).phrase)

    def _linger(self) -> None:
        """Read what is still being sent, up to a limit: else the client would not see the refusal."""
        socket.socket.shutdown(self.connection, socket.SHUT_WR)
        self.connection.settimeout(None)
        left = _LINGER_BYTES
        while left > 0 and (data := self.connection.recv(_CHUNK_BYTES)):
            left -= len(data)

    def _respond(self, *, has_body: bool) -> None:
        try:
            parts = urlsplit(self.path)
        except ValueError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"{self.path!r} is no URL: {error}")
            return
        if self.command not in _METHODS:
            text = f"{self.command} is not answered here; GET and HEAD are"
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, text, {"Allow": ", ".join(_METHODS)})
        elif has_body:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request has no body here; ask by the query of the URL")
        elif parts.path == "/healthz":
            self._health()
        elif parts.path == "/history":
            self._history(parts.query)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing at {parts.path}; there are /history and /healthz")

    def _health(self) -> None:
        try:
            self.server.check_health()
        except HoldfastError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        else:
            self._answer(HTTPStatus.OK, {"status": "ok"})

    def _history(self, query: str) -> None:
        if not self._may_read():
            return
        try:
            asked = parse_query(query, time.time_ns() // MICROSECOND_NS)
        except (HoldfastError, ValueError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        admission = self.server.admission
        turn = admission.begin(self.connection)
        if turn is SlotDecision.GRANTED:
            self._read(asked)
        elif turn is SlotDecision.ADDRESS_FULL:
            text = f"{admission.slots_per_address} requests of this address are being answered already"
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": "5"})
        else:
            text = f"{admission.slots} requests are being answered already"
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, text, {"Retry-After": "5"})

    def _may_read(self) -> bool:
        """Whether the token is right; if not, the refusal was sent (RFC 6750)."""
        shown = self.headers.get("Authorization", "")
        if self.server.tokens.name_of(shown) is not None:
            return True
        how = "`holdfast token add` makes one, to be shown as: Authorization: Bearer TOKEN"
        if shown.lower().startswith("bearer "):
            why, challenge = "the token is not known", 'Bearer error="invalid_token"'
        else:
            why, challenge = "a token is needed", "Bearer"
        self._refuse(HTTPStatus.UNAUTHORIZED, f"{why}; {how}", {"WWW-Authenticate": challenge})
        return False

    def _read(self, asked: HttpQuery) -> None:
        try:
            view = self.server.pool.view()
            if asked.zone is not None and asked.zone not in view.zones:
                names = ", ".join(sorted(view.zones))
                self._refuse(HTTPStatus.BAD_REQUEST, f"there is no zone {asked.zone!r}; there are {names}")
                return
            batches = self._batches(view, asked)
            # The first batch is read before the status is sent, so that an early failure has its own status.
            first = next(batches, None)
        except TransientError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "5"})
        except HoldfastError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        else:
            with closing(batches):  # with the reader that it has
                self._send(view, asked, batches if first is None else chain([first], batches))

    def _batches(self, view: View, asked: HttpQuery) -> Generator[Any, None, None]:
        left = asked.limit
        for part in view.parts(asked.since_us, asked.until_us, asked.zone):
            for batch in self.server.pool.scan(ScanRequest(part, asked.levels, asked.columns)):
                if left is None:
                    yield batch
                    continue
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if not left:
                    return

    def _send(self, view: View, asked: HttpQuery, batches: Iterator[Any]) -> None:
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
        if self.command == "HEAD":
            return
        body = _Body(self.wfile, chunked=chunked)
        try:
            writer = open_writer(asked.file_format, body, asked.columns)
            for batch in batches:
                writer.write(batch)
            writer.close()
            body.close()
        except (HoldfastError, OSError) as error:
            # Too late for a status: the missing last chunk tells the client.
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
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
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


def _lost(view: View, asked: HttpQuery) -> int:
    """At most this many messages of the query were removed by retention, which is nothing for a query from the
    earliest, or are lost because pages are damaged.
    """
    zones = [zone for name, zone in view.zones.items() if asked.zone in (None, name)]
    lost = view.lost if asked.since_us else view.damaged
    found = [lost(shard, asked.since_us, asked.until_us) for zone in zones for shard in zone.shards]
    return sum(lost.at_most for lost in found if lost is not None)
