"""One connection to a server that says what a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.cluster.nats import link as nats_link
from holdfast.cluster.nats.link import NatsLink
from holdfast.cluster.nats.protocol import NatsMessage
from holdfast.model.errors import PermanentError, TransientError

LOGIN = {"user": "node", "pass": "secret"}
INFO = b'INFO {"server_name": "one", "max_payload": 8388608}\r\n'


class FakeTransport:
    """Takes what is written, and knows whether it was dropped."""

    def __init__(self) -> None:
        self.written = b""
        self.writes = 0
        self.waiting_bytes = 0
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data
        self.writes += 1

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def get_extra_info(self, _name: str) -> object:
        return None

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.aborted = True


class Scene:
    """A link to a server, let in if a test does not say otherwise."""

    def __init__(self, ping_s: float) -> None:
        self.link = NatsLink(asyncio.get_running_loop(), "_INBOX.x", LOGIN, ping_s=ping_s)
        self.transport = FakeTransport()
        self.link.connection_made(self.transport)
        self.answers: list[bytes | None] = []
        self.ends: list[str] = []
        self.ended = asyncio.Event()
        self.answered = asyncio.Event()

    def let_in(self) -> None:
        self.link.data_received(INFO)
        self.link.data_received(b"PONG\r\n")
        self.link.lost = self.lose

    def lose(self, why: str) -> None:
        self.ends.append(why)
        self.ended.set()

    def ask(self, timeout_s: float = 60.0) -> None:
        def answered(message: NatsMessage | None) -> None:
            self.answers.append(None if message is None else message.data)
            self.answered.set()

        self.link.request(b"subject", b"question", timeout_s, answered)

    async def sent(self) -> bytes:
        await asyncio.sleep(0)
        written, self.transport.written = self.transport.written, b""
        return written


def run(act: Callable[[Scene], Awaitable[None]], *, let_in: bool = True, ping_s: float = 60.0) -> None:
    async def play() -> None:
        scene = Scene(ping_s)
        if let_in:
            scene.let_in()
            await scene.sent()
        await act(scene)
        scene.link.abort("the test is over")
        if scene.link.ready.done():
            scene.link.ready.exception()

    asyncio.run(play())


def test_credentials_follow_the_greeting_and_the_first_pong_lets_in() -> None:
    async def act(scene: Scene) -> None:
        assert await scene.sent() == b""
        scene.link.data_received(INFO)
        connect, _end, ping = (await scene.sent()).partition(b"\r\n")
        assert json.loads(connect.removeprefix(b"CONNECT ")) == LOGIN
        assert ping == b"PING\r\n"
        assert not scene.link.ready.done()
        scene.link.data_received(b"PONG\r\n")
        await scene.link.ready
        assert await scene.sent() == b"SUB _INBOX.x.* 1\r\n"
        assert scene.link.info["server_name"] == "one"

    run(act, let_in=False)


def test_a_server_that_wants_tls_is_sent_no_password() -> None:
    async def act(scene: Scene) -> None:
        scene.link.data_received(b'INFO {"tls_required": true}\r\n')
        with pytest.raises(TransientError, match="wants TLS"):
            await scene.link.ready
        assert b"secret" not in await scene.sent()

    run(act, let_in=False)


@pytest.mark.parametrize("info", [b"INFO [1]\r\n", b"INFO {\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_what_is_no_nats_server_is_left(info: bytes) -> None:
    async def act(scene: Scene) -> None:
        scene.link.data_received(info)
        with pytest.raises(TransientError):
            await scene.link.ready
        assert scene.transport.aborted

    run(act, let_in=False)


def test_a_refusal_is_the_reason_why_it_is_not_ready() -> None:
    async def act(scene: Scene) -> None:
        scene.link.data_received(INFO)
        scene.link.data_received(b"-ERR 'Authorization Violation'\r\n")
        with pytest.raises(PermanentError, match="Authorization Violation"):
            await scene.link.ready

    run(act, let_in=False)


def test_what_is_sent_at_once_leaves_with_one_write() -> None:
    async def act(scene: Scene) -> None:
        before = scene.transport.writes
        scene.link.publish(b"a", b"1")
        scene.link.publish(b"b", b"2", b"reply")
        assert await scene.sent() == b"PUB a 1\r\n1\r\nPUB b reply 1\r\n2\r\n"
        assert scene.transport.writes == before + 1

    run(act)


def test_a_request_is_answered_once_by_its_number() -> None:
    async def act(scene: Scene) -> None:
        scene.ask()
        scene.ask()
        assert await scene.sent() == (
            b"PUB subject _INBOX.x.1 8\r\nquestion\r\nPUB subject _INBOX.x.2 8\r\nquestion\r\n"
        )
        scene.link.data_received(b"MSG _INBOX.x.2 1 3\r\ntwo\r\nMSG _INBOX.x.2 1 3\r\ntwo\r\n")
        scene.link.data_received(b"MSG _INBOX.x.1 1 3\r\none\r\nMSG _INBOX.x.what 1 1\r\n?\r\n")
        assert scene.answers == [b"two", b"one"]

    run(act)


def test_a_request_that_no_one_hears_is_answered_with_nothing_at_once() -> None:
    async def act(scene: Scene) -> None:
        scene.ask()
        status = b"NATS/1.0 503\r\n\r\n"
        scene.link.data_received(b"HMSG _INBOX.x.1 1 %d %d\r\n%b\r\n" % (len(status), len(status), status))
        assert scene.answers == [None]

    run(act)


def test_a_request_without_an_answer_ends_with_its_time() -> None:
    async def act(scene: Scene) -> None:
        scene.ask(0.0)
        await scene.answered.wait()
        scene.link.data_received(b"MSG _INBOX.x.1 1 3\r\none\r\n")
        assert scene.answers == [None]

    run(act)


def test_a_lost_connection_answers_all_that_wait_before_it_tells() -> None:
    async def act(scene: Scene) -> None:
        scene.ask()
        scene.link.lost = lambda why: scene.ends.append(f"{why}, {len(scene.answers)} answered")
        scene.link.connection_lost(None)
        scene.link.connection_lost(None)
        assert scene.answers == [None]
        assert scene.ends == ["the server has closed it, 1 answered"]
        with pytest.raises(TransientError, match="the connection is lost"):
            scene.link.publish(b"a", b"1")
        with pytest.raises(TransientError, match="the connection is lost"):
            scene.link.subscribe(b"a", lambda _message: None)

    run(act)


def test_a_server_that_answers_no_pings_is_left() -> None:
    async def act(scene: Scene) -> None:
        scene.let_in()
        async with asyncio.timeout(30):
            await scene.ended.wait()
        assert scene.ends == ["the server does not answer 2 pings"]
        assert scene.transport.aborted

    run(act, let_in=False, ping_s=0.0)


def test_pings_of_a_server_are_answered() -> None:
    async def act(scene: Scene) -> None:
        scene.link.data_received(b"PING\r\n")
        assert await scene.sent() == b"PONG\r\n"

    run(act)


def test_a_server_that_takes_nothing_is_sent_nothing_more() -> None:
    async def act(scene: Scene) -> None:
        scene.transport.waiting_bytes = nats_link.MAX_UNSENT_BYTES
        with pytest.raises(TransientError, match="has not taken"):
            scene.link.publish(b"a", b"1")
        with pytest.raises(TransientError, match="has not taken"):
            scene.ask()
        assert scene.answers == []

    run(act)


def test_a_complaint_about_rights_does_not_end_the_connection_and_others_do() -> None:
    async def act(scene: Scene) -> None:
        scene.link.data_received(b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n")
        assert not scene.ends
        scene.link.data_received(b"-ERR 'Maximum Payload Violation'\r\n")
        assert scene.ends == ["the server says: Maximum Payload Violation"]

    run(act)


def test_messages_go_to_their_subscription_until_it_ends() -> None:
    async def act(scene: Scene) -> None:
        found: list[Any] = []
        sid = scene.link.subscribe(b"a", lambda message: found.append(message.data))
        assert await scene.sent() == b"SUB a 2\r\n"
        scene.link.data_received(b"MSG a 2 1\r\n1\r\nMSG a 7 1\r\n?\r\n")
        scene.link.unsubscribe(sid)
        scene.link.data_received(b"MSG a 2 1\r\n2\r\n")
        assert found == [b"1"]
        assert await scene.sent() == b"UNSUB 2\r\n"

    run(act)
