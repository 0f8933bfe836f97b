"""MQTT over WebSocket: the protocol of the `websockets` library, which does no I/O, on a byte stream.

It knows frames and the handshake, nothing of MQTT beyond its subprotocol. Rules:

1. The handler gets a connection when the handshake has succeeded; until then, this module limits time and size.
2. The content of all frames of one read is handed on as one piece of the byte stream, without waiting until a message
   is complete. [MQTT-6.0.0-2]
3. Each write becomes one binary frame. Nothing is compressed: telemetry is small, and a compressor per connection
   costs more memory than the rest of it.
"""

import http
import logging
from typing import Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN, Event
from websockets.server import ServerProtocol
from websockets.typing import BytesLike, Subprotocol
from websockets.typing import Origin as WebOrigin

from holdfast.broker.connections.connection_handler import WEBSOCKET_HANDSHAKE
from holdfast.exchange.client import Channel
from holdfast.server.listener_connections import ListenerConnections
from holdfast.server.stream import SocketLink

#: The name that [MQTT-6.0.0-3] and [MQTT-6.0.0-4] ask for, and the one of clients older than MQTT 3.1.1.
SUBPROTOCOLS: Final = (Subprotocol("mqtt"), Subprotocol("mqttv3.1"))

#: Bytes of the request at most. Browsers send about one kilobyte; cookies may make it more.
HANDSHAKE_LIMIT_BYTES: Final = 16 * 1024

_PONG_HEAD: Final = 0x80 | Opcode.PONG

# The library logs each connection; our own log does that where it is wanted.
_library_log: Final = logging.getLogger("holdfast.server.websocket")
_library_log.setLevel(logging.ERROR)


class WebSocketLink(SocketLink):
    """One connection over WebSocket, over TCP or TLS."""

    __slots__ = ("_handshake_bytes", "_held_bytes", "_pong", "_spec", "_stuck", "_web")

    def __init__(self, connections: ListenerConnections, source: tuple[str, int] | None = None) -> None:
        super().__init__(connections, source)
        spec = self._spec = connections.spec
        self._handshake_bytes = 0
        #: Bytes of a frame that is not complete, as the handler was told.
        self._held_bytes = 0
        #: Whether the send buffer is above its high mark, and the newest pong held back meanwhile.
        self._stuck = False
        self._pong = b""
        allowed = spec.allowed_origins
        origins = None if allowed is None else [*map(WebOrigin, allowed), None]
        self._web: Final = ServerProtocol(
            origins=origins,
            subprotocols=SUBPROTOCOLS,
            max_size=spec.max_message_bytes,
            logger=_library_log,
        )

    # What asyncio calls.

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing and self._channel is None:
            return  # refused, or closed before the handshake was over
        self._web.receive_data(self._connections.buffer[:nbytes].tobytes())
        payload: list[BytesLike] = []
        events = self._web.events_received()
        if self._channel is None:
            events = self._shake_hands(nbytes, events)
        for event in events:
            assert isinstance(event, Frame)
            if event.opcode is Opcode.BINARY or event.opcode is Opcode.CONT:
                payload.append(event.data)
            elif event.opcode is Opcode.TEXT:
                # [MQTT-6.0.0-1] Any other data frame ends the connection.
                self._web.fail(CloseCode.UNSUPPORTED_DATA, "MQTT takes binary frames only")
                break
        if self._channel is not None and not self._closing:
            self._hand_on(self._channel, payload, completed=bool(events))
        self._flush()

    def pause_writing(self) -> None:
        self._stuck = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stuck = False
        pong, self._pong = self._pong, b""
        if pong and not self._closing:
            self._transport.write(pong)
        super().resume_writing()

    # What the exchange calls.

    def write(self, data: bytes) -> None:
        if not self._closing and self._web.state is OPEN:
            self._web.send_binary(data)
            self._flush()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._web.state is OPEN:
            self._web.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
            # The peer answers with a close frame; only then may the connection end.
            self._set_deadline(self._connections.close_deadline_s)
            if not self._transport.is_closing():
                self._transport.resume_reading()
        else:
            self._flush()
            self._end()

    # Steps.

    def _begin(self) -> None:
        self._set_deadline(self._spec.handshake_deadline_s)

    def _overdue(self) -> None:
        if self._channel is None and not self._closing:
            self._refuse(f"no request within {self._spec.handshake_deadline_s} s")
        super()._overdue()

    def _hand_on(self, channel: Channel, payload: list[BytesLike], *, completed: bool) -> None:
        """Hand on the content of frames, and report an incomplete frame, whose bytes the library keeps."""
        handler = self._connections.handler
        if completed and self._held_bytes:
            self._held_bytes = 0
            handler.unfinished(channel, 0)
        if payload:
            handler.received(channel, b"".join(payload))
        held_bytes = len(self._web.reader.buffer)
        if held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            handler.unfinished(channel, held_bytes)

    def _shake_hands(self, nbytes: int, events: list[Event]) -> list[Event]:
        """Answer the request if it is complete; returns the bytes behind it."""
        web = self._web
        self._handshake_bytes += nbytes
        if not events:
            if web.handshake_exc is not None:
                self._refuse(str(web.handshake_exc))
            elif self._handshake_bytes > HANDSHAKE_LIMIT_BYTES:
                self._refuse(f"more than {HANDSHAKE_LIMIT_BYTES} bytes of headers")
                status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                web.send_response(web.reject(status, "The request is too large.\n"))
            return events
        request, *behind = events
        assert isinstance(request, Request)
        if web.eof_sent:
            self._refuse("frames in front of the answer to the request")
            return []
        path = request.path.partition("?")[0]
        if path == self._spec.path:
            response = web.accept(request)
        else:
            response = web.reject(http.HTTPStatus.NOT_FOUND, f"MQTT is at {self._spec.path}.\n")
        web.send_response(response)
        if response.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS:
            self._refuse(f"{response.status_code}, path {path}: {web.handshake_exc or 'not found'}")
            return []
        self._flush()
        self._cancel_deadline()
        super()._begin()
        return behind

    def _refuse(self, why: str) -> None:
        connections = self._connections
        connections.refused_handshake += 1
        address = (self._source or self._transport.get_extra_info("peername") or ("", 0))[0]
        # Much of the reason is text from the peer.
        connections.handler.refused(self._spec.name, address, WEBSOCKET_HANDSHAKE, why[:200])

    def _flush(self) -> None:
        """Send the library's output; an empty last piece means the end."""
        for piece in self._web.data_to_send():
            if not piece:
                self._closing = True
                self._end()
                return
            if self._stuck and piece[0] == _PONG_HEAD:
                # A peer may ping without ever reading. Only the newest ping needs an answer (RFC 6455, 5.5.3).
                self._pong = piece
            else:
                self._transport.write(piece)
