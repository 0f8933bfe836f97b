"""The server of the control socket, on the broker's event loop.

    connect ─▶ peer's user checked ─▶ Hello both ways ─▶ requests, one after the other ─▶ answers, pushes

1. Only the user of the broker and root may connect: the socket has mode 0600 before it listens, and the user of each
   peer is checked.
2. The broker does not wait for a peer: what is sent is put into the send buffer. A peer that has MAX_WAITING_BYTES
   there is cut off.
3. What a peer sends can end its own connection and nothing else. Bytes that are no frames, and words that a client
   does not say, do. It is logged once a minute at most, for all peers together.
4. At most MAX_CONNECTIONS are open.
5. A request is handled within one loop iteration, or in slices that it bounds itself; between two requests of a peer
   the loop serves others.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from holdfast.control.frames import FrameReader, decode_body, encode_body, encode_frame
from holdfast.control.words import (
    BAD_REQUEST,
    FAILED,
    OLDEST_VERSION,
    UNKNOWN_WORD,
    VERSION,
    WORDS,
    Answer,
    Hello,
    Push,
    Refusal,
    Request,
    Word,
)
from holdfast.files.private_socket import PrivateSocket
from holdfast.files.socket_peer import may_connect, peer_uid
from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.node.control.slice_times import SliceTimes

_log = structlog.get_logger()

MAX_CONNECTIONS: Final = 16
#: What may wait for a peer that does not read.
MAX_WAITING_BYTES: Final = 1 << 20
#: A request is a name and a few options.
MAX_REQUEST_BYTES: Final = 64 * 1024
#: How long a peer has for its Hello.
HELLO_S: Final = 10.0
_READ_BYTES: Final = 64 * 1024
#: Between two log lines on peers that were refused or cut off.
_COMPLAIN_S: Final = 60.0


class RefusedRequestError(PermanentError):
    """A request is answered with a refusal, and nothing was done."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code: Final = code


#: Answers a request: at once, or by a coroutine that takes its time in slices.
Handler = Callable[["ControlConnection", Any], msgspec.Struct | Awaitable[msgspec.Struct]]


class ControlConnection:
    """One peer: the console or a command."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer: Final = writer
        #: Why it was ended by us; empty while it was not.
        self.cut_off = ""
        #: Called once, when the connection is over.
        self.on_end: Final[list[Callable[[], None]]] = []

    def push(self, topic: str, body: msgspec.Struct) -> None:
        """Send news of what the peer watches."""
        self.send(Push(topic, encode_body(body)))

    def waiting_bytes(self) -> int:
        """What was sent and the peer has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, word: Word) -> None:
        """Send a word. A peer for which too much waits is cut off, and nothing more is sent to it."""
        if self.cut_off or self._writer.transport.is_closing():
            return
        try:
            frame = encode_frame(word)
        except PermanentError as error:
            if not isinstance(word, Answer):
                raise
            frame = encode_frame(Refusal(word.id, FAILED, str(error)))
        self._writer.write(frame)
        if self.waiting_bytes() > MAX_WAITING_BYTES:
            self.abort(f"it does not read what it is sent; {MAX_WAITING_BYTES} bytes may wait")

    def abort(self, why: str) -> None:
        self.cut_off = self.cut_off or why
        self._writer.transport.abort()


