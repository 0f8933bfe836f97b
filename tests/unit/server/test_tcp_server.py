"""Our own way with TCP: what is particular to it. The rules of byte streams are tested in `test_stream`."""

import asyncio
import errno
import select
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.broker.connections.origin import Origin
from holdfast.exchange.client import Channel, Link
from holdfast.server import tcp_server
from holdfast.server.listener_connections import ListenerConnections
from holdfast.server.sockets import listen
from holdfast.server.tcp_link import TcpLink
from holdfast.server.tcp_server import TcpServer
from tests.unit.server.harness import RecordingHandler, Visit, dialled, echo, listening, on_each_loop, spec

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(not tcp_server.AVAILABLE, reason="no epoll: this needs Linux"),
]

#: More than both sockets' buffers hold together.
FLOOD = bytes(32 * 1024 * 1024)


@asynccontextmanager
async def serving(handler: RecordingHandler, kind: type[socket.socket] = socket.socket) -> AsyncIterator[TcpServer]:
    """A server that is never closed by a listener."""
    (sock,) = await listen("127.0.0.1", 0)
    server = TcpServer(kind(fileno=sock.detach()), ListenerConnections(handler, spec()))
    server._sock.setblocking(False)
    try:
        yield server
    finally:
        server.close()
        await server.connections.close(0)
    assert server.epoll.closed


def call(server: TcpServer) -> socket.socket:
    return socket.create_connection(server._sock.getsockname())


class TurnGate(RecordingHandler):
    """Writes down in which turns of the loop connections and bytes came."""

    def __init__(self) -> None:
        super().__init__(lambda visit, data: self.received_in.append(self.turn))
        self.turn = 0
        self.opened_in: list[int] = []
        self.received_in: list[int] = []

    def opened(self, link: Link, origin: Origin) -> Channel:
        self.opened_in.append(self.turn)
        return super().opened(link, origin)


@on_each_loop
async def test_one_turn_of_the_loop_takes_in_a_crowd_with_its_first_bytes() -> None:
    handler = TurnGate()
    async with serving(handler) as server:
        peers = [call(server) for _ in range(50)]
        for peer in peers:
            peer.send(b"hello")
        while len(handler.received_in) < len(peers):
            handler.turn += 1
            await asyncio.sleep(0)
        assert handler.opened_in == handler.received_in
        assert len(set(handler.received_in)) == 1
        for peer in peers:
            peer.close()


@on_each_loop
async def test_a_reset_while_reading_is_paused_does_not_keep_the_loop_busy_and_shows_later() -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    async with serving(handler) as server:
        with call(server) as peer:
            peer.send(b"first")
            visit = await handler.visit()
            await visit.until_received(b"first")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert server.epoll.poll(0) == []
        assert not visit.lost
        visit.link.resume_reading()
        await visit.until_lost()


@on_each_loop
async def test_what_was_sent_before_a_pause_and_an_end_is_handed_over_after_it() -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    async with serving(handler) as server:
        with call(server) as peer:
            peer.send(b"first")
            visit = await handler.visit()
            await visit.until_received(b"first")
            peer.send(b"second")
        visit.link.resume_reading()
        await visit.until_received(b"firstsecond")
        visit.link.resume_reading()
        await visit.until_lost()


@on_each_loop
async def test_a_peer_that_has_said_everything_still_hears_the_rest() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec()) as listeners, dialled(listeners) as (reader, writer):
        visit = await handler.visit()
        visit.link.write(FLOOD)
        writer.write_eof()
        assert len(await reader.read()) == len(FLOOD)
        await visit.until_lost()


@on_each_loop
async def test_lost_is_told_from_the_loop_and_not_from_inside_a_write() -> None:
    handler = RecordingHandler()
    async with serving(handler) as server:
        with call(server) as peer:
            visit = await handler.visit()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        visit.link.write(b"into the void")
        visit.link.write(b"into the void")
        assert not visit.lost
        await visit.until_lost()


@on_each_loop
async def test_a_gate_that_fails_for_one_connection_costs_that_one_only() -> None:
    def fail(visit: Visit, data: bytes) -> None:
        if data == b"fail":
            raise RuntimeError("our own fault")
        echo(visit, data)

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    handler = RecordingHandler(fail)
    async with (
        listening(handler, spec()) as listeners,
        dialled(listeners) as (reader, writer),
        dialled(listeners) as (other_reader, other_writer),
    ):
        writer.write(b"fail")
        assert await reader.read() == b""
        other_writer.write(b"hello")
        assert await other_reader.readexactly(5) == b"hello"
    assert [str(error) for error in reported] == ["our own fault"]


class Exhausted(socket.socket):
    """A listening socket in a process without free file descriptors, once."""

    failures = 0

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if Exhausted.failures == 0:
            Exhausted.failures = 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@on_each_loop
