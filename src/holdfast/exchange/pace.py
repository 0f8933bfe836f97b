"""Paces: messages that go out by the clock and not as fast as a client takes them.

    Pace      a replay at a speed: what was published a minute apart comes a minute, or a tenth of one, apart
    Drain     the backlog of a client that is back, so many messages a second

Nothing here waits: a `Timer` has the client pumped when something is due.
"""

from typing import Final

from holdfast.durable.log import NO_END
from holdfast.durable.queues.client_queue import BacklogEnd

#: Speeds are whole numbers of millionths, so that what is due is computed exactly.
MILLION: Final = 1_000_000
#: A replay that is this near to the present has reached it: there is nothing to be paced any more.
_PRESENT_US: Final = 20_000


class Pace:
    """The pace of one replay: at `speed` millionths, the message of `first_us` now, one of t at (t - first_us) / speed.

    1. The moment that is replayed never goes back.
    """

    def __init__(self, speed: int, first_us: int) -> None:
        self.speed: Final = speed
        #: The position that it begins at; 0 for that of the first message there is.
        self.first_us = first_us
        #: The last position that was sent, or the first one: where it goes on after a reconnect.
        self.last_us = first_us
        self._began_us = -1

    def begun(self) -> bool:
        return self._began_us >= 0

    def begin(self, first_us: int, now_us: int) -> None:
        """Begin at a position, at a monotonic time."""
        self.first_us = first_us
        self._began_us = now_us

    def at_us(self, now_us: int) -> int:
        """The moment of the past that is replayed at a monotonic time."""
        return min(self.first_us + (now_us - self._began_us) * self.speed // MILLION, NO_END)

    def due_us(self, position_us: int) -> int:
        """The monotonic time at which a position is due."""
        return self._began_us - (self.first_us - position_us) * MILLION // self.speed

    def at_present(self, now_us: int, wall_us: int) -> bool:
        return self.at_us(now_us) + _PRESENT_US >= wall_us


class Drain:
    """So many messages a second out of a backlog, until that is sent which was owed at the reconnect.

    1. No more goes at once than is due in a tenth of a second, or one message if that is less.
    """

    def __init__(self, now_us: int, end: BacklogEnd) -> None:
        self.end: Final = end
        self._counted_us = now_us
        #: Millionths of messages; the first one may go at once.
        self._credit = MILLION

    def allowed(self, rate: int, now_us: int) -> int:
        """How many messages may go now."""
        most = max(1, rate // 10) * MILLION
        self._credit = min(self._credit + (now_us - self._counted_us) * rate, most)
        self._counted_us = now_us
        return self._credit // MILLION

    def take(self, count: int) -> None:
        """So many were sent."""
        self._credit -= count * MILLION

    def wait_us(self, rate: int) -> int:
        """How long until it is worth to go on: one message, or as many as are due in a twentieth of a second."""
        missing = max(1, rate // 20) * MILLION - self._credit
        return max(0, missing + rate - 1) // rate
