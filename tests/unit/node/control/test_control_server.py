"""The server of the control socket: who may come in, what is answered, who is cut off."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from holdfast.control.frames import MAX_FRAME_BYTES, encode_body, encode_frame
from holdfast.control.words import (
    BAD_REQUEST,
    FAILED,
    NOT_FOUND,
    UNKNOWN_WORD,
    VERSION,
    Answer,
    Hello,
    KickRequest,
    LogLevelRequest,
    NodeInfo,
    Nothing,
    Push,
    Refusal,
    Request,
)
from holdfast.model.histogram import HistogramCounts
from holdfast.node.control.control_server import (
    MAX_CONNECTIONS,
    MAX_WAITING_BYTES,
    ControlConnection,
    ControlServer,
    RefusedRequestError,
)
from holdfast.node.control.slice_times import SliceTimes
from tests.control_peer import ControlPeer, control_peer
from tests.unit.server.harness import on_each_loop


def level(connection: ControlConnection, body: LogLevelRequest) -> msgspec.Struct:
    if body.level == "unknown":
        raise RefusedRequestError(NOT_FOUND, "there is none")
    if body.level == "bug":
        raise ZeroDivisionError
    if body.level == "push":
        connection.push("news", Nothing())
    return Nothing()


async def kick(_connection: ControlConnection, _body: KickRequest) -> msgspec.Struct:
    await asyncio.sleep(0)
    return Nothing()


def node(_connection: ControlConnection, _body: Nothing) -> msgspec.Struct:
    return NodeInfo("1" * 100_000, True, 1, 0, 0, "taking", "", "", "", ())


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[ControlServer]:
    handlers: dict[str, Any] = {"log_level": level, "kick": kick, "node": node}
    server = ControlServer("holdfast test", handlers, SliceTimes(HistogramCounts((0.1,))))
    await server.open(path)
    try:
        yield server
    finally:
        await server.close()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def until(happened: Callable[[], bool]) -> None:
    for _iteration in range(10_000):
        if happened():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


@pytest.fixture
def path() -> Any:
    """Short, whatever pytest calls its folders."""
    made = Path(f"/tmp/holdfast-test-{os.getpid()}-{os.urandom(4).hex()}.sock")
    yield made
    assert not made.exists(), "the socket was left behind"


@on_each_loop
async def test_a_request_is_answered_and_the_socket_is_removed_at_the_end(path: Path) -> None:
    async with serving(path):
        async with control_peer(path, hello=False) as peer:
            hello = await peer.hello()
            assert hello.words == ("log_level", "kick", "node")
            assert hello.version == VERSION
            assert await peer.answer("log_level", LogLevelRequest("info"), Nothing) == Nothing()
            assert isinstance(await peer.ask("kick", KickRequest("a")), Answer)
        assert mode_of(path) == 0o600


@on_each_loop
async def test_refusals_say_why_and_the_connection_goes_on(path: Path) -> None:
    async with serving(path), control_peer(path) as peer:
        assert (await peer.refusal("log_level", LogLevelRequest("unknown"))).code == NOT_FOUND
        assert (await peer.refusal("log_level", LogLevelRequest("bug"))).code == FAILED
        assert (await peer.refusal("log_level", Nothing())).code == BAD_REQUEST
        unknown = await peer.refusal("sing", Nothing())
        assert unknown.code == UNKNOWN_WORD
        assert "'sing'" in unknown.detail
        assert isinstance(await peer.ask("log_level", LogLevelRequest("info")), Answer)


@on_each_loop
async def test_pushes_come_between_answers(path: Path) -> None:
    async with serving(path), control_peer(path) as peer:
        await peer.ask("log_level", LogLevelRequest("push"))
        assert peer.pushes == [Push("news", encode_body(Nothing()))]


@on_each_loop
@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
        (1 << 30).to_bytes(4, "big"),
        (3).to_bytes(4, "big") + b"\x00\x01\x02",
        encode_frame(Push("stats", encode_body(Nothing()))),
        encode_frame(Refusal(1, "a", "b")),
    ],
)
async def test_what_is_no_word_of_a_client_ends_its_connection_and_no_other(path: Path, data: bytes) -> None:
    async with serving(path), control_peer(path) as other, control_peer(path) as peer:
        peer.writer.write(data)
        assert await peer.is_ended()
        assert isinstance(await other.ask("log_level", LogLevelRequest("info")), Answer)


@on_each_loop
async def test_a_request_before_hello_ends_the_connection(path: Path) -> None:
    async with serving(path), control_peer(path, hello=False) as peer:
        peer.say(Request(1, "log_level", encode_body(LogLevelRequest("info"))))
        assert await peer.is_ended()


@on_each_loop
async def test_half_frames_wait_for_their_rest(path: Path) -> None:
    frame = encode_frame(Request(1, "log_level", encode_body(LogLevelRequest("info"))))
    async with serving(path), control_peer(path) as peer:
        for at in range(len(frame)):
            peer.writer.write(frame[at : at + 1])
            await peer.writer.drain()
        assert await peer.next_word() == Answer(1, encode_body(Nothing()))


@on_each_loop
@pytest.mark.parametrize(("version", "oldest", "understood"), [(9, 1, True), (9, 2, False), (0, 0, False)])
async def test_versions_need_one_in_common(path: Path, version: int, oldest: int, understood: bool) -> None:
    async with serving(path), control_peer(path, hello=False) as peer:
        hello = await peer.hello(version, oldest)
        assert hello.product == "holdfast test", "who does not understand is told all the same"
        if understood:
            assert isinstance(await peer.ask("log_level", LogLevelRequest("info")), Answer)
        else:
            assert await peer.next_word() is None


@on_each_loop
async def test_a_second_hello_ends_the_connection(path: Path) -> None:
    async with serving(path), control_peer(path) as peer:
        peer.say(Hello(1, 1, "again"))
        assert await peer.is_ended()


@on_each_loop
async def test_a_peer_that_does_not_read_is_cut_off(path: Path) -> None:
    async with serving(path) as server, control_peer(path) as peer:
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        (connection,) = server._connections
        most = 0
        for number in range(200):
            peer.say(Request(number, "node", encode_body(Nothing())))
        while not connection.cut_off:
            most = max(most, connection.waiting_bytes())
            await asyncio.sleep(0)
        assert most <= MAX_WAITING_BYTES + MAX_FRAME_BYTES
        await until(lambda: not server._connections)


@on_each_loop
async def test_only_so_many_may_connect_and_a_place_becomes_free(path: Path) -> None:
    async with serving(path) as server, AsyncExitStack() as stack:
        peers: list[ControlPeer] = [
            await stack.enter_async_context(control_peer(path)) for _number in range(MAX_CONNECTIONS)
        ]
        async with control_peer(path, hello=False) as one_more:
            assert await one_more.is_ended()
        peers[0].writer.close()
        await until(lambda: len(server._connections) < MAX_CONNECTIONS)
        async with control_peer(path) as next_one:
            assert isinstance(await next_one.ask("log_level", LogLevelRequest("info")), Answer)


@on_each_loop
async def test_peers_that_are_turned_away_are_logged_once_a_minute(path: Path) -> None:
    with structlog.testing.capture_logs() as lines:
        async with serving(path):
            for _time in range(5):
                async with control_peer(path, hello=False) as peer:
                    peer.writer.write(b"\xff" * 100)
                    assert await peer.is_ended()
    assert [line["event"] for line in lines] == ["control connection ended"]


@on_each_loop
async def test_the_socket_of_a_killed_process_is_replaced(path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.listen()
    left.close()
    async with serving(path), control_peer(path) as peer:
        assert isinstance(await peer.ask("log_level", LogLevelRequest("info")), Answer)


@on_each_loop
async def test_a_socket_that_is_served_is_not_replaced(path: Path) -> None:
    async with serving(path):
        with pytest.raises(OSError, match="another process serves"):
            async with serving(path):
                pass
        async with control_peer(path) as peer:
            assert isinstance(await peer.ask("log_level", LogLevelRequest("info")), Answer)


@on_each_loop
async def test_a_file_that_is_no_socket_stays(path: Path) -> None:
    file = open(path, "w+")  # noqa: ASYNC230, SIM115
    with file, pytest.raises(OSError, match="no socket"):
        async with serving(path):
            pass
    os.unlink(path)  # it is still there


@on_each_loop
async def test_another_user_is_turned_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.node.control.control_server.peer_uid", lambda _peer: os.getuid() + 1)
    async with serving(path), control_peer(path, hello=False) as peer:
        assert await peer.next_word() is None
