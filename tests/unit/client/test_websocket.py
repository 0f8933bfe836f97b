"""MQTT over WebSocket, by a client against a server that answers by hand."""

import asyncio

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.options import ConnectionOptions
from holdfast.client.websocket import WebSocketCodec
from holdfast.model.protocol import V5
from holdfast.model.reasons import SESSION_TAKEN_OVER
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connack, Disconnect

ACCEPTED = encode(Connack(), V5)


def test_websocket_pings_are_answered_and_split_frames_are_one_stream() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        web = ServerProtocol(subprotocols=[Subprotocol("mqtt")])
        web.receive_data(await reader.readuntil(b"\r\n\r\n"))
        request = web.events_received()[0]
        assert isinstance(request, Request)
        web.send_response(web.accept(request))
        # Together with the end of the handshake: a ping, and CONNACK in two frames.
        web.send_ping(b"there?")
        web.send_binary(ACCEPTED[:2], fin=False)
        web.send_continuation(ACCEPTED[2:], fin=True)
        writer.write(b"".join(web.data_to_send()))
        pongs: list[bytes] = []
        said: list[bytes] = []
        while b"still?" not in pongs:
            web.receive_data(await reader.read(65_536))
            frames = [event for event in web.events_received() if isinstance(event, Frame)]
            pongs += [bytes(frame.data) for frame in frames if frame.opcode is Opcode.PONG]
            if not said:
                said = [bytes(frame.data) for frame in frames if frame.opcode is Opcode.BINARY]
                if said:  # CONNECT: from now on the client has nothing to say but the answer to another ping
                    web.send_ping(b"still?")
                    writer.write(b"".join(web.data_to_send()))
        assert pongs == [b"there?", b"still?"]
        web.send_binary(encode(Disconnect(SESSION_TAKEN_OVER), V5))
        web.send_close()
        writer.write(b"".join(web.data_to_send()))
        await reader.read()
        writer.close()

    async def exchange() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            target = ConnectionOptions(port=server.sockets[0].getsockname()[1], path="/mqtt")
            async with Client(target) as client:
                await client.receive()

    with pytest.raises(RefusedError, match="Session taken over"):
        asyncio.run(exchange())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answers with HTTP status 404; is the path right"),
        (b"\x20\x03\x00\x00\x00\r\n\r\n", "does not speak WebSocket: .*is it the right port"),
        (b"", "does not speak WebSocket"),
    ],
)
def test_what_is_no_websocket_is_told(answer: bytes, text: str) -> None:
    codec = WebSocketCodec("::1", 80, "/mqtt", secure=False)
    assert codec.is_connecting()
    assert codec.take_output().startswith(b"GET /mqtt HTTP/1.1\r\n")
    codec.feed(answer)
    with pytest.raises(LostError, match=rf"^ws://\[::1\]:80/mqtt .*{text}"):
        codec.is_connecting()
