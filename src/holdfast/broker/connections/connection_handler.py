"""How listeners hand connections to the broker: the whole surface between `server` and `broker`.

A listener calls `opened` once, `received` for every chunk of bytes, `writable` when the socket's send buffer fills or
drains, `unfinished` for what it holds back, and `lost` once at the end, whichever side closed. It knows nothing of
MQTT.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.exchange.client import Channel, Link

# What a connection may fail at before it speaks MQTT. Log lines and labels of a counter: never change.
PROXY_HEADER: Final = "proxy header refused"
TLS_HANDSHAKE: Final = "tls handshake failed"
WEBSOCKET_HANDSHAKE: Final = "websocket handshake refused"


@dataclass(slots=True)
class Origin:
    """Where a connection comes from. Not frozen only because that makes it five times as dear, once per connect."""

    #: The listener's name in the settings, for logs and rules.
    listener: str
    #: The client's address as text; behind a PROXY header, the one it states.
    address: str
    port: int
    #: `tcp`, `tls`, `ws` or `wss`.
    transport: str
    #: The subject's common name of a verified client certificate; it is the user name then.
    tls_subject: str | None = None
    #: Put in front of every topic of this connection, and taken off on the way out; empty for none.
    mount_point: str = ""
    #: Whether clients may come without credentials here.
    allow_anonymous: bool = False


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
