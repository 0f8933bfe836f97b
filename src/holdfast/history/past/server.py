"""Answers about the past, by HTTP over a Unix socket: for the console of the same broker alone.

1. Only processes of the same user, or of root, are answered: the socket's mode and the peer's user both say so.
2. A question has a reader of the pool for itself while it is answered; if none is free soon, the answer is 503.
3. A client that leaves ends its question. So does a newer question to the same path with the same `X-Ask`: it gets 409,
   or a stream without its last chunk.
4. An answer that fails half-way has no last chunk.
"""

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec
import structlog

from holdfast.files.private_socket import PrivateSocket
from holdfast.files.process_numbers import process_numbers
from holdfast.files.socket_peer import may_connect, peer_uid
from holdfast.history.past.endpoints import ANSWERS, FILES, STREAMS, Endpoint, FileEndpoint
from holdfast.history.past.questions import QuestionError, dropped
from holdfast.history.past.time_scan import ClientGoneError
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import DroppedError
from holdfast.model.errors import HoldfastError, SettingsError, TransientError

_log = structlog.get_logger()

ASK_HEADER: Final = "X-Ask"
#: Connections at one time; a further one is refused.
MOST_CONNECTIONS: Final = 64
#: Seconds for a request to arrive, and for a client to take what is sent.
_STEP_S: Final = 30.0
#: Seconds between two looks whether a client has left.
_LOOK_S: Final = 0.05
_MOST_PARAMETERS: Final = 50
_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
#: Readers in use, and what the process costs. Never change: the console may be of another version.
NUMBERS: Final = "/numbers"
_RETRY: Final = {"Retry-After": "2"}


