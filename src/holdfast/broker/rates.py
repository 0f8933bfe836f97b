"""Rate limits: connects per address, messages per connection."""

from typing import Final

from holdfast.broker.deadlines import Deadlines
from holdfast.exchange.channel import Channel
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock

_SECOND_US: Final = 1_000_000
#: Addresses remembered at one time; beyond it all are forgotten, which errs on the side of letting clients in.
_MAX_ADDRESSES: Final = 100_000


class ConnectRates:
    """At most so many connections per second from one address."""

    def __init__(self, per_second: int, clock: Clock) -> None:
        self._per_second: Final = per_second
        self._clock: Final = clock
        self._second = 0
        self._counts: Final[dict[str, int]] = {}

    def allow(self, address: str) -> bool:
        if self._per_second == 0:
            return True
        second = self._clock.monotonic_us() // _SECOND_US
        if second != self._second or len(self._counts) > _MAX_ADDRESSES:
            self._second = second
            self._counts.clear()
        count = self._counts.get(address, 0) + 1
        self._counts[address] = count
        return count <= self._per_second


class PublishRates:
    """At most so many messages per second from one connection: a faster one is paused at its socket."""

    def __init__(self, per_second: int, exchange: Exchange, deadlines: Deadlines) -> None:
        self._per_second: Final = per_second
        self._exchange: Final = exchange
        self._deadlines: Final = deadlines

    def begin(self, channel: Channel) -> None:
        if self._per_second:
            self._grant(channel)

    def _grant(self, channel: Channel) -> None:
        if not channel.closed:
            self._exchange.grant(channel, self._per_second)
            self._deadlines.after(_SECOND_US, lambda: self._grant(channel))
