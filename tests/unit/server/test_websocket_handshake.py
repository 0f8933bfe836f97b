"""MQTT over WebSocket: who is let in by the handshake, and its bounds."""

import asyncio

import pytest
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin as WebOrigin

from holdfast.broker.connections.connection_handler import WEBSOCKET_HANDSHAKE
from holdfast.server.listener_connections import ListenerConnections
from holdfast.server.websocket import HANDSHAKE_LIMIT_BYTES, WebSocketLink
from tests.unit.server.harness import RecordingHandler, dialled, listening, on_each_loop, spec, until_gone
from tests.unit.server.web_client import REQUEST, client


@on_each_loop
@pytest.mark.parametrize(
    ("path", "subprotocols", "status"),
    [
        ("/", ["mqtt"], 404),
        ("/mqtt/", ["mqtt"], 404),
        ("/other?path=/mqtt", ["mqtt"], 404),
        ("/mqtt", [], 400),
        ("/mqtt", ["chat"], 400),
    ],
)
async def test_a_handshake_for_something_else_is_refused(path: str, subprotocols: list[str], status: int) -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws", host="localhost")) as listeners:
        with pytest.raises(InvalidStatus) as raised:
            async with client(listeners, path, subprotocols):
                pass
        assert raised.value.response.status_code == status
        assert listeners.connections["main"].refused_handshake == 1
    assert handler.visits == []


@on_each_loop
@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["mqtt"], "mqtt"), (["mqttv3.1"], "mqttv3.1"), (["mqttv3.1", "mqtt"], "mqtt"), (["chat", "mqtt"], "mqtt")],
)
async def test_the_subprotocol_is_echoed_and_old_clients_are_understood(offered: list[str], chosen: str) -> None:
    main = spec(kind="ws", host="localhost", path="/broker")
    handler = RecordingHandler()
    async with listening(handler, main) as listeners, client(listeners, "/broker?token=1", offered) as connection:
        assert connection.subprotocol == chosen


@on_each_loop
async def test_pages_of_other_origins_are_kept_out() -> None:
    handler = RecordingHandler()
    main = spec(kind="ws", host="localhost", allowed_origins=("https://example.org",))
    async with listening(handler, main) as listeners:
        async with client(listeners, origin=WebOrigin("https://example.org")):
            pass
        async with client(listeners):
            pass
        with pytest.raises(InvalidStatus) as raised:
            async with client(listeners, origin=WebOrigin("https://evil.example")):
                pass
    assert raised.value.response.status_code == 403
    assert len(handler.visits) == 2
    (refusal,) = handler.refusals
    assert (refusal[0], refusal[2]) == ("main", WEBSOCKET_HANDSHAKE)
    assert "evil.example" in refusal[3]


@on_each_loop
async def test_without_any_allowed_origin_only_browsers_are_kept_out() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws", host="localhost", allowed_origins=())) as listeners:
        async with client(listeners):
            pass
        with pytest.raises(InvalidStatus) as raised:
            async with client(listeners, origin=WebOrigin("http://localhost")):
                pass
    assert raised.value.response.status_code == 403
    assert len(handler.visits) == 1


@on_each_loop
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x10\x0c\x00\x04MQTT\r\n\r\n", id="no HTTP at all"),
        pytest.param(b"GET /" + b"x" * 10_000, id="endless request line"),
        pytest.param(b"GET /mqtt HTTP/1.1\r\n" + b"A: b\r\n" * 3000, id="endless headers"),
        pytest.param(REQUEST.replace(b"GET", b"POST"), id="wrong method"),
        pytest.param(REQUEST.replace(b"Upgrade: websocket\r\n", b""), id="no upgrade"),
        pytest.param(REQUEST + b"\xff\xff", id="broken frame in front of the answer"),
        pytest.param(REQUEST.replace(b"/mqtt", b"/", 1) + b"\xff\xff", id="broken frame on the wrong path"),
    ],
)
async def test_a_malformed_handshake_is_refused_and_counted(data: bytes) -> None:
    handler = RecordingHandler()
    async with listening(handler, spec(kind="ws")) as listeners:
        async with dialled(listeners) as (reader, writer):
            writer.write(data)
            assert b" 101 " not in await until_gone(reader)
        assert listeners.connections["main"].refused_handshake == 1
    assert handler.visits == []


@on_each_loop
async def test_the_size_of_a_request_is_bounded() -> None:
    async with listening(RecordingHandler(), spec(kind="ws")) as listeners:
        async with dialled(listeners) as (reader, writer):
            line = b"Cookie: " + b"x" * 4000 + b"\r\n"
            writer.write(b"GET /mqtt HTTP/1.1\r\n" + line * (HANDSHAKE_LIMIT_BYTES // len(line) + 1))
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        assert listeners.connections["main"].refused_handshake == 1


@on_each_loop
async def test_a_slow_handshake_is_not_waited_for() -> None:
    handler = RecordingHandler()
    connections = ListenerConnections(handler, spec(kind="ws", handshake_deadline_s=0.01))
    server = await asyncio.get_running_loop().create_server(lambda: WebSocketLink(connections), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(REQUEST[:50])
    assert await until_gone(reader) == b""
    writer.close()
    server.close()
    await connections.close(0)
    assert connections.refused_handshake == 1
    assert handler.visits == []


@on_each_loop
async def test_a_request_that_comes_while_the_listener_closes_is_dropped() -> None:
    handler = RecordingHandler()
    main = spec(kind="ws", host="localhost")
    async with listening(handler, main) as listeners, dialled(listeners, host="127.0.0.1") as (reader, writer):
        writer.write(REQUEST[:50])
        # Who came later was served, so the half request is there.
        async with client(listeners, host="127.0.0.1"):
            pass
        async with asyncio.TaskGroup() as closing:
            closing.create_task(listeners.close(grace_s=20))
            assert await reader.read() == b""
            writer.write(REQUEST[50:])
            writer.close()
    assert len(handler.visits) == 1
