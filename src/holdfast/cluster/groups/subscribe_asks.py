"""SUBSCRIBEs of this node that wait until the leader of their group says that the group lists their member.

That the group lists the member already, by what is applied here, says nothing: that may be for an earlier subscription
of the same session, which has ended, and the leader may have a `DropMember` for it on its way. So each SUBSCRIBE asks
under a unique number, and only the answer to that number counts.
"""

from collections.abc import Callable
from typing import Final

from holdfast.cluster.vnodes.writer import TimerHandle, Timers

#: How long a SUBACK waits.
PATIENCE_S: Final = 5.0

#: Told whether the group lists the member; False if that takes too long.
Heard = Callable[[bool], None]


class SubscribeAsks:
    """Each question is answered once. Numbers begin with 1, again at each start of the node."""

    def __init__(self, timers: Timers) -> None:
        self._timers: Final = timers
        self._last = 0
        self._waiting: Final[dict[int, tuple[Heard, TimerHandle]]] = {}

    def begin(self, heard: Heard) -> int:
        """The number of a new question."""
        self._last = ask = self._last + 1
        timer = self._timers.call_later(PATIENCE_S, lambda: self._answer(ask, listed=False))
        self._waiting[ask] = (heard, timer)
        return ask

    def confirm(self, ask: int) -> None:
        """The leader has answered. It repeats itself, and may be late: then no SUBSCRIBE waits."""
        self._answer(ask, listed=True)

    def _answer(self, ask: int, *, listed: bool) -> None:
        heard, timer = self._waiting.pop(ask, (None, None))
        if heard is not None and timer is not None:
            timer.cancel()
            heard(listed)
