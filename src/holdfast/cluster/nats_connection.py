"""A connection to the NATS servers: requests and their answers.

1. A client of the library serves one connection to one server. When that is lost a new client is made, to the next
   server. The library would connect again by itself, but not after every error, and it leaves sockets open on the way.
2. Nothing is buffered while there is no connection. The library would send it later, when the caller has long sent it
   again.
3. Exceptions of the library end here. Without an answer: TransientError.
4. Log lines name addresses and never credentials.
"""

import asyncio
import json
import random
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.model.passwords import hide_passwords

_log = structlog.get_logger()

#: Seconds between two pings, and how many may be without an answer. A server that hangs is left after six seconds; by
#: its defaults the library would stay for minutes.
_PING_S: Final = 2
_PINGS: Final = 2
#: Seconds before all servers are tried again: the first pause, and the longest.
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
#: Seconds for the rest of a client whose socket is closed.
_DISCARD_S: Final = 0.1
#: What the library raises when a request has no answer.
_UNANSWERED: Final = (nats.errors.Error, OSError, TimeoutError)

#: "no suitable peers for placement": 400, though it passes when a server comes back.
_NO_PEERS: Final = 10005
#: "stream not found".
NO_STREAM: Final = 10059

#: An answer of the JetStream API.
Answer = dict[str, Any]


@dataclass(frozen=True)
class NatsOptions:
    """The servers, and the credentials that only nodes of the cluster have."""

    #: `nats://host:port`, without credentials.
    urls: tuple[str, ...]
    user: str
    password: str = field(repr=False)
    #: Shown in the servers' lists of connections.
    name: str = "holdfast"
    #: Seconds that an answer may take.
    timeout_s: float = 2.0
    #: Whether the first address is tried first: a node prefers its own server. Else they are tried in any order.
    in_order: bool = False
    #: Mutual TLS: a handshake comes first, so that nothing is ever sent in clear.
    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.urls:
            raise SettingsError("no NATS server is named; right would be nats://127.0.0.1:4222")
        for url in self.urls:
            if not url.startswith(("nats://", "tls://")) or "@" in url:
                raise SettingsError(
                    f"the address of a NATS server is {hide_passwords(url)}; right would be nats://host:port, with the"
                    " credentials beside it"
                )
        if self.timeout_s <= 0:
            raise SettingsError(f"the NATS timeout is {self.timeout_s} s; it has to be above 0")