class PastServer(ThreadingMixIn, UnixStreamServer):
    """Requires: `serve_forever` in a thread, `shutdown` and `server_close` at the end. SettingsError if the path cannot
    be used.
    """

    daemon_threads = True
    block_on_close = False
    #: The kernel's queue of connections that are not accepted yet.
    request_queue_size = MOST_CONNECTIONS

    def __init__(
        self,
        path: Path,
        pool: ReaderPool,
        answers: Mapping[str, Endpoint] = ANSWERS,
        streams: Mapping[str, Endpoint] = STREAMS,
        files: Mapping[str, FileEndpoint] = FILES,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(str(path), _Handler, bind_and_activate=False)
        self.socket.close()
        try:
            # A process of a broker that was killed may not have noticed yet.
            self._bound: Final = PrivateSocket(path, take_over=True)
        except OSError as error:
            raise SettingsError(f"cannot listen on {path}: {error.strerror or error}") from error
        self.socket = self._bound.socket
        self.socket.setblocking(True)
        self.socket.listen(self.request_queue_size)
        self.path: Final = path
        self.pool: Final = pool
        self.answers: Final = answers
        self.streams: Final = streams
        self.files: Final = files
        self.is_stopping = False
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._connections = 0
        self._busy = 0
        self._asked_s = clock()
        #: The newest question by path and `X-Ask`.
        self._newest: Final[dict[tuple[str, str], object]] = {}

    def idle_s(self) -> float:
        """Seconds since the last question was answered; 0 while one is being answered."""
        with self._lock:
            return 0.0 if self._busy else self._clock() - self._asked_s

    def shutdown(self) -> None:
        self.is_stopping = True
        super().shutdown()

    def server_close(self) -> None:
        super().server_close()
        self._bound.remove()

    def begin(self, key: tuple[str, str]) -> Callable[[], bool]:
        """A question begins; whether it was asked again, or the server stops."""
        mine = object()
        with self._lock:
            self._busy += 1
            if key[1]:
                self._newest[key] = mine
        return lambda: self.is_stopping or (bool(key[1]) and self._newest.get(key) is not mine)

    def end(self, key: tuple[str, str], is_superseded: Callable[[], bool]) -> None:
        with self._lock:
            self._busy -= 1
            self._asked_s = self._clock()
            if key[1] and not is_superseded():
                self._newest.pop(key, None)

    # ---- connections

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 (the contract's)
        """Whether a connection is taken."""
        if not may_connect(peer_uid(request), os.getuid()):
            _log.warning("a process of another user has connected to the socket of history, and was refused")
            return False
        with self._lock:
            if self._connections >= MOST_CONNECTIONS:
                return False
            self._connections += 1
            return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._connections -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (the contract's)
        """A connection broke, or does not speak HTTP."""
        error = sys.exc_info()[1]
        _log.debug("a connection failed", why=str(error), exc_info=not isinstance(error, OSError))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _STEP_S
    server: PastServer

    def version_string(self) -> str:
        return "holdfast"

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a request line may hold topics and client ids."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the refusal of a request that could not be read."""
        self.close_connection = True
        self.requestline = getattr(self, "requestline", "")
        status = HTTPStatus(code)
        self._refuse(QuestionError(status, "bad_request", message or explain or status.phrase))

    def do_GET(self) -> None:
        if "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0").strip() != "0":
            self.close_connection = True
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            self._refuse(QuestionError(status, "bad_request", "a question has no body; ask by the query of the URL"))
            return
        if self.path == NUMBERS:
            # Not a question: the process may end although somebody looks at its numbers.
            self._send(HTTPStatus.OK, {"busy": self.server.pool.busy(), "process": process_numbers()})
            return
        key = (self.path.partition("?")[0], self.headers.get(ASK_HEADER, ""))
        is_superseded = self.server.begin(key)
        try:
            self._respond(_Gone(self.connection, is_superseded))
        except QuestionError as error:
            self._refuse(error)
        except ClientGoneError:
            self.close_connection = True
            if is_superseded():
                detail = "a newer question took the place of this one"
                self._refuse(QuestionError(HTTPStatus.CONFLICT, "superseded", detail))
        except DroppedError as error:
            self._refuse(dropped(self._border_us()) if self._border_us() else _failed(error))
        except TransientError as error:
            self._refuse(QuestionError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error)), _RETRY)
        except HoldfastError as error:
            self._refuse(_failed(error))
        except OSError:
            self.close_connection = True
        except Exception:
            _log.exception("a question about the past failed", path=key[0])
            self._refuse(_failed(HoldfastError("this question has failed; the log of the broker says why")))
        finally:
            self.server.end(key, is_superseded)

    def _respond(self, gone: "_Gone") -> None:
        try:
            parts = urlsplit(self.path)
            params = parse_qs(
                parts.query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict", separator="&"
            )
        except ValueError as error:
            raise QuestionError(HTTPStatus.BAD_REQUEST, "bad_request", f"the URL cannot be read: {error}") from error
        server = self.server
        if answer := server.answers.get(parts.path):
            (found,) = answer(server.pool, params, gone)
            self._send(HTTPStatus.OK, found)
        elif stream := server.streams.get(parts.path):
            with closing(_generator(stream(server.pool, params, gone))) as values:
                self._send_blocks(_LINES, (msgspec.json.encode(value) + b"\n" for value in values), gone)
        elif file := server.files.get(parts.path):
            content_type, made = file(server.pool, params, gone)
            with closing(_generator(made)) as blocks:
                self._send_blocks(content_type, blocks, gone)
        else:
            there = ", ".join(sorted([*server.answers, *server.streams, *server.files]))
            raise QuestionError(HTTPStatus.NOT_FOUND, "not_found", f"there is nothing here; there are: {there}")

    def _send_blocks(self, content_type: str, blocks: Iterator[bytes], gone: "_Gone") -> None:
        # The first block is made before the status is sent, so that an early failure can have another status.
        block = next(blocks, None)
        if gone():
            raise ClientGoneError
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while block is not None:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
                block = next(blocks, None)
                # A stream may end because it is not wanted any more: then it is not complete.
                if gone():
                    raise ClientGoneError
            self.wfile.write(b"0\r\n\r\n")
        except (HoldfastError, OSError) as error:
            # Too late for a status: the missing last chunk tells the client.
            self.close_connection = True
            if not isinstance(error, ClientGoneError | OSError):
                _log.warning("an answer about the past was not completed", why=str(error))

    def _border_us(self) -> int:
        """Where what is kept of every zone begins now."""
        with suppress(HoldfastError):
            view = self.server.pool.view()
            return max([records[0].start_us for records in view.live.values() if records], default=0)
        return 0

    def _refuse(self, error: QuestionError, headers: Mapping[str, str] | None = None) -> None:
        with suppress(OSError):
            self._send(error.status, error.fields(), headers)

    def _send(self, status: HTTPStatus, value: object, headers: Mapping[str, str] | None = None) -> None:
        data = msgspec.json.encode(value) + b"\n"
        self.send_response(status)
        for name, text in {"Content-Type": _JSON, **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)


class _Gone:
    """Whether an answer is still wanted; it looks at most so often."""

    def __init__(self, connection: socket.socket, is_superseded: Callable[[], bool]) -> None:
        self._connection: Final = connection
        self._is_superseded: Final = is_superseded
        self._next_s = 0.0
        self._is_gone = False

    def __call__(self) -> bool:
        now_s = time.monotonic()
        if now_s >= self._next_s and not self._is_gone:
            self._next_s = now_s + _LOOK_S
            self._is_gone = self._is_superseded() or self._has_left()
        return self._is_gone

    def _has_left(self) -> bool:
        try:
            waiting = select.poll()
            waiting.register(self._connection, select.POLLIN)
            return bool(waiting.poll(0)) and not self._connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True


def _generator(values: Iterator[object]) -> "Any":
    """The values; what gives them is closed with it, and with that its reader is given back."""
    yield from values


def _failed(error: Exception) -> QuestionError:
    return QuestionError(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", str(error))
