"""Byte streams: what the handler hears of them, and how they end."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from holdfast.broker.connections.origin import Origin
from holdfast.exchange.client import Link
from holdfast.server import tcp_server
from holdfast.server.listener_connections import HIGH_WATER_BYTES, LOW_WATER_BYTES, ListenerConnections
from holdfast.server.sockets import listen
from holdfast.server.stream import SocketLink
from holdfast.server.tcp_link import TcpLink
from holdfast.server.tcp_server import TcpServer
from tests.unit.server.harness import RecordingHandler, Visit, dialled, echo, listening, on_each_loop, spec, until_gone

#: More than both sockets' buffers and the marks hold together.
FLOOD = bytes(32 * 1024 * 1024)


@pytest.fixture(autouse=True, params=["own", "of the loop"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule of byte streams holds for our own links and for those on the loop's transports."""
    if request.param == "of the loop":
        monkeypatch.setattr(tcp_server, "AVAILABLE", False)
    elif not tcp_server.AVAILABLE:
        pytest.skip("no epoll: this needs Linux")


def held_bytes(link: Link) -> int:
    """What waits for the peer to read."""
    if isinstance(link, TcpLink):
        return 0 if link._backlog is None else link._backlog.size_bytes
    assert isinstance(link, SocketLink)
    return link._transport.get_write_buffer_size()


@on_each_loop
async def test_bytes_go_both_ways_and_the_gate_knows_where_they_come_from() -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(mount_point="plant/", allow_anonymous=True)) as listeners:
        async with dialled(listeners) as (reader, writer):
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            visit = await handler.visit()
            await visit.until_received(b"hello")
            own = writer.get_extra_info("sockname")
        await visit.until_lost()
    assert (visit.origin.address, visit.origin.port) == own
    assert visit.origin.listener == "main"
    assert visit.origin.transport == "tcp"
    assert visit.origin.mount_point == "plant/"
    assert visit.origin.allow_anonymous
    assert visit.origin.tls_subject is None
    assert visit.lost == 1


@on_each_loop
async def test_small_writes_are_not_delayed_by_the_kernel() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec()) as listeners, dialled(listeners):
        link = (await handler.visit()).link
        if isinstance(link, TcpLink):
            fd = link._fd
        else:
            assert isinstance(link, SocketLink)
            fd = link._transport.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(fd)) as sock:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@on_each_loop
async def test_close_sends_everything_that_was_written_first() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec()) as listeners, dialled(listeners) as (reader, _):
        visit = await handler.visit()
        visit.link.write(FLOOD)
        visit.link.close()
        visit.link.write(b"too late")
        assert len(await reader.read()) == len(FLOOD)
    assert visit.lost == 1


@on_each_loop
@pytest.mark.parametrize("paused", [False, True])
async def test_the_last_words_reach_a_client_that_keeps_sending(paused: bool) -> None:
    def refuse(visit: Visit, data: bytes) -> None:
        if paused:
            visit.link.pause_reading()
        visit.link.write(b"go away")
        visit.link.close()

    handler = RecordingHandler(refuse)
    async with listening(handler, spec()) as listeners, dialled(listeners) as (reader, writer):
        writer.write(FLOOD)
        assert await reader.read() == b"go away"
        await writer.drain()
        visit = await handler.visit()
        assert not visit.lost
        writer.close()
        await visit.until_lost()
    assert len(visit.pieces) == 1


@on_each_loop
async def test_nothing_is_handed_over_between_pause_and_resume() -> None:
    def pause(visit: Visit, data: bytes) -> None:
        if data == b"first":
            visit.link.pause_reading()
            visit.link.pause_reading()

    handler = RecordingHandler(lambda visit, data: echo(visit, data) if data == b"ping" else pause(visit, data))
    async with (
        listening(handler, spec()) as listeners,
        dialled(listeners) as (_, writer),
        dialled(listeners) as (other_reader, other_writer),
    ):
        writer.write(b"first")
        visit = await handler.visit()
        await visit.until(lambda: bool(visit.received))
        writer.write(b"second")
        # Round trips of another connection prove that the loop has looked at all sockets since.
        for _ in range(3):
            other_writer.write(b"ping")
            await other_reader.readexactly(4)
        assert visit.received == b"first"
        visit.link.resume_reading()
        visit.link.resume_reading()
        await visit.until_received(b"firstsecond")


