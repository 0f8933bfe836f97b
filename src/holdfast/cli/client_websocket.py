"""MQTT over WebSocket, the client's side: the protocol of the `websockets` library, which does no I/O, on a transport.

Frames are an envelope here as in the server: what one read brings is handed on as bytes [MQTT-6.0.0-2].
"""

import logging
import ssl
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.protocol import CONNECTING, OPEN
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from holdfast.cli.client_errors import LostError
from holdfast.cli.client_transport import SocketTransport, Transport, open_socket

_DATA: Final = (Opcode.BINARY, Opcode.CONT)

# The library reports each opening and closing; whoever uses the command line sees that for themselves.
_library_log: Final = logging.getLogger("holdfast.cli.client_websocket")
_library_log.setLevel(logging.ERROR)


class WebSocketTransport(Transport):
    """Bytes in binary frames. `open_websocket` makes it, after the handshake."""

    def __init__(self, inner: SocketTransport, web: ClientProtocol) -> None:
        self._inner: Final = inner
        self._web: Final = web

    async def handshake(self, place: str) -> None:
        """Ask for MQTT; LostError if the answer is no."""
        self._web.send_request(self._web.connect())
        self._flush()
        while self._web.state is CONNECTING and self._web.handshake_exc is None:
            self._feed(await self._inner.read())
        error = self._web.handshake_exc
        if isinstance(error, InvalidStatus):
            status = error.response.status_code
            raise LostError(f"{place} answers with HTTP status {status}; is the path right?")
        if isinstance(error, InvalidHandshake | EOFError):
            raise LostError(f"{place} does not speak WebSocket: {error}; is it the right port?")
        if error is not None:
            raise LostError(f"no WebSocket with {place}: {error}")

    async def read(self) -> bytes:
        while True:
            # Frames may have come together with the end of the handshake.
            data = b"".join(
                event.data
                for event in self._web.events_received()
                if isinstance(event, Frame) and event.opcode in _DATA
            )
            if data or self._web.state is not OPEN:
                return data
            self._feed(await self._inner.read())

    def _feed(self, data: bytes) -> None:
        if data:
            self._web.receive_data(data)
        else:
            self._web.receive_eof()
        self._flush()

    def write(self, data: bytes) -> None:
        if self._web.state is OPEN:
            self._web.send_binary(data)
            self._flush()

    def _flush(self) -> None:
        for data in self._web.data_to_send():
            # An empty piece means the end of what is sent; closing the socket does that as well.
            if data and not self._inner.is_closing():
                self._inner.write(data)

    async def drain(self) -> None:
        await self._inner.drain()

    def is_closing(self) -> bool:
        return self._web.state is not OPEN or self._inner.is_closing()

    async def close(self) -> None:
        if self._web.state is OPEN:
            self._web.send_close()
            self._flush()
        await self._inner.close()


async def open_websocket(host: str, port: int, path: str, tls: ssl.SSLContext | None) -> WebSocketTransport:
    """A WebSocket that speaks MQTT; LostError says why there is none."""
    shown = f"[{host}]" if ":" in host else host
    url = f"{'ws' if tls is None else 'wss'}://{shown}:{port}{path}"
    inner = await open_socket(host, port, tls)
    web = ClientProtocol(
        parse_uri(url),
        subprotocols=[Subprotocol("mqtt")],  # [MQTT-6.0.0-3]
        max_size=None,
        logger=_library_log,
    )
    transport = WebSocketTransport(inner, web)
    try:
        await transport.handshake(url)
    except BaseException:
        await inner.close()
        raise
    return transport
