"""When the leader of a stream that answers no append is asked to step down.

A stream that has a leader takes appends. One that reports a leader and answers none is stuck: the leader's disk stands
still, or the server is in a state that it does not leave by itself. Another leader is the remedy. A full stream
answers, and one without a leader is electing one: both are left alone.
"""

from typing import Final

from holdfast.model.clock import Clock

#: Appends are not answered for so long before a leader is asked.
_STUCK_US: Final = 30_000_000
#: Between two requests: an election and its first appends take a while.
_PAUSE_US: Final = 60_000_000


class AppendWatchdog:
    """Counts how long appends have had no answer. Times are monotonic."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._since_us: int | None = None
        self._asked_us: int | None = None

    def answered(self) -> None:
        """An append was answered, whatever the answer."""
        self._since_us = None

    def unanswered(self, began_us: int) -> bool:
        """An append that began then has no answer. Whether the leader has to be asked to step down now."""
        now_us = self._clock.monotonic_us()
        self._since_us = began_us if self._since_us is None else min(self._since_us, began_us)
        if now_us - self._since_us < _STUCK_US:
            return False
        if self._asked_us is not None and now_us - self._asked_us < _PAUSE_US:
            return False
        self._asked_us = now_us
        return True
