"""How listeners hand connections to the broker: the whole surface between `server` and `broker`.

A listener calls `opened` once, `received` for every chunk of bytes, `writable` when the socket's send buffer fills or
drains, `unfinished` for what it holds back, and `lost` once at the end, whichever side closed. It knows nothing of
MQTT.
"""

from typing import Final, Protocol

from holdfast.broker.connections.origin import Origin
from holdfast.exchange.client import Channel, Link

# What a connection may fail at before it speaks MQTT. Log lines and labels of a counter: never change.
PROXY_HEADER: Final = "proxy header refused"
TLS_HANDSHAKE: Final = "tls handshake failed"
WEBSOCKET_HANDSHAKE: Final = "websocket handshake refused"


class ConnectionHandler(Protocol):
    """What a listener may ask of the broker."""

    def opened(self, link: Link, origin: Origin) -> Channel:
        """A connection was accepted."""

    def received(self, channel: Channel, data: bytes) -> None:
        """Bytes came."""

    def writable(self, channel: Channel, *, yes: bool) -> None:
        """The socket's send buffer passed its high-water mark (no) or drained below its low one (yes)."""

    def unfinished(self, channel: Channel, size_bytes: int) -> None:
        """The link holds so many bytes that it cannot hand on yet: the beginning of a WebSocket frame. 0 for none."""

    def lost(self, channel: Channel) -> None:
        """The connection is gone."""

    def refused(self, listener: str, address: str, event: str, why: str) -> None:
        """A connection ended before it could speak MQTT, by one of the events above; `why` may be the peer's words."""
