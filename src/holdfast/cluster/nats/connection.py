"""A connection to the NATS servers: requests and their answers.

1. A link is one connection to one server. When that is lost another one is made, to the next server.
2. Nothing is buffered while there is no link: the caller would have sent it again long before it left.
3. Without an answer: TransientError.
4. Log lines name addresses and never credentials.
"""

import asyncio
import json
import random
import secrets
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

import structlog

from holdfast.cluster.nats.link import NatsLink, Received
from holdfast.cluster.nats.protocol import NatsMessage
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.model.passwords import hide_passwords

_log = structlog.get_logger()

#: Seconds before all servers are tried again: the first pause, and the longest.
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
#: Where a server listens if its address does not say so.
_PORT: Final = 4222

#: "no suitable peers for placement": 400, though it passes when a server comes back.
_NO_PEERS: Final = 10005
#: "stream not found".
NO_STREAM: Final = 10059

#: An answer of the JetStream API.
Answer = dict[str, Any]
#: Called with what was answered, or with why nothing was.
Replied = Callable[[bytes | TransientError], None]


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
        #: None while there is no connection.
        self._link: NatsLink | None = None
        self._lost: Final = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        #: Who hears what, on every link.
        self._subjects: Final[dict[str, Received]] = {}
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
        link, self._link = self._link, None
        if link is None:
            return
        ended = asyncio.get_running_loop().create_future()
        link.lost = lambda _why: None if ended.done() else ended.set_result(None)
        link.close()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                await ended
        except TimeoutError:
            link.abort("it was closed, and the server does not take what is left")

    def server_info(self) -> Answer:
        """What the server of the present connection has said of itself: `server_name`, `version`, `max_payload`, …"""
        return {} if self._link is None else dict(self._link.info)

    # ---- requests

    def post(self, subject: str, payload: bytes, replied: Replied, timeout_s: float = 0.0) -> None:
        """Ask; `replied` is called once, on the loop, never inside this call.

        Without an answer the request may have arrived, or may yet arrive. Without a timeout that of the options holds.
        """
        timeout_s = timeout_s or self.options.timeout_s

        def answered(message: NatsMessage | None) -> None:
            if message is not None:
                replied(message.data)
            elif link.end:
                replied(TransientError(f"no answer from {subject}: {link.end}"))
            else:
                replied(TransientError(f"no answer from {subject} in {timeout_s:g} s"))

        try:
            link = self._present_link()
            link.request(subject.encode(), payload, timeout_s, answered)
        except TransientError as error:
            unsent = TransientError(f"no answer from {subject}: {error}")
            asyncio.get_running_loop().call_soon(replied, unsent)

    async def request(self, subject: str, payload: bytes, timeout_s: float = 0.0) -> bytes:
        """The answer. TransientError: there is none; the request may have arrived, or may yet arrive.

        Without a timeout that of the options holds.
        """
        reply: asyncio.Future[bytes | TransientError] = asyncio.get_running_loop().create_future()
        self.post(subject, payload, lambda found: None if reply.done() else reply.set_result(found), timeout_s)
        found = await reply
        if isinstance(found, TransientError):
            raise found
        return found

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

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send without an answer. TransientError: there is no connection."""
        try:
            self._present_link().publish(subject.encode(), payload, reply.encode())
        except TransientError as error:
            raise TransientError(f"{subject} is not sent: {error}") from error

    async def listen(self, subject: str, received: Callable[[bytes], None]) -> None:
        """Hear what comes on a subject, on this connection and every later one. There need be none now."""
        self._hear(subject, lambda message: received(message.data))

    async def answer(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Answer the requests on a subject, several at a time, as `listen` hears them. `answer` must not raise."""

        async def respond(message: NatsMessage) -> None:
            try:
                self.publish(message.reply.decode(), await answer(message.data))
            except TransientError as error:
                _log.debug("an answer is not sent", subject=subject, why=str(error))

        def heard(message: NatsMessage) -> None:
            if message.reply and self._tasks is not None:
                self._tasks.create_task(respond(message))

        self._hear(subject, heard)

    def _hear(self, subject: str, received: Received) -> None:
        self._subjects[subject] = received
        if self._link is not None and not self._link.end:
            self._link.subscribe(subject.encode(), received)

    def on_connected(self, connected: Callable[[], None]) -> None:
        """Tell of every later connection. What was sent to a subject before it did not come."""
        self._on_connected.append(connected)

    async def subscribe(self, received: Received) -> "Inbox":
        """A subject of our own, for as long as this link lasts. TransientError: there is no connection."""
        link = self._present_link()
        subject = _new_inbox()
        sid = link.subscribe(subject.encode(), received)
        return Inbox(subject, lambda: link.unsubscribe(sid))

    # ---- the link

    def _present_link(self) -> NatsLink:
        if self._link is None or self._link.end:
            raise TransientError("there is no connection to a NATS server")
        return self._link

    async def _connect(self) -> None:
        """Try every server once."""
        options = self.options
        urls = list(options.urls)
        if not options.in_order:
            random.shuffle(urls)
        refused = distrusted = ""
        for url in urls:
            try:
                link = await self._connect_to(url)
            except (OSError, TimeoutError, TransientError, PermanentError) as error:
                _log.debug("NATS server cannot be reached", url=url, why=_describe(error))
                refused = refused or _why_refused(error, options)
                distrusted = distrusted or _why_distrusted(error, url)
            else:
                self._use(link)
                return
        addresses = ", ".join(options.urls)
        if distrusted:
            raise SettingsError(distrusted)
        if refused:
            raise SettingsError(f"the NATS servers at {addresses} refuse {refused}")
        raise TransientError(f"no NATS server answers at {addresses}")

    def _use(self, link: NatsLink) -> None:
        def lost(why: str) -> None:
            if self._link is link:
                _log.warning("NATS connection lost", why=hide_passwords(why))
                self._link = None
                self._lost.set()

        self._link = link
        self._lost.clear()
        link.lost = lost
        for subject, received in self._subjects.items():
            link.subscribe(subject.encode(), received)
        for connected in self._on_connected:
            connected()

    async def _connect_to(self, url: str) -> NatsLink:
        """A link that is ready. Ensures: if it fails, nothing of it is left."""
        options, loop = self.options, asyncio.get_running_loop()
        login = {
            "user": options.user,
            "pass": options.password,
            "name": options.name,
            "lang": "python",
            "version": "1",
            "protocol": 1,
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
        }
        link = NatsLink(loop, _new_inbox(), login)
        address = urlsplit(url)
        try:
            async with asyncio.timeout(options.timeout_s):
                await loop.create_connection(
                    lambda: cast(asyncio.Protocol, link), address.hostname or "", address.port or _PORT, ssl=options.tls
                )
                await link.ready
        except BaseException:
            link.abort("it was not opened")
            if link.ready.done() and not link.ready.cancelled():
                link.ready.exception()  # it has been looked at
            raise
        return link

    async def _keep(self) -> None:
        """Make a new link whenever one is lost."""
        while True:
            await self._lost.wait()
            pause_s = _FIRST_PAUSE_S
            while self._lost.is_set():
                try:
                    await self._connect()
                except (TransientError, SettingsError) as error:
                    _log.warning("NATS connection failed", why=str(error), pause_s=pause_s)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class Inbox:
    """A subscription to a subject that no one else has."""

    def __init__(self, subject: str, close: Callable[[], None]) -> None:
        self.subject: Final = subject
        self.close: Final = close


def _new_inbox() -> str:
    return f"_INBOX.{secrets.token_hex(11)}"


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


def _describe(error: BaseException) -> str:
    return hide_passwords(str(error)) or type(error).__name__
