"""Time, as far as the path of messages asks for it: what is due later is sent by the broker's deadlines."""

from typing import Protocol

from holdfast.exchange.client import Client


class Timer(Protocol):
    """The broker's clock and deadlines, as far as paces need them."""

    def now_us(self) -> int:
        """Monotonic time."""
        ...

    def pump_after(self, delay_us: int, client: Client) -> None:
        """Have the client pumped when so much time has passed, or earlier."""
        ...
