"""Questions about the past: HTTP/1.1 to the private socket of the history process, a connection for each.

1. The history process runs only while it is asked: `find` gives its socket, and starts it first if need be.
2. Its refusals become ours, with their parameter; if it is away or busy, that is 503 with `Retry-After`.
3. An answer is passed on as it comes. A browser that goes away closes the connection, which ends the question.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import h11
import msgspec

from holdfast.console.problems import ProblemError
from holdfast.model.errors import HoldfastError

_CONNECT_S: Final = 2.0
#: A question may take this long until its answer begins, and between two parts of it.
ANSWER_S: Final = 60.0
#: What the process says of itself is asked for between other things: a late answer is left out.
_NUMBERS_S: Final = 0.5
#: The path of it. Never change: the process may be of another version.
NUMBERS: Final = "/numbers"
_READ_BYTES: Final = 1 << 16
#: Answers that are read as a whole.
_MAX_ANSWER_BYTES: Final = 64 << 20

Parameters = Sequence[tuple[str, str]]


class HistoryAnswer:
    """An answer that has begun."""

    def __init__(self, headers: Mapping[str, str], parts: AsyncIterator[bytes]) -> None:
        self.headers: Final = headers
        self.parts: Final = parts

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "application/json")


class HistoryNumbers(msgspec.Struct, frozen=True):
    """What the history process says of itself."""

    #: Readers in use.
    busy: float
    #: By the names of metrics.
    process: dict[str, float]


class HistoryLink:
    """Asks the history process."""

    def __init__(self, find: Callable[[], Awaitable[Path]] | None) -> None:
        """`find` gives the socket of the process once that serves; HoldfastError if it does not. None: no past."""
        self._find: Final = find
        #: Questions in a row that got no answer, and why the last one did not.
        self.failures = 0
        self.failure = ""
        #: Where the process was found last, or runs in any case; None while that is not known.
        self.path: Path | None = None

    @property
    def has_past(self) -> bool:
        return self._find is not None

    async def get(self, path: str, parameters: Parameters = ()) -> Any:
        """The answer as a value. ProblemError if there is none."""
        data = bytearray()
        async with self.ask(path, parameters) as answer:
            async for part in answer.parts:
                data += part
                if len(data) > _MAX_ANSWER_BYTES:
                    raise ProblemError(502, "the history process answered with more than can be taken")
        try:
            return msgspec.json.decode(data)
        except msgspec.MsgspecError:
            raise ProblemError(502, "the history process answered with something that is not JSON") from None

    async def numbers(self) -> HistoryNumbers | None:
        """What the process says of itself; None if it does not run, or does not say it at once.

        It is not started for this, and does not count it as a question.
        """
        if self.path is None:
            return None
        try:
            async with asyncio.timeout(_NUMBERS_S):
                reader, writer = await asyncio.open_unix_connection(self.path)
                try:
                    response, parts = await _ask(reader, writer, NUMBERS, [], _NUMBERS_S)
                    data = b"".join([part async for part in parts])
                finally:
                    writer.close()
            return msgspec.json.decode(data, type=HistoryNumbers) if response.status_code == 200 else None
        except (OSError, TimeoutError, h11.ProtocolError, msgspec.MsgspecError):
            return None

    @asynccontextmanager
    async def ask(
        self, path: str, parameters: Parameters = (), asker: str = "", *, answer_s: float = ANSWER_S
    ) -> AsyncIterator[HistoryAnswer]:
        """The answer, part by part. ProblemError if the question is refused, or if none comes within `answer_s`.

        `asker`: a newer question of the same asker to the same path ends an older one.
        """
        reader, writer = await self._connect()
        try:
            target = f"{path}?{urlencode(parameters)}" if parameters else path
            response, parts = await _ask(reader, writer, target, [("X-Ask", asker)] if asker else [], answer_s)
            self.failures = 0
            received = {name.decode().lower(): value.decode("latin-1") for name, value in response.headers}
            if response.status_code != 200:
                raise await _refusal(response.status_code, received, parts)
            yield HistoryAnswer(received, parts)
        except (OSError, h11.ProtocolError, TimeoutError):
            raise self._failed("the history process ended while it answered; ask again") from None
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._find is None:
            raise ProblemError(404, "this broker keeps no messages on disk (storage.durability), so it has no past")
        try:
            self.path = await self._find()
            async with asyncio.timeout(_CONNECT_S):
                return await asyncio.open_unix_connection(self.path)
        except HoldfastError as error:
            raise self._failed(str(error)) from None
        except (OSError, TimeoutError):
            raise self._failed("the history process does not answer; ask again") from None

    def _failed(self, detail: str) -> ProblemError:
        self.failures += 1
        self.failure = detail
        return ProblemError(503, detail, headers={"Retry-After": "2"})


async def _ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: str,
    extra: list[tuple[str, str]],
    answer_s: float,
) -> tuple[h11.Response, AsyncIterator[bytes]]:
    """Send a request; the answer that has begun, and what its body will be."""
    connection = h11.Connection(h11.CLIENT)
    headers = [("Host", "history"), ("Connection", "close"), *extra]
    request = h11.Request(method="GET", target=target, headers=headers)
    writer.write(_sent(connection, request) + _sent(connection, h11.EndOfMessage()))
    response = await _next(connection, reader, answer_s)
    assert isinstance(response, h11.Response)
    return response, _parts(connection, reader, answer_s)


async def _next(connection: h11.Connection, reader: asyncio.StreamReader, answer_s: float) -> Any:
    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event
        async with asyncio.timeout(answer_s):
            connection.receive_data(await reader.read(_READ_BYTES))


async def _parts(connection: h11.Connection, reader: asyncio.StreamReader, answer_s: float) -> AsyncIterator[bytes]:
    while isinstance(event := await _next(connection, reader, answer_s), h11.Data):
        yield bytes(event.data)


async def _refusal(status: int, headers: Mapping[str, str], parts: AsyncIterator[bytes]) -> ProblemError:
    """The error of an answer, in our form."""
    data = b"".join([part async for part in parts])
    try:
        content = msgspec.json.decode(data, type=dict[str, Any])
        error = content.get("error")
        error = error if isinstance(error, dict) else {}
    except msgspec.MsgspecError:
        content, error = {}, {}
    detail = str(error.get("detail") or f"the history process answered with status {status}")
    if status not in (400, 404, 409, 410, 501, 503):
        return ProblemError(502, detail)
    passed = {"Retry-After": headers.get("retry-after", "1")} if status == 503 else {}
    extra = {"border_us": content["border_us"]} if "border_us" in content else {}
    return ProblemError(status, detail, parameter=str(error.get("parameter") or ""), headers=passed, extra=extra)


def _sent(connection: h11.Connection, event: Any) -> bytes:
    data = connection.send(event)
    return b"" if data is None else bytes(data)
