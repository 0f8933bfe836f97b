"""MQTT over WebSocket, the client's side, without I/O: on the protocol of the `websockets` library.

A frame is an envelope: packets may begin and end anywhere in it [MQTT-6.0.0-2].
"""

import logging
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.protocol import CONNECTING, OPEN
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from holdfast.client.errors import LostError

_DATA: Final = (Opcode.BINARY, Opcode.CONT)

# The library reports each opening and closing, which the caller sees for itself.
_library_log: Final = logging.getLogger("holdfast.client.websocket")
_library_log.setLevel(logging.ERROR)


class WebSocketCodec:
    """Bytes of the network on one side, bytes of MQTT on the other."""

    def __init__(self, host: str, port: int, path: str, *, secure: bool) -> None:
        shown = f"[{host}]" if ":" in host else host
        self._url: Final = f"{'wss' if secure else 'ws'}://{shown}:{port}{path}"
        self._protocol: Final = ClientProtocol(
            parse_uri(self._url),
            subprotocols=[Subprotocol("mqtt")],  # [MQTT-6.0.0-3]
            max_size=None,
            logger=_library_log,
        )
        self._protocol.send_request(self._protocol.connect())

    @property
    def is_open(self) -> bool:
        return self._protocol.state is OPEN

    def is_connecting(self) -> bool:
        """Whether the answer to the handshake is still to come; LostError if it is no."""
        error = self._protocol.handshake_exc
        if isinstance(error, InvalidStatus):
            status = error.response.status_code
            raise LostError(f"{self._url} answers with HTTP status {status}; is the path right?")
        if isinstance(error, InvalidHandshake | EOFError):
            raise LostError(f"{self._url} does not speak WebSocket: {error}; is it the right port?")
        if error is not None:
            raise LostError(f"no WebSocket with {self._url}: {error}")
        return self._protocol.state is CONNECTING

    def feed(self, data: bytes) -> None:
        """Bytes of the network; none at its end. Pings are answered: see `take_output`."""
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()

    def take_input(self) -> bytes:
        """The bytes of MQTT that were fed."""
        events = self._protocol.events_received()
        return b"".join(event.data for event in events if isinstance(event, Frame) and event.opcode in _DATA)

    def send(self, data: bytes) -> None:
        if self.is_open:
            self._protocol.send_binary(data)

    def close(self) -> None:
        if self.is_open:
            self._protocol.send_close()

    def take_output(self) -> bytes:
        """The bytes to write to the network."""
        return b"".join(self._protocol.data_to_send())
