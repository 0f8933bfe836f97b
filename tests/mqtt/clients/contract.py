"""What every foreign client library is asked for, so that one suite fits all of them."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

HOST = "127.0.0.1"
WEBSOCKET_PATH = "/mqtt"


@dataclass(frozen=True)
class Way:
    """How a client reaches the broker."""

    #: `tcp`, `tls`, `ws` or `wss`.
    transport: str
    #: `3.1`, `3.1.1` or `5`.
    version: str
    port: int = 0
    #: Who signed the broker's certificate.
    authority: Path = Path()

    @property
    def secure(self) -> bool:
        return self.transport in ("tls", "wss")

    @property
    def web(self) -> bool:
        return self.transport in ("ws", "wss")


@dataclass(frozen=True)
class Note:
    """A message, as it is given to a client or as a client gives it out. The properties are those of MQTT 5."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    expiry_s: int | None = None
    user_properties: tuple[tuple[str, str], ...] = ()

    def live(self) -> "Note":
        """As somebody gets it who was subscribed when it was published."""
        return replace(self, retain=False)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a client says when it connects."""

    client_id: str
    #: Start with a fresh session.
    clean: bool = True
    #: Keep the session after the connection, whatever the version calls that.
    keep: bool = False
    will: Note | None = field(default=None)


class ForeignClient(Protocol):
    """One connection of a client library; every call waits for the broker's answer."""

    def subscribe(self, topic_filter: str, qos: int) -> None: ...

    def publish(self, note: Note) -> None:
        """Publish, and wait for the acknowledgement that its QoS has."""
        ...

    def receive(self) -> Note:
        """The next message."""
        ...

    def disconnect(self) -> None:
        """Say goodbye."""
        ...

    def drop(self) -> None:
        """Cut the connection, without a word."""
        ...


class Library(Protocol):
    """A client library."""

    def connect(self, way: Way, terms: Terms) -> ForeignClient: ...