class ApiError(PermanentError):
    """JetStream refused a request, and would refuse it again."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code: Final = code


class NatsConnection:
    """Requests to any of the servers."""

    def __init__(self, options: NatsOptions) -> None:
        self.options: Final = options
        self._client = Client()
        self._lost: Final = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        #: Who hears what, on every connection.
        self._subjects: Final[dict[str, Callable[[Msg], None]]] = {}
        self._on_connected: Final[list[Callable[[], None]]] = []

    @classmethod
    async def open(cls, options: NatsOptions, tasks: asyncio.TaskGroup) -> "NatsConnection":
        """Connect; `tasks` owns the task that keeps the connection.

        TransientError: no server answers. SettingsError: they refuse the credentials.
        """
        connection = cls(options)
        connection._tasks = tasks
        await connection._connect()
        connection._keeper = tasks.create_task(connection._keep())
        return connection

    async def close(self) -> None:
        """Ensures: nothing is sent any more. Requests that wait fail."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        try:
            async with asyncio.timeout(self.options.timeout_s):
                await self._client.close()
        except TimeoutError:
            _abort(self._client)

    def server_info(self) -> Answer:
        """What the server of the present connection has said of itself: `server_name`, `version`, `max_payload`, …"""
        return dict(self._client._server_info)

    # ---- requests

    async def request(self, subject: str, payload: bytes, timeout_s: float = 0.0) -> bytes:
        """The answer. TransientError: there is none; the request may have arrived, or may yet arrive.

        Without a timeout that of the options holds.
        """
        timeout_s = timeout_s or self.options.timeout_s
        try:
            answer = await self._client.request(subject, payload, timeout=timeout_s)
        except nats.errors.TimeoutError:
            self._look()
            raise TransientError(f"no answer from {subject} in {timeout_s:g} s") from None
        except _UNANSWERED as error:
            self._look()
            raise TransientError(f"no answer from {subject}: {_describe(error)}") from error
        return answer.data

    async def ask(self, call: str, body: Answer | None = None) -> Answer:
        """The answer of the JetStream API to a call such as `STREAM.INFO.name`.

        TransientError: no answer, or one that may be another one later. ApiError: it is refused.
        """
        data = await self.request(f"$JS.API.{call}", b"" if body is None else json.dumps(body).encode())
        answer = decode_answer(data)
        error = answer.get("error")
        if error is None:
            return answer
        code = int(error.get("err_code", 0))
        text = f"JetStream refuses {call}: {error.get('description')} ({code})"
        if int(error.get("code", 500)) >= 500 or code == _NO_PEERS:
            raise TransientError(text)
        raise ApiError(code, text)

    async def send(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send without an answer. TransientError: there is no connection."""
        try:
            await self._client.publish(subject, payload, reply=reply)
        except _UNANSWERED as error:
            self._look()
            raise TransientError(f"{subject} is not sent: {_describe(error)}") from error

    async def listen(self, subject: str, received: Callable[[bytes], None]) -> None:
        """Hear what comes on a subject, on this connection and every later one. TransientError: there is none now."""
        await self._hear(subject, lambda message: received(message.data))

    async def answer(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Answer the requests on a subject, several at a time. Fails as `listen` does; `answer` must not raise."""

        async def respond(message: Msg) -> None:
            try:
                await self.send(message.reply, await answer(message.data))
            except TransientError as error:
                _log.debug("an answer is not sent", subject=subject, why=str(error))

        def heard(message: Msg) -> None:
            if message.reply and self._tasks is not None:
                self._tasks.create_task(respond(message))

        await self._hear(subject, heard)

    async def _hear(self, subject: str, received: Callable[[Msg], None]) -> None:
        self._subjects[subject] = received
        await self._listen_to(self._client, subject, received)

    def on_connected(self, connected: Callable[[], None]) -> None:
        """Tell of every later connection. What was sent to a subject before it did not come."""
        self._on_connected.append(connected)

    async def _listen_to(self, client: Client, subject: str, received: Callable[[Msg], None]) -> None:
        async def heard(message: Msg) -> None:
            received(message)

        try:
            await client.subscribe(subject, cb=heard)
        except _UNANSWERED as error:
            self._look()
            raise TransientError(f"nothing is heard on {subject}: {_describe(error)}") from error

    async def subscribe(self, received: Callable[[Msg], Awaitable[None]]) -> "Inbox":
        """A subject of our own. TransientError: there is no connection."""
        client = self._client
        subject = client.new_inbox()
        try:
            subscription = await client.subscribe(subject, cb=received)
        except _UNANSWERED as error:
            self._look()
            raise TransientError(f"no inbox: {_describe(error)}") from error

        async def end() -> None:
            try:
                await subscription.unsubscribe()
            except _UNANSWERED as error:
                _log.debug("an inbox ended with its connection", why=_describe(error))

        return Inbox(subject, end)

    # ---- the client

    async def _connect(self) -> None:
        """Try every server once."""
        options = self.options
        urls = list(options.urls)
        if not options.in_order:
            random.shuffle(urls)
        refused = distrusted = ""
        for url in urls:
            client = Client()
            try:
                await self._connect_to(client, url)
            except _UNANSWERED as error:
                _log.debug("NATS server cannot be reached", url=url, why=_describe(error))
                refused = refused or _why_refused(error, options)
                distrusted = distrusted or _why_distrusted(error, url)
            else:
                self._client = client
                for subject, received in self._subjects.items():
                    await self._listen_to(client, subject, received)
                self._lost.clear()
                for connected in self._on_connected:
                    connected()
                return
        addresses = ", ".join(options.urls)
        if distrusted:
            raise SettingsError(distrusted)
        if refused:
            raise SettingsError(f"the NATS servers at {addresses} refuse {refused}")
        raise TransientError(f"no NATS server answers at {addresses}")

    async def _connect_to(self, client: Client, url: str) -> None:
        """Ensures: if it fails, the client is closed."""
        options = self.options

        async def closed() -> None:
            if client is self._client:
                self._lost.set()

        try:
            async with asyncio.timeout(options.timeout_s):
                await client.connect(
                    servers=[url],
                    user=options.user,
                    password=options.password,
                    name=options.name,
                    error_cb=self._failed,
                    closed_cb=closed,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    ping_interval=_PING_S,
                    max_outstanding_pings=_PINGS,
                    pending_size=0,
                    tls=options.tls,
                    tls_handshake_first=options.tls is not None,
                )
        except BaseException:
            await _discard(client)
            raise
        if options.tls is not None:
            _note_tls(client)

    def _look(self) -> None:
        """Leave a client that is closing: it waits until a server that hangs has taken all bytes."""
        if self._client.is_closed and not self._lost.is_set():
            _abort(self._client)
            self._lost.set()

    async def _keep(self) -> None:
        """Make a new client whenever one has lost its connection."""
        while True:
            await self._lost.wait()
            _log.warning("NATS connection lost")
            pause_s = _FIRST_PAUSE_S
            while self._lost.is_set():
                try:
                    await self._connect()
                except (TransientError, SettingsError) as error:
                    _log.warning("NATS connection failed", why=str(error), pause_s=pause_s)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _failed(self, error: Exception) -> None:
        _log.debug("NATS connection error", why=_describe(error))


class Inbox:
    """A subscription to a subject that no one else has."""

    def __init__(self, subject: str, end: Callable[[], Awaitable[None]]) -> None:
        self.subject: Final = subject
        self.close: Final = end


def decode_answer(data: bytes) -> Answer:
    """An answer in JSON. TransientError: it is none, so another program has answered."""
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise TransientError(f"a NATS server answered {data[:80]!r}, which is no JSON object")
    return answer


def _why_distrusted(error: BaseException, url: str) -> str:
    """Why this node does not talk to a server; empty if that is not the error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        shown = f"the NATS server at {url} shows a certificate that cluster.tls_ca does not cover"
        return f"{shown}: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return (
            f"the NATS server at {url} does not begin with TLS, and cluster.tls_ca is set; right would be a server with"
            " tls { verify: true, handshake_first: true }"
        )
    return ""


def _why_refused(error: BaseException, options: NatsOptions) -> str:
    """What of this node the servers do not accept; empty if that is not the error."""
    if "authorization" in str(error).lower():
        return f"user {options.user!r}"
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return f"the certificate of this node, cluster.tls_certificate: {error.reason}"
    return ""


def _note_tls(client: Client) -> None:
    """Tell asyncio that the stream is over TLS. The library does not, and the end of each would be a log line."""
    writer = getattr(client._transport, "_io_writer", None)
    if isinstance(writer, asyncio.StreamWriter):
        vars(writer.transport.get_protocol())["_over_ssl"] = True


async def _discard(client: Client) -> None:
    """Close a client that has no connection. After a handshake that failed, the library waits for its end for ever."""
    _abort(client)
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_S):
            await client.close()


def _abort(client: Client) -> None:
    """Drop the socket of a client with all that was not sent. The library has no call for that."""
    writer = getattr(client._transport, "_io_writer", None)
    if isinstance(writer, asyncio.StreamWriter):
        writer.transport.abort()


def _describe(error: BaseException) -> str:
    return hide_passwords(str(error)) or type(error).__name__