async def test_accepting_pauses_when_there_are_no_file_descriptors_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp_server, "PAUSE_S", 0)
    monkeypatch.setattr(Exhausted, "failures", 0)
    handler = RecordingHandler(echo)
    async with serving(handler, Exhausted) as server:
        with call(server) as peer:
            await handler.visit()
            assert Exhausted.failures == 1
            peer.close()


@on_each_loop
async def test_a_server_that_is_closed_during_the_pause_accepts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exhausted, "failures", 0)
    handler = RecordingHandler()
    async with serving(handler, Exhausted) as server:
        with call(server):
            while server._pause is None:
                assert handler.visits == []
                await asyncio.sleep(0)
            pause = server._pause
    assert pause.cancelled()
    assert handler.visits == []


@on_each_loop
async def test_links_live_on_when_their_server_stops_accepting() -> None:
    handler = RecordingHandler(echo)
    (sock,) = await listen("127.0.0.1", 0)
    server = TcpServer(sock, ListenerConnections(handler, spec()))
    with call(server) as peer:
        visit = await handler.visit()
        server.close()
        peer.send(b"still here")
        await visit.until_received(b"still here")
        assert not server.epoll.closed
    await visit.until_lost()
    assert server.epoll.closed


@on_each_loop
async def test_links_that_take_too_long_to_end_are_cut_off_one_after_the_other() -> None:
    handler = RecordingHandler()
    (sock,) = await listen("127.0.0.1", 0)
    server = TcpServer(sock, ListenerConnections(handler, spec(), close_deadline_s=0.01))
    with call(server), call(server):
        visits = [await handler.visit(0), await handler.visit(1)]
        visits[0].link.close()
        link = visits[1].link
        assert isinstance(link, TcpLink)
        # Much later, so that the timer of the first one finds it too early.
        server._endings[link] = asyncio.get_running_loop().time() + 3600
        link.close()
        await visits[0].until_lost()
        assert not visits[1].lost
        assert server._cutter is not None
        link.abort()
        await visits[1].until_lost()
    server.close()
    assert server.epoll.closed


def wait_for_end(visit: Visit) -> None:
    """Until the end of the peer's side has arrived, which nobody reads."""
    assert isinstance(visit.link, TcpLink)
    select.select([visit.link._fd], [], [])


@on_each_loop
async def test_a_peer_that_has_closed_its_side_is_closed_at_once_and_hears_the_last_words() -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    async with serving(handler) as server:
        with call(server) as peer:
            peer.send(b"goodbye")
            visit = await handler.visit()
            await visit.until_received(b"goodbye")
            peer.shutdown(socket.SHUT_WR)
            wait_for_end(visit)
            visit.link.write(b"last words")
            visit.link.close()
            assert len(server) == 0
            assert visit.lost == 0  # it is told from the loop
            await visit.until_lost()
            assert peer.recv(100) == b"last words"
            assert peer.recv(100) == b""
        visit.link.close()
        assert [one.lost for one in handler.visits] == [1]
        assert server._endings == {}


@on_each_loop
async def test_a_peer_that_has_closed_its_side_still_hears_what_the_kernel_had_no_room_for() -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    async with serving(handler) as server:
        peer = call(server)
        peer.send(b"goodbye")
        visit = await handler.visit()
        await visit.until_received(b"goodbye")
        peer.shutdown(socket.SHUT_WR)
        wait_for_end(visit)
        visit.link.write(FLOOD)
        visit.link.close()
        reader, writer = await asyncio.open_connection(sock=peer)
        assert len(await reader.read()) == len(FLOOD)
        await visit.until_lost()
        assert visit.lost == 1
        writer.close()


@on_each_loop
async def test_a_peer_that_has_not_closed_its_side_is_waited_for() -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    async with serving(handler) as server:
        with call(server) as peer:
            peer.send(b"goodbye")
            visit = await handler.visit()
            await visit.until_received(b"goodbye")
            peer.send(b"and more")
            visit.link.write(b"last words")
            visit.link.close()
            assert len(server) == 1
            assert peer.recv(100) == b"last words"
            assert peer.recv(100) == b""
            assert visit.lost == 0
        await visit.until_lost()
        assert [one.lost for one in handler.visits] == [1]


@on_each_loop
async def test_a_handler_that_fails_to_hear_of_a_loss_does_not_keep_it_from_the_next() -> None:
    class Failing(RecordingHandler):
        def lost(self, channel: Channel) -> None:
            super().lost(channel)
            if channel.number == 0:
                raise RuntimeError("our own fault")

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    handler = Failing()
    async with serving(handler) as server:
        with call(server) as first, call(server) as second:
            visits = [await handler.visit(0), await handler.visit(1)]
            for peer in (first, second):
                peer.shutdown(socket.SHUT_WR)
            for visit in visits:
                wait_for_end(visit)
                visit.link.close()
            for visit in visits:
                await visit.until_lost()
        assert [visit.lost for visit in visits] == [1, 1]
    assert [str(error) for error in reported] == ["our own fault"]