@on_each_loop
async def test_a_peer_that_never_reads_stops_the_gate_and_memory_stays_within_the_marks() -> None:
    handler = RecordingHandler()
    piece = bytes(16 * 1024)
    async with listening(handler, spec()) as listeners, dialled(listeners, limit=1024) as (reader, _):
        visit = await handler.visit()
        link = visit.link
        sent = 0
        while visit.writable:
            link.write(piece)
            sent += len(piece)
            await asyncio.sleep(0)
        held = held_bytes(link)
        assert HIGH_WATER_BYTES < held <= HIGH_WATER_BYTES + len(piece)
        got = 0
        while not visit.writable:
            got += len(await reader.read(65536))
        assert held_bytes(link) <= LOW_WATER_BYTES
        link.close()
        assert got + len(await reader.read()) == sent


@on_each_loop
async def test_calls_on_a_lost_connection_do_nothing() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec()) as listeners:
        async with dialled(listeners):
            visit = await handler.visit()
        await visit.until_lost()
        for call in (visit.link.pause_reading, visit.link.resume_reading, visit.link.close, visit.link.close):
            call()
        for _ in range(10):
            visit.link.write(b"into the void")
        assert visit.lost == 1
        assert listeners.connections["main"].links == set()


@asynccontextmanager
async def impatient(handler: RecordingHandler) -> AsyncIterator[tuple[ListenerConnections, socket.socket]]:
    """An connections that waits no time for a peer to end, and a peer that does nothing by itself."""
    connections = ListenerConnections(handler, spec(), close_deadline_s=0.01)
    (sock,) = await listen("127.0.0.1", 0)
    address = sock.getsockname()
    server: TcpServer | asyncio.Server
    if tcp_server.AVAILABLE:
        server = TcpServer(sock, connections)
    else:
        server = await asyncio.get_running_loop().create_server(lambda: SocketLink(connections), sock=sock)
    with socket.create_connection(address) as peer:
        yield connections, peer
        server.close()
        await connections.close(0)


@on_each_loop
async def test_calls_after_a_reset_that_was_not_noticed_yet_do_nothing() -> None:
    handler = RecordingHandler()
    async with impatient(handler) as (_, peer):
        visit = await handler.visit()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        visit.link.close()
        visit.link.pause_reading()
        visit.link.resume_reading()
        visit.link.write(b"into the void")
        await visit.until_lost()
    assert visit.lost == 1


@on_each_loop
async def test_a_peer_that_neither_reads_nor_closes_is_cut_off() -> None:
    handler = RecordingHandler()
    async with impatient(handler) as (connections, _):
        visit = await handler.visit()
        visit.link.write(FLOOD)
        visit.link.close()
        assert len(connections.links) == 1
        await visit.until_lost()
        assert connections.links == set()


@on_each_loop
async def test_a_peer_that_closes_its_half_and_does_not_read_is_cut_off() -> None:
    handler = RecordingHandler()
    async with impatient(handler) as (connections, peer):
        visit = await handler.visit()
        visit.link.write(FLOOD)
        assert not visit.writable
        peer.shutdown(socket.SHUT_WR)
        await visit.until_lost()
        assert connections.links == set()


@on_each_loop
async def test_connections_beyond_the_limit_are_closed_and_counted() -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(max_connections=1)) as listeners:
        connections = listeners.connections["main"]
        async with dialled(listeners) as (reader, writer):
            await handler.visit()
            async with dialled(listeners) as (refused, _):
                assert await until_gone(refused) == b""
            assert connections.refused_full == 1
            writer.write(b"still here")
            assert await reader.readexactly(10) == b"still here"
        await handler.visits[0].until_lost()
        async with dialled(listeners) as (reader, writer):
            writer.write(b"room again")
            assert await reader.readexactly(10) == b"room again"
    assert connections.refused_full == 1
    assert len(handler.visits) == 2


@on_each_loop
async def test_a_connection_that_the_gate_fails_to_open_is_reported_and_does_not_stay() -> None:
    class BrokenGate(RecordingHandler):
        def opened(self, link: Link, origin: Origin) -> NoReturn:
            raise RuntimeError("our own fault")

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    async with listening(BrokenGate(), spec()) as listeners:
        async with dialled(listeners) as (reader, _):
            assert await until_gone(reader) == b""
        assert listeners.connections["main"].links == set()
    assert [str(error) for error in reported] == ["our own fault"]
