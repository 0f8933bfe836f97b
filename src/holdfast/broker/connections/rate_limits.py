"""Rate limits: connects per address, messages per connection. Both may change while the broker runs."""

from typing import Final

from holdfast.broker.deadlines import Deadlines
from holdfast.exchange.client import Channel
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

#: Addresses remembered at one time; beyond it all are forgotten, which errs on the side of letting clients in.
_MAX_ADDRESSES: Final = 100_000
#: What a channel has whose rate has no limit.
_NO_LIMIT: Final = -1


class ConnectRates:
    """At most so many connections per second from one address; 0 for no bound."""

    def __init__(self, per_second: int, clock: Clock) -> None:
        self.per_second = per_second
        self._clock: Final = clock
        self._second = 0
        self._counts: Final[dict[str, int]] = {}

    def allow(self, address: str) -> bool:
        if self.per_second == 0:
            return True
        second = self._clock.monotonic_us() // SECOND_US
        if second != self._second or len(self._counts) > _MAX_ADDRESSES:
            self._second = second
            self._counts.clear()
        count = self._counts.get(address, 0) + 1
        self._counts[address] = count
        return count <= self.per_second


class PublishRates:
    """At most so many messages per second from one connection: a faster one is paused at its socket. 0 for no bound.

    1. A channel in `_held` is open, or was a second ago, and is granted messages once a second.
    """

    def __init__(self, per_second: int, exchange: Exchange, deadlines: Deadlines) -> None:
        self.per_second = per_second
        self._exchange: Final = exchange
        self._deadlines: Final = deadlines
        self._held: Final[set[Channel]] = set()

    def begin(self, channel: Channel) -> None:
        """Hold a channel to the rate from now on. After `per_second` has changed, call it for those that are open."""
        if self.per_second and channel not in self._held:
            self._held.add(channel)
            self._grant(channel)

    def _grant(self, channel: Channel) -> None:
        if channel.closed:
            self._held.discard(channel)
        elif self.per_second == 0:
            self._held.discard(channel)
            self._exchange.grant(channel, _NO_LIMIT)
        else:
            self._exchange.grant(channel, self.per_second)
            self._deadlines.after(SECOND_US, lambda: self._grant(channel))
