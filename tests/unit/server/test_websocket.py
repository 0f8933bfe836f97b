"""MQTT over WebSocket: frames of every shape, and the end of a connection."""

import asyncio
import socket
from collections.abc import Callable

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode

from holdfast.server.listener_connections import HIGH_WATER_BYTES, ListenerConnections
from holdfast.server.stream import SocketLink
from holdfast.server.websocket import WebSocketLink
from tests.unit.server.certificates import Authority
from tests.unit.server.harness import RecordingHandler, Visit, dialled, echo, ipv6, listening, on_each_loop, spec
from tests.unit.server.web_client import REQUEST, binary, client


async def closed(connection: ClientConnection) -> tuple[int, str]:
    """Code and reason with which the server closed."""
    with pytest.raises(ConnectionClosed) as raised:
        await connection.recv()
    assert raised.value.rcvd is not None
    return raised.value.rcvd.code, raised.value.rcvd.reason


@on_each_loop
async def test_binary_frames_carry_bytes_both_ways() -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners:
        async with client(listeners) as connection:
            assert connection.subprotocol == "mqtt"
            assert connection.protocol.extensions == []
            await connection.send(b"hello")
            assert await connection.recv() == b"hello"
            visit = await handler.visit()
            assert (visit.origin.transport, visit.origin.port) == ("ws", connection.local_address[1])
            # The deadline of the handshake is over with it.
            assert isinstance(visit.link, SocketLink)
            assert visit.link._deadline is None
        await visit.until_lost()
    assert visit.lost == 1


@on_each_loop
async def test_secure_websockets_tell_the_subject_of_the_client(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    files = authority.server_files("first")
    main = spec(kind="wss", host="localhost", client_ca=authority.file, **files)
    async with listening(handler, main) as listeners, client(listeners, ssl=authority.client("page")) as connection:
        await connection.send(b"hello")
        assert await connection.recv() == b"hello"
        assert (handler.visits[0].origin.transport, handler.visits[0].origin.tls_subject) == ("wss", "page")


@ipv6
@on_each_loop
async def test_a_websocket_works_over_ipv6() -> None:
    handler = RecordingHandler(echo)
    main = spec(kind="ws", host="::1")
    async with listening(handler, main) as listeners, client(listeners, host="::1") as connection:
        await connection.send(b"six")
        assert await connection.recv() == b"six"
    assert handler.visits[0].origin.address == "::1"


@on_each_loop
async def test_packets_may_span_frames_and_frames_may_hold_many() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners, client(listeners) as connection:
        visit = await handler.visit()
        await connection.send([b"one ", b"message ", b"in ", b"", b"fragments, "])
        await connection.send(b"")
        await connection.send(bytes(100_000))
        await visit.until_received(b"one message in fragments, " + bytes(100_000))


@on_each_loop
async def test_fragments_are_handed_on_before_their_message_ends_and_frames_of_one_read_together() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws")) as listeners, dialled(listeners) as (reader, writer):
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        visit = await handler.visit()
        writer.write(binary(b"a", fin=False) + binary(b"b", Opcode.CONT, fin=False))
        await visit.until_received(b"ab")
        writer.write(binary(b"c", Opcode.CONT) + binary(b"d") + binary(b"", Opcode.PING) + binary(b"e"))
        await visit.until_received(b"abcde")
        assert visit.pieces == [b"ab", b"cde"]


@on_each_loop
async def test_every_cut_of_the_bytes_gives_the_same_result() -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(kind="ws")) as listeners, dialled(listeners) as (reader, writer):
        for byte in REQUEST + binary(b"hello"):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"Sec-WebSocket-Protocol: mqtt\r\n" in answer
        assert await reader.readexactly(7) == b"\x82\x05hello"


@on_each_loop
async def test_each_write_becomes_one_frame() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners, client(listeners) as connection:
        link = (await handler.visit()).link
        pieces = [b"x", bytes(125), bytes(126), bytes(65535), bytes(65536)]
        for piece in pieces:
            link.write(piece)
        assert [await connection.recv() for _ in pieces] == pieces


@on_each_loop
async def test_a_text_frame_closes_with_1003_after_what_came_before_it() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners, client(listeners) as connection:
        await connection.send(b"binary")
        await connection.send("text")
        code, reason = await closed(connection)
        assert code == 1003
        assert "binary" in reason
        visit = await handler.visit()
        await visit.until_lost()
        assert visit.received == b"binary"


@on_each_loop
async def test_a_message_beyond_the_limit_closes_with_1009() -> None:
    handler = RecordingHandler()
    main = spec(kind="ws", host="localhost", max_message_bytes=1000)
    async with listening(handler, main) as listeners, client(listeners) as connection:
        await connection.send(bytes(1000))
        await connection.send(bytes(1001))
        assert (await closed(connection))[0] == 1009
        await handler.visits[0].until_lost()
        assert len(handler.visits[0].received) == 1000