class ControlServer:
    """Serves the control socket of one broker. Requires: the broker's event loop."""

    def __init__(self, product: str, handlers: Mapping[str, Handler], slices: SliceTimes) -> None:
        self._hello: Final = Hello(VERSION, OLDEST_VERSION, product, tuple(handlers))
        self._handlers: Final = handlers
        self._slices: Final = slices
        self._connections: Final[dict[ControlConnection, asyncio.Task[None]]] = {}
        self._server: asyncio.Server | None = None
        self._bound: PrivateSocket | None = None
        self._complained_s = float("-inf")
        self._unsaid = 0

    async def open(self, path: Path) -> None:
        """Serve at a path. OSError if that cannot be. A socket that a killed broker left there is replaced."""
        bound = PrivateSocket(path)
        try:
            self._server = await asyncio.start_unix_server(self._accept, sock=bound.socket, limit=_READ_BYTES)
        except BaseException:
            bound.socket.close()
            bound.remove()
            raise
        self._bound = bound

    async def close(self) -> None:
        """End all connections, and remove the socket."""
        server, bound = self._server, self._bound
        if server is None or bound is None:
            return
        self._server = self._bound = None
        server.close()
        bound.remove()
        for connection in self._connections:
            connection.abort("the broker stops")
        await asyncio.gather(*self._connections.values(), return_exceptions=True)

    # ---- one connection

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = ControlConnection(writer)
        refusal = self._refusal(writer)
        if refusal:
            connection.abort(refusal)
            self._complain(refusal)
            return
        self._connections[connection] = task
        try:
            await self._serve(connection, reader)
            if connection.cut_off and self._server is not None:
                self._complain(connection.cut_off)
        except (PermanentError, TimeoutError) as error:
            self._complain(str(error) or f"no Hello came within {HELLO_S:g} s")
        except ConnectionError:
            if connection.cut_off and self._server is not None:
                self._complain(connection.cut_off)
        finally:
            del self._connections[connection]
            for ended in connection.on_end:
                ended()
            writer.close()

    def _refusal(self, writer: asyncio.StreamWriter) -> str:
        """Why a peer may not come in; empty if it may."""
        uid = peer_uid(writer.get_extra_info("socket"))
        if not may_connect(uid, os.getuid()):
            return f"user {uid} may not use the control socket; its broker runs as user {os.getuid()}"
        if len(self._connections) >= MAX_CONNECTIONS:
            return f"{MAX_CONNECTIONS} connections are open, which is the limit"
        return ""

    async def _serve(self, connection: ControlConnection, reader: asyncio.StreamReader) -> None:
        """Handle what a peer says until it leaves. PermanentError if it says what no peer may say."""
        connection.send(self._hello)
        frames = FrameReader(MAX_REQUEST_BYTES)
        known = False
        hello_until_s = asyncio.get_running_loop().time() + HELLO_S
        while not connection.cut_off:
            async with asyncio.timeout_at(None if known else hello_until_s):
                data = await reader.read(_READ_BYTES)
            if not data:
                return
            for word in frames.feed(data):
                if isinstance(word, Request) and known:
                    connection.send(await self._answer(connection, word))
                    await asyncio.sleep(0)
                elif isinstance(word, Hello) and not known:
                    known = True
                    if not _has_common_version(word):
                        return  # it has our Hello, which says what would be right
                else:
                    raise PermanentError(f"a peer of the control socket said {type(word).__name__}, out of place")

    async def _answer(self, connection: ControlConnection, request: Request) -> Answer | Refusal:
        handler = self._handlers.get(request.word)
        if handler is None:
            return Refusal(request.id, UNKNOWN_WORD, f"{request.word[:100]!r} is no word of this broker")
        try:
            body = decode_body(request.body, WORDS[request.word][0])
        except PermanentError as error:
            return Refusal(request.id, BAD_REQUEST, str(error))
        try:
            with self._slices.timed():
                answer = handler(connection, body)
            if isinstance(answer, Awaitable):
                answer = await answer
            return Answer(request.id, encode_body(answer))
        except RefusedRequestError as refused:
            return Refusal(request.id, refused.code, str(refused))
        except HoldfastError as error:
            return Refusal(request.id, FAILED, str(error))
        except Exception:
            _log.exception("a request of the control socket failed", word=request.word)
            return Refusal(request.id, FAILED, "an internal error; see the broker's log")

    def _complain(self, why: str) -> None:
        """Log that a peer was turned away, once a minute at most."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._complained_s < _COMPLAIN_S:
            self._unsaid += 1
            return
        self._complained_s = now_s
        _log.warning("control connection ended", why=why, unsaid_before=self._unsaid)
        self._unsaid = 0


def _has_common_version(hello: Hello) -> bool:
    return max(hello.oldest, OLDEST_VERSION) <= min(hello.version, VERSION)
