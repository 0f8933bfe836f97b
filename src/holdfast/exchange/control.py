"""What the path of messages asks of the broker around it: per control packet and per turn, never per message."""

from typing import Protocol

from holdfast.exchange.channel import Channel
from holdfast.model.errors import PeerError


class Control(Protocol):
    """The broker, as the exchange sees it."""

    def packet(self, channel: Channel, first: int, body: bytes) -> None:
        """A packet that is no message and no acknowledgement, or any packet before CONNECT was accepted."""
        ...

    def broke(self, channel: Channel, error: PeerError) -> None:
        """The client broke a rule: tell it and close."""
        ...

    def packet_begins(self, channel: Channel) -> None:
        """A packet has begun that is not complete. Called once for it, and not while an earlier one is watched."""
        ...

    def denied(self, channel: Channel, topic: bytes) -> None:
        """A publish was not allowed."""
        ...

    def failed(self, error: Exception) -> None:
        """A bug of ours came up while something was carried out: be loud about it."""
        ...

    def wake(self) -> None:
        """Call `Exchange.turn` soon, once."""
        ...

    def clock_us(self) -> int:
        """Wall time in microseconds."""
        ...
