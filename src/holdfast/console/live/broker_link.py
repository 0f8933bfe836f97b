"""The connection to the broker: an asyncio client of the control socket.

    BrokerLink.run ── connect ─▶ Hello ◀─▶ Hello ─▶ watch ─▶ pushes … ── lost ── pause 0.25 s … 5 s ─▶ connect …

1. A lost connection is made again, after longer and longer pauses, until the task that runs `run` is cancelled.
2. A request fails with 503 if the broker is away or does not answer in time, and with the broker's own words if it
   refuses. A late answer is passed over.
3. Clients are watched while somebody looks at them, numbers always.
"""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec
import structlog

from holdfast.console.problems import ProblemError, broker_away
from holdfast.control.frames import FrameReader, decode_body, encode_body, encode_frame
from holdfast.control.words import (
    BAD_REQUEST,
    CLIENT_CHANGES,
    CLIENTS,
    CLIENTS_AGAIN,
    NOT_FOUND,
    NOT_POSSIBLE,
    OLDEST_VERSION,
    STATS,
    UNKNOWN_WORD,
    VERSION,
    WORDS,
    Answer,
    ClientChanges,
    ClientRows,
    Hello,
    NodeInfo,
    Push,
    Refusal,
    Request,
    Stats,
    Watch,
    Word,
)
from holdfast.model.errors import PermanentError

_log = structlog.get_logger()

_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 5.0
#: A broker that sends nothing for this long hangs, or is gone without a word: numbers come once a second.
_SILENCE_S: Final = 15.0
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 5.0
_READ_BYTES: Final = 1 << 16

#: HTTP status of each code of a refusal.
_STATUS: Final = {BAD_REQUEST: 400, NOT_FOUND: 404, NOT_POSSIBLE: 409, UNKNOWN_WORD: 501}

Body = TypeVar("Body", bound=msgspec.Struct)


class BrokerListener(Protocol):
    """What is told of the broker's news."""

    def broker_connected(self, node: NodeInfo) -> None: ...

    def broker_lost(self) -> None: ...

    def stats_came(self, stats: Stats) -> None: ...

    def clients_begin(self) -> None: ...

    def client_rows_came(self, rows: ClientRows) -> None: ...

    def client_changes_came(self, changes: ClientChanges) -> None: ...


