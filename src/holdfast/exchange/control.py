"""What the exchange asks of the broker around it: per control packet and per loop iteration, never per message."""

from collections.abc import Callable
from typing import Protocol

from holdfast.exchange.client import BrokerClient, Channel
from holdfast.model.errors import PeerError


class Control(Protocol):
    """The broker, as the exchange sees it."""

    def packet(self, channel: Channel, first: int, body: bytes) -> None:
        """A packet that is no message and no acknowledgement, or any packet before CONNECT was accepted."""

    def protocol_error(self, channel: Channel, error: PeerError) -> None:
        """The client broke a rule of the protocol, or a limit: tell it and close."""

    def packet_begins(self, channel: Channel) -> None:
        """A packet has begun that is not complete. Called once for it, and not while an earlier one is watched."""

    def denied(self, channel: Channel, topic: bytes) -> None:
        """A publish was not allowed."""

    def fenced(self, session_id: str) -> None:
        """Another channel owns this session: forget it, and close the channel here."""

    def client_of(self, session_id: str) -> BrokerClient | None:
        """The session with this id, if it is at hand here."""

    def internal_error(self, error: Exception) -> None:
        """A bug of the broker showed itself: log it as an error."""

    def schedule_iteration(self) -> None:
        """Call `Exchange.run_iteration` soon, once."""

    def queue_broken(self, client: BrokerClient, error: Exception) -> None:
        """The external queue of a client cannot be read."""


class Timer(Protocol):
    """The broker's clock and deadlines: what is due later is sent by them."""

    def wall_us(self) -> int:
        """Wall time in microseconds."""

    def now_us(self) -> int:
        """Monotonic time in microseconds."""

    def call_after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Call `action` when so much time has passed."""

    def pump_after(self, delay_us: int, client: BrokerClient) -> None:
        """Have the client pumped when so much time has passed, or earlier."""
