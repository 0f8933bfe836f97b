"""When the leader of a stream whose stamps are wrong is asked to step down.

Stamps are those of the server that leads the stream. Record time follows them for thirty seconds at most with each
record, so a wrong one does little harm, and no node is to blame for it: all of them stay ready. Another server may have
the right time. If all of them are wrong, asking again helps nothing, so a watch asks as often as there are servers.
"""

from collections.abc import Sequence
from typing import Final

import structlog

from holdfast.cluster.membership.readiness import Readiness, VnodeState
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

_log = structlog.get_logger()

#: Between two requests: the next leader has to stamp a record first.
_PAUSE_US: Final = 60 * SECOND_US
#: Requests until the stamps are right again: one for each server of a stream.
_REQUESTS: Final = 3


class StampWatch:
    """The stamps of one log. Times are monotonic."""

    def __init__(self, log: str, bound_s: float) -> None:
        """`log` names it in log lines."""
        self._log: Final = log
        self._bound_us: Final = int(bound_s * SECOND_US)
        self._requests = 0
        self._asked_us = 0
        self.is_wrong = False

    def look(self, ahead_us: int, now_us: int) -> bool:
        """A stamp is ahead of the middle clock of the members by so much. Whether the leader has to step down now."""
        is_wrong = abs(ahead_us) >= self._bound_us
        if is_wrong != self.is_wrong:
            self.is_wrong = is_wrong
            self._requests = 0
            if is_wrong:
                _log.error("stamps of a log are wrong", log=self._log, ahead_s=round(ahead_us / SECOND_US))
            else:
                _log.warning("stamps of a log are right again", log=self._log)
        if not is_wrong or self._requests == _REQUESTS or (self._requests and now_us - self._asked_us < _PAUSE_US):
            return False
        self._requests += 1
        self._asked_us = now_us
        return True


class StampWatches:
    """The stamps of all logs, as one node sees them."""

    def __init__(self, vnodes: int, bound_s: float) -> None:
        self._control: Final = StampWatch("control", bound_s)
        self._vnodes: Final = [StampWatch(f"vnode {number}", bound_s) for number in range(vnodes)]
        #: The stamp of each vnode that was looked at last: a new one is at most a second old.
        self._seen: Final = [0] * vnodes

    def look(self, states: Sequence[VnodeState], readiness: Readiness, clock: Clock) -> list[int | None]:
        """The vnodes whose stream needs another leader; None stands for the control log. Requires: once a second."""
        middle_us = readiness.clocks.middle_us
        if middle_us is None:
            return []
        now_us, right_us = clock.monotonic_us(), clock.wall_us() - readiness.skew_us()
        found: list[int | None] = [None] if self._control.look(-middle_us, now_us) else []
        for number, (watch, state) in enumerate(zip(self._vnodes, states, strict=True)):
            is_new = state.stamp_us != self._seen[number] and state.applied >= state.known
            self._seen[number] = state.stamp_us
            if is_new and watch.look(state.stamp_us - right_us, now_us):
                found.append(number)
        return found
