"""What paces wait with: one deadline for each client that something is due for."""

from typing import Final

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.exchange.client import Client
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock

#: The longest wait at once. A client that is gone is kept in memory by its deadline, and no longer than this.
_LONGEST_US: Final = 60_000_000


class Pacing:
    """A `Timer` by shape.

    1. A client has one deadline at most: the earliest that it was asked for.
    """

    def __init__(self, exchange: Exchange, clock: Clock, deadlines: Deadlines) -> None:
        self._exchange: Final = exchange
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._waiting: Final[dict[Client, tuple[int, Deadline]]] = {}

    def now_us(self) -> int:
        return self._clock.monotonic_us()

    def pump_after(self, delay_us: int, client: Client) -> None:
        delay_us = min(max(delay_us, 0), _LONGEST_US)
        due_us = self.now_us() + delay_us
        known = self._waiting.get(client)
        if known is not None:
            if known[0] <= due_us:
                return
            known[1].cancel()
        self._waiting[client] = (due_us, self._deadlines.after(delay_us, lambda: self._come(client)))

    def _come(self, client: Client) -> None:
        self._waiting.pop(client, None)
        if client.channel is not None:
            self._exchange.wake()
            self._exchange.delivery.pump(client)