@on_each_loop
async def test_pings_are_answered() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners, client(listeners) as connection:
        pong = await connection.ping(b"payload")
        assert await pong >= 0
        assert handler.visits[0].received == b""


@on_each_loop
async def test_a_paused_connection_can_be_closed_with_a_handshake() -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners, client(listeners) as connection:
        visit = await handler.visit()
        await connection.send(b"first")
        await visit.until_received(b"first")
        await connection.send(b"second")
        visit.link.close()
        assert (await closed(connection))[0] == 1000
        await visit.until_lost()
        assert visit.received == b"first"


@on_each_loop
async def test_calls_on_a_lost_websocket_do_nothing(caplog: pytest.LogCaptureFixture) -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws")) as listeners:
        async with dialled(listeners) as (reader, writer):
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\n")
        visit = await handler.visit()
        await visit.until_lost()
        for _ in range(10):
            visit.link.write(b"into the void")
        for call in (visit.link.pause_reading, visit.link.resume_reading, visit.link.close):
            call()
    assert visit.lost == 1
    assert caplog.records == []


@on_each_loop
async def test_the_broker_closes_with_a_handshake_after_its_last_words() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners, client(listeners) as connection:
        visit = await handler.visit()
        visit.link.write(b"last words")
        visit.link.close()
        visit.link.close()
        visit.link.write(b"too late")
        assert await connection.recv() == b"last words"
        assert (await closed(connection))[0] == 1000
        await visit.until_lost()
    assert visit.lost == 1


@on_each_loop
@pytest.mark.parametrize("answer", [echo, lambda visit, data: visit.link.close()], ids=["echo", "close"])
async def test_bytes_in_front_of_a_close_frame_still_arrive(answer: Callable[[Visit, bytes], None]) -> None:
    handler = RecordingHandler(answer)
    async with listening(handler, spec(kind="ws")) as listeners, dialled(listeners) as (reader, writer):
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(binary(b"goodbye") + binary(b"\x03\xe8", Opcode.CLOSE))
        assert await reader.read() == b"\x88\x02\x03\xe8"
        writer.close()
        visit = await handler.visit()
        await visit.until_lost()
        assert visit.received == b"goodbye"


@on_each_loop
async def test_a_client_that_does_not_answer_the_close_is_cut_off() -> None:
    handler = RecordingHandler()
    connections = ListenerConnections(handler, spec(kind="ws"), close_deadline_s=0.01)
    make = lambda: WebSocketLink(connections)  # noqa: E731
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as peer:
        peer.sendall(REQUEST)
        visit = await handler.visit()
        visit.link.close()
        await visit.until_lost()
    server.close()
    await connections.close(0)
    assert connections.links == set()


@on_each_loop
async def test_pings_of_a_peer_that_does_not_read_cost_no_memory() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws")) as listeners, dialled(listeners, limit=1024) as (reader, writer):
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        visit = await handler.visit()
        link = visit.link
        assert isinstance(link, SocketLink)
        while visit.writable:
            link.write(bytes(16 * 1024))
            await asyncio.sleep(0)
        for number in range(4000):
            writer.write(binary(b"%04d" % number + bytes(100), Opcode.PING))
        writer.write(binary(b"end"))
        await visit.until_received(b"end")
        assert link._transport.get_write_buffer_size() < HIGH_WATER_BYTES + 17 * 1024
        got = b""
        while not got.endswith(b"3999" + bytes(100)):
            got += await reader.read(65536)
        assert b"3998" not in got


@on_each_loop
async def test_nothing_is_handed_over_between_pause_and_resume_over_websocket() -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners, client(listeners) as connection:
        visit = await handler.visit()
        await connection.send(b"first")
        await visit.until_received(b"first")
        await connection.send(b"second")
        async with client(listeners) as other:
            await (await other.ping())
            await (await other.ping())
        assert visit.received == b"first"
        visit.link.resume_reading()
        await visit.until_received(b"firstsecond")
        visit.link.resume_reading()


@on_each_loop
async def test_the_gate_is_told_of_a_frame_that_is_not_complete() -> None:
    """The library keeps its bytes: whoever sends half a frame and stops holds memory, as with half a packet."""
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws")) as listeners, dialled(listeners) as (reader, writer):
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        visit = await handler.visit()
        frame = binary(bytes(1000))
        writer.write(frame[:400])
        await visit.until(lambda: visit.unfinished == [392])
        writer.write(frame[400:] + frame[:20])
        await visit.until(lambda: visit.unfinished == [392, 0, 12])
        assert visit.pieces == [bytes(1000)]
        writer.write(frame[20:])
        await visit.until(lambda: visit.unfinished == [392, 0, 12, 0])
        assert visit.pieces == [bytes(1000), bytes(1000)]