class BrokerLink:
    """Connects again by itself, and takes requests meanwhile."""

    def __init__(self, find_socket: Callable[[], Path | None], listener: BrokerListener, product: str) -> None:
        """`find_socket` tells where the socket is now; None while no broker runs."""
        self._find_socket: Final = find_socket
        self._listener: Final = listener
        self._hello: Final = Hello(VERSION, OLDEST_VERSION, product)
        self._writer: asyncio.StreamWriter | None = None
        self._ids: Final = itertools.count(1)
        self._waiting: Final[dict[int, asyncio.Future[Answer]]] = {}
        self._known_words: frozenset[str] = frozenset()
        self._watches_clients = False
        #: Whether this connection was told what to push. Before that, `_introduce` is about to tell it.
        self._is_watching = False
        #: The number of a `watch` that is not answered yet; 0 for none. Until then clients are those of an earlier one.
        self._watch_number = 0

    @property
    def is_connected(self) -> bool:
        return self._writer is not None

    async def run(self) -> None:
        """Keep the connection until cancelled."""
        pause_s = _FIRST_PAUSE_S
        why = ""
        while True:
            try:
                await self._run_once()
                pause_s = _FIRST_PAUSE_S
            except (OSError, PermanentError, TimeoutError) as error:
                if (now := str(error) or type(error).__name__) != why:
                    _log.info("broker does not answer the console", why=now)
                    why = now
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    async def request(self, word: str, body: msgspec.Struct, timeout_s: float = _ANSWER_S) -> msgspec.Struct:
        """The answer, of the struct that `WORDS` has for the word. ProblemError if there is none."""
        if self._writer is None:
            raise broker_away("the broker is away: it does not run, or does not answer")
        if word not in self._known_words:
            raise ProblemError(501, f"this broker is older than the console and does not know {word!r}; update it")
        number = next(self._ids)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send(Request(number, word, encode_body(body)))
            async with asyncio.timeout(timeout_s):
                return decode_body((await answer).body, WORDS[word][1])
        except TimeoutError:
            raise broker_away(f"the broker did not answer within {timeout_s:g} s; it is busy or hangs") from None
        except PermanentError as error:
            raise ProblemError(502, f"the broker's answer cannot be read: {error}") from None
        finally:
            del self._waiting[number]

    def watch_clients(self, *, wanted: bool) -> None:
        """Have clients pushed from now on, or not any more."""
        if wanted != self._watches_clients:
            self._watches_clients = wanted
            if self._is_watching:
                self._watch()

    # ---- one connection

    async def _run_once(self) -> None:
        path = self._find_socket()
        if path is None:
            raise PermanentError("no broker runs on this data folder")
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_unix_connection(path)
        try:
            frames = FrameReader()
            writer.write(encode_frame(self._hello))
            words = await self._greeting(reader, frames)
            self._writer = writer
            async with asyncio.TaskGroup() as group:
                introduction = group.create_task(self._introduce())
                await self._read(reader, frames, words)
                introduction.cancel()
        except* (OSError, PermanentError, TimeoutError) as errors:
            raise PermanentError(str(errors.exceptions[0]) or "the broker fell silent") from None
        finally:
            was_connected, self._writer = self._writer is not None, None
            self._is_watching, self._watch_number = False, 0
            self._fail_requests()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            if was_connected:
                self._listener.broker_lost()

    async def _greeting(self, reader: asyncio.StreamReader, frames: FrameReader) -> list[Word]:
        """Take the broker's Hello; returns what came behind it."""
        words: list[Word] = []
        async with asyncio.timeout(_CONNECT_S):
            while not words:
                words = frames.feed(await _receive(reader))
        hello, *rest = words
        if not isinstance(hello, Hello):
            raise PermanentError("the control socket does not begin with Hello; is another program listening there?")
        if hello.version < OLDEST_VERSION or hello.oldest > VERSION:
            raise PermanentError(
                f"the broker ({hello.product}) speaks versions {hello.oldest} to {hello.version} of the control "
                f"socket, the console {OLDEST_VERSION} to {VERSION}; update the older one"
            )
        self._known_words = frozenset(hello.words)
        return rest

    async def _introduce(self) -> None:
        with suppress(ProblemError):
            node = await self.request("node", WORDS["node"][0]())
            assert isinstance(node, NodeInfo)
            self._listener.broker_connected(node)
        self._watch()

    def _watch(self) -> None:
        """Say what to push. A snapshot begins with the answer: what comes before that was sent for an earlier watch."""
        self._is_watching = True
        self._watch_number = next(self._ids)
        watch = Watch(stats=True, clients=self._watches_clients)
        self._send(Request(self._watch_number, "watch", encode_body(watch)))

    async def _read(self, reader: asyncio.StreamReader, frames: FrameReader, words: list[Word]) -> None:
        while True:
            for word in words:
                self._take(word)
            async with asyncio.timeout(_SILENCE_S):
                words = frames.feed(await _receive(reader))

    def _take(self, word: Word) -> None:
        if isinstance(word, Push):
            self._take_push(word)
        elif isinstance(word, Answer | Refusal):
            if word.id == self._watch_number:
                self._watch_number = 0
                if self._watches_clients:
                    self._listener.clients_begin()
            waiting = self._waiting.get(word.id)
            if waiting is None or waiting.done():
                return
            if isinstance(word, Answer):
                waiting.set_result(word)
            else:
                waiting.set_exception(ProblemError(_STATUS.get(word.code, 502), word.detail))

    def _take_push(self, push: Push) -> None:
        listener = self._listener
        if push.topic == STATS:
            listener.stats_came(decode_body(push.body, Stats))
        elif self._watch_number:
            return
        elif push.topic == CLIENTS:
            listener.client_rows_came(decode_body(push.body, ClientRows))
        elif push.topic == CLIENT_CHANGES:
            listener.client_changes_came(decode_body(push.body, ClientChanges))
        elif push.topic == CLIENTS_AGAIN:
            listener.clients_begin()

    def _send(self, word: Word) -> None:
        assert self._writer is not None
        self._writer.write(encode_frame(word))

    def _fail_requests(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(broker_away("the connection to the broker was lost; try again"))


async def _receive(reader: asyncio.StreamReader) -> bytes:
    data = await reader.read(_READ_BYTES)
    if not data:
        raise PermanentError("the broker closed the control socket")
    return data
