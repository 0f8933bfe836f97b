"""A WebSocket client, and frames and requests as bytes."""

from collections.abc import Sequence
from typing import Any

from websockets.asyncio.client import connect
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol

from holdfast.server.listeners import Listeners

REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def client(
    listeners: Listeners, path: str = "/mqtt", subprotocols: Sequence[str] = ("mqtt",), **options: Any
) -> connect:
    port = listeners.addresses()["main"][1]
    scheme = "wss" if "ssl" in options else "ws"
    offered = [Subprotocol(name) for name in subprotocols] or None
    return connect(f"{scheme}://localhost:{port}{path}", subprotocols=offered, proxy=None, **options)


def binary(data: bytes, opcode: Opcode = Opcode.BINARY, *, fin: bool = True) -> bytes:
    """A frame as a client sends it."""
    return Frame(opcode, data, fin).serialize(mask=True)
