"""One shard, read for several filters: in order, each message once.

    scan of a/#    ──●────●──────●──▶ ┐
    scan of +/b    ────●──●────────▶ ─┴▶ next(limit)          peek() looks at the next one and leaves it there

1. Everything up to `done_us` was returned; what was only looked at was not.
"""

from typing import Final

from holdfast.durable.log import NO_END, LostRange, ShardScan
from holdfast.model.message import Message

#: Messages fetched at once for looking at the next one: they are returned soon.
_PEEKED: Final = 100


class ShardReader:
    """The messages of one shard for all filters of a replay."""

    def __init__(self, scans: list[ShardScan]) -> None:
        self._scans: Final = scans
        #: Read ahead of each scan, the next one last.
        self._ahead: Final[list[list[Message]]] = [[] for _scan in scans]
        #: Looked at and not returned yet, the next one last.
        self._peeked: Final[list[Message]] = []

    def done_us(self) -> int:
        """Everything up to here was returned."""
        if self._peeked:
            return self._peeked[-1].position_us - 1
        done_us = -1
        for i, scan in enumerate(self._scans):
            ahead = self._ahead[i]
            at_us = (ahead[-1].position_us if ahead else scan.from_us) - 1
            if done_us < 0 or at_us < done_us:
                done_us = at_us
        return done_us

    def peek(self, barrier_us: int) -> int:
        """The position of the next message below the barrier; NO_END if there is none, 0 if that is not known yet."""
        if not self._peeked:
            self._peeked.extend(reversed(self.next(_PEEKED, barrier_us)))
        if self._peeked:
            return self._peeked[-1].position_us
        return NO_END if self.done_us() + 1 >= barrier_us else 0

    def peeked_us(self) -> int:
        """The position of the next message, if it was looked at; else 0."""
        return self._peeked[-1].position_us if self._peeked else 0

    def take(self) -> Message:
        """The message that `peek` has found."""
        return self._peeked.pop()

    def next(self, limit: int, barrier_us: int) -> list[Message]:
        """The next messages below the barrier, at most `limit`. Requires: nothing is peeked at."""
        if len(self._scans) == 1:
            return self._scans[0].next(limit, barrier_us)
        found: list[Message] = []
        while len(found) < limit:
            best = -1
            best_us = 0
            for i, scan in enumerate(self._scans):
                ahead = self._ahead[i]
                if not ahead and scan.from_us < barrier_us:
                    ahead.extend(reversed(scan.next(limit, barrier_us)))
                    if not ahead and scan.from_us < barrier_us:
                        return found  # it paused: what it has next may be the next of all
                if ahead and (best < 0 or ahead[-1].position_us < best_us):
                    best = i
                    best_us = ahead[-1].position_us
            if best < 0:
                return found
            found.append(self._ahead[best][-1])
            for ahead in self._ahead:
                if ahead and ahead[-1].position_us == best_us:
                    ahead.pop()
        return found

    def add_lost(self, lost: list[LostRange]) -> None:
        """Report what retention dropped before it was read, once."""
        for scan in self._scans:
            if scan.lost:
                lost.extend(scan.lost)
                scan.lost = []
