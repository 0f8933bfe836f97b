"""Listeners behind a proxy: whose address counts, and what happens to those who send no header."""

import asyncio
import socket

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from holdfast.server import handshake_server
from holdfast.server.handshake_server import HandshakeServer
from holdfast.server.listener_connections import ListenerConnections
from holdfast.server.sockets import listen
from holdfast.server.stream import SocketLink
from tests.unit.server.certificates import Authority
from tests.unit.server.harness import RecordingHandler, dialled, echo, listening, on_each_loop, spec, until_gone
from tests.unit.server.proxy_headers import LOCAL, header, stated


@on_each_loop
@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::7"])
async def test_the_client_has_the_address_that_the_proxy_states(address: str) -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(proxy_protocol=True)) as listeners, dialled(listeners) as (reader, writer):
        writer.write(stated(address, 40000, b"\x04\x00\x01\x00") + b"first")
        assert await reader.readexactly(5) == b"first"
        origin = (await handler.visit()).origin
        assert (origin.address, origin.port, origin.transport) == (address, 40000, "tcp")


@on_each_loop
async def test_a_header_may_come_in_pieces() -> None:
    handler = RecordingHandler(echo)
    whole = stated("203.0.113.7", 40000)
    async with listening(handler, spec(proxy_protocol=True)) as listeners, dialled(listeners) as (reader, writer):
        for at in range(len(whole)):
            writer.write(whole[at : at + 1])
            await asyncio.sleep(0)
        assert handler.visits == []
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        assert handler.visits[0].origin.address == "203.0.113.7"


@on_each_loop
async def test_a_proxy_that_speaks_for_itself_has_its_own_address() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(proxy_protocol=True)) as listeners, dialled(listeners) as (_, writer):
        writer.write(header(command=LOCAL))
        origin = (await handler.visit()).origin
        assert (origin.address, origin.port) == writer.get_extra_info("sockname")


@on_each_loop
@pytest.mark.parametrize("data", [b"PROXY TCP4 1.2.3.4 ", b"\x10\x0c\x00\x04MQTT", header(b"", 0x11)])
async def test_a_connection_without_a_valid_header_is_closed_and_counted(data: bytes) -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(proxy_protocol=True)) as listeners:
        async with dialled(listeners) as (reader, writer):
            writer.write(data)
            assert await until_gone(reader) == b""
        assert listeners.connections["main"].refused_proxy == 1
    assert handler.visits == []


@on_each_loop
async def test_a_look_whether_the_listener_is_there_is_no_offence() -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(proxy_protocol=True)) as listeners:
        async with dialled(listeners):
            pass
        async with dialled(listeners) as (reader, writer):
            writer.write(stated("203.0.113.7", 1) + b"x")
            assert await reader.readexactly(1) == b"x"
        assert listeners.connections["main"].refused_proxy == 0
    assert len(handler.visits) == 1


@on_each_loop
async def test_a_header_without_the_setting_is_data() -> None:
    handler = RecordingHandler()
    data = stated("203.0.113.7", 40000)
    async with listening(handler, spec()) as listeners, dialled(listeners) as (_, writer):
        writer.write(data)
        visit = await handler.visit()
        await visit.until_received(data)
        assert visit.origin.address == "127.0.0.1"


@on_each_loop
async def test_a_header_that_does_not_come_is_not_waited_for() -> None:
    connections = ListenerConnections(RecordingHandler(), spec(proxy_protocol=True, handshake_deadline_s=0.01))
    (sock,) = await listen("127.0.0.1", 0)
    port = sock.getsockname()[1]
    server = HandshakeServer(sock, connections, lambda source: SocketLink(connections, source), None)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(stated("203.0.113.7", 1)[:20])
    assert await until_gone(reader) == b""
    assert connections.refused_proxy == 1
    writer.close()
    await server.close()


@on_each_loop
async def test_connections_that_have_sent_no_header_yet_count_against_the_limit() -> None:
    async with listening(RecordingHandler(), spec(proxy_protocol=True, max_connections=1)) as listeners:
        async with dialled(listeners), dialled(listeners) as (refused, _):
            assert await until_gone(refused) == b""
        assert listeners.connections["main"].refused_full == 1


@on_each_loop
async def test_closing_drops_those_who_are_still_being_greeted() -> None:
    main = spec(proxy_protocol=True)
    async with listening(RecordingHandler(), main) as listeners, dialled(listeners) as (reader, writer):
        writer.write(header()[:4])
        async with asyncio.timeout(handshake_server.HEADER_DEADLINE_S / 2):
            await listeners.close(0)
            assert await until_gone(reader) == b""


@on_each_loop
async def test_closing_drops_those_whose_greeting_has_not_begun() -> None:
    connections = ListenerConnections(RecordingHandler(), spec(proxy_protocol=True))
    (sock,) = await listen("127.0.0.1", 0)
    server = HandshakeServer(sock, connections, lambda source: SocketLink(connections, source), None)
    with socket.create_connection(sock.getsockname()) as peer:
        server._accept()
        await server.close()
        assert peer.recv(1) == b""


@on_each_loop
async def test_tls_begins_behind_the_header(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    main = spec(kind="tls", proxy_protocol=True, **authority.server_files("first"))
    async with listening(handler, main) as listeners, dialled(listeners) as (reader, writer):
        writer.write(stated("203.0.113.7", 40000))
        await writer.start_tls(authority.client(), server_hostname="localhost")
        writer.write(b"secret")
        assert await reader.readexactly(6) == b"secret"
        origin = (await handler.visit()).origin
        assert (origin.address, origin.port, origin.transport) == ("203.0.113.7", 40000, "tls")


@on_each_loop
async def test_a_failed_tls_handshake_leaves_the_listener_alone(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    main = spec(kind="tls", proxy_protocol=True, **authority.server_files("first"))
    async with listening(handler, main) as listeners:
        async with dialled(listeners) as (reader, writer):
            writer.write(stated("203.0.113.7", 1) + b"no TLS at all")
            await until_gone(reader)
        async with dialled(listeners) as (reader, writer):
            writer.write(stated("203.0.113.7", 2))
            await writer.start_tls(authority.client(), server_hostname="localhost")
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
    assert [visit.origin.port for visit in handler.visits] == [2]


@on_each_loop
async def test_a_websocket_begins_behind_the_header() -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(kind="ws", proxy_protocol=True)) as listeners:
        port = listeners.addresses()["main"][1]
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(stated("203.0.113.7", 40000))
        sock.setblocking(False)
        async with connect(f"ws://127.0.0.1:{port}/mqtt", sock=sock, subprotocols=[Subprotocol("mqtt")]) as client:
            await client.send(b"frame")
            assert await client.recv() == b"frame"
        origin = handler.visits[0].origin
        assert (origin.address, origin.port, origin.transport) == ("203.0.113.7", 40000, "ws")
