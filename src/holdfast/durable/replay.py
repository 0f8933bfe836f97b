"""A replay over the shards of a log: the iterator of every reader that wants messages.

    shard 0   ──●──●────●──│──▶
    shard 1   ────●───●──●─│──▶        next(limit): a page of one shard, or of all shards merged by time
    shard 2   ─●────●──────│──▶
              a generation │ the next

A replay that is not merged by time reads all shards up to the next boundary of a generation before one of them goes
beyond it: new settings may have moved a publisher or a topic to another shard there, and what was published first is
replayed first.
"""

from collections.abc import Callable
from typing import Final

from holdfast.durable.log import NO_END, LostRange, MessageLog, Page, Replay, ShardScan
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.message import Message
from holdfast.records.cursors import EVERY_ZONE, Cursor

#: The filters to read a shard by: none if nothing of it is wanted, the empty one for everything.
FiltersOf = Callable[[int], list[tuple[bytes, ...]]]

#: Messages fetched at once for looking at the next one: they are returned soon.
_PEEKED: Final = 100


class ShardReader:
    """The messages of one shard for all filters of a replay: in order, each once.

        scan of a/#    ──●────●──────●──▶ ┐
        scan of +/b    ────●──●────────▶ ─┴▶ next(limit)          peek() looks at the next one and leaves it there

    1. Everything up to `done_us` was returned; what was only looked at was not. So a call that has found something
       returns it, and the next one fails, if the log is damaged behind it.
    """

    def __init__(self, scans: list[ShardScan]) -> None:
        self._scans: Final = scans
        #: Read ahead of each scan, the next one last.
        self._ahead: Final[list[list[Message]]] = [[] for _scan in scans]
        #: Looked at and not returned yet, the next one last.
        self._peeked: Final[list[Message]] = []
        #: Everything that is lost up to here was reported.
        self._lost_to_us = 0

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
                    try:
                        ahead.extend(reversed(scan.next(limit, barrier_us)))
                    except PermanentError:
                        if not found:
                            raise
                        return found  # these are done; the next call fails
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
        """Report what retention dropped before it was read, or is lost, once, however many filters come to it."""
        for scan in self._scans:
            if scan.lost:
                for one in scan.lost:
                    if one.to_us > self._lost_to_us:
                        self._lost_to_us = one.to_us
                        lost.append(one)
                scan.lost = []


class LogReplay(Replay[Message]):
    """See the module. What it holds of the store, the log may revoke at any time: it continues with a fresh view."""

    def __init__(
        self,
        log: MessageLog,
        filters_of: FiltersOf,
        since_us: int,
        until_us: int = NO_END,
        *,
        cursor: Cursor | None = None,
        by_time: bool = False,
        ends: dict[int, int] | None = None,
    ) -> None:
        """Messages that match a filter, with since_us <= position < until_us; with a cursor, those behind it.

        `by_time` merges all shards by time; else each shard is in order for itself. At the present, a shard whose clock
        is behind may still come with an earlier position on a later page. `ends` has the last position to read of each
        shard; it is looked at again in every `next`. Without it a shard ends at its durable head.
        Requires: the filters of a shard stay as they are.
        """
        self._log: Final = log
        self._filters_of: Final = filters_of
        self._since_us: Final = since_us
        self._until_us: Final = until_us
        self._by_time: Final = by_time
        self._ends: Final = ends
        #: The last position done of shards that are not read, or not yet.
        self._done: Final[dict[int, int]] = {} if cursor is None else dict(cursor.done)
        #: None for a shard that no filter concerns.
        self._readers: Final[dict[int, ShardReader | None]] = {}
        #: No shard is read beyond the next boundary of a generation.
        self._barrier_us = 0
        #: The shard that is read next, by its place, and the one that was read last.
        self._turn = 0
        self._last_shard = -1
        #: By time: nothing above is given out yet, and it is not at its end before there is no such bound.
        self.up_to_us = NO_END
        #: By time, after a page without messages: the position of the next one; NO_END if there is none as of now, 0
        #: if that is not known yet.
        self.next_us = 0

    def next(self, limit: int) -> Page[Message]:
        if limit < 1:
            raise MisuseError(f"a page of {limit} messages was asked for; 1 or more would be right")
        ends = self._ends
        if ends is None:
            ends = self._log.heads()
        return self._next_by_time(ends, limit) if self._by_time else self._next_of_shard(ends, limit)

    def done_us(self, shard: int) -> int:
        """The last position done in a shard."""
        reader = self._readers.get(shard)
        return self._done.get(shard, self._since_us - 1) if reader is None else reader.done_us()

    def cursor(self) -> Cursor:
        done = dict(self._done)
        for shard, reader in self._readers.items():
            if reader is not None:
                done[shard] = reader.done_us()
        return Cursor(EVERY_ZONE, done)

    def close(self) -> None:
        self._done.update(self.cursor().done)
        self._readers.clear()

    # ---- shard by shard

    def _next_of_shard(self, ends: dict[int, int], limit: int) -> Page[Message]:
        shards = list(ends)
        count = len(shards)
        lost: list[LostRange] = []
        while True:
            barrier_us = self._barrier_us
            waits = paused = False
            for step in range(count):
                at = (self._turn + step) % count
                shard = shards[at]
                reader = self._reader(shard, ends)
                if reader is None:
                    continue
                end_us = min(ends[shard] + 1, self._until_us)
                from_us = reader.done_us() + 1
                if from_us >= end_us:
                    continue
                if from_us >= barrier_us:
                    waits = True
                    continue
                before_us = min(end_us, barrier_us)
                try:
                    found = reader.next(limit, before_us)
                except PermanentError:
                    if not lost:
                        raise
                    return Page([], -1, at_end=False, next_stream=False, lost=lost)
                reader.add_lost(lost)
                if found:
                    # Stay with a shard while its pages are full: one scan is cheaper than many short ones.
                    self._turn = at if len(found) == limit else (at + 1) % count
                    next_stream = shard != self._last_shard
                    self._last_shard = shard
                    return Page(found, shard, at_end=self._at_end(ends), next_stream=next_stream, lost=lost)
                from_us = reader.done_us() + 1
                if from_us < before_us:
                    paused = True
                elif from_us < end_us:
                    waits = True
            if paused or not waits:
                return Page([], -1, at_end=not paused, next_stream=False, lost=lost)
            self._barrier_us = self._next_boundary(ends)

    def _at_end(self, ends: dict[int, int]) -> bool:
        for shard, end_us in ends.items():
            reader = self._reader(shard, ends)
            if reader is not None and reader.done_us() + 1 < min(end_us + 1, self._until_us):
                return False
        return True

    def _next_boundary(self, ends: dict[int, int]) -> int:
        """Behind the shard that is behind all others."""
        first_us = NO_END
        for shard, end_us in ends.items():
            reader = self._reader(shard, ends)
            if reader is not None:
                from_us = reader.done_us() + 1
                if from_us < min(end_us + 1, self._until_us, first_us):
                    first_us = from_us
        return self._log.boundary_after(first_us)

    # ---- by time

    def _next_by_time(self, ends: dict[int, int], limit: int) -> Page[Message]:
        """All shards as one sequence, in the order of positions."""
        found: list[Message] = []
        lost: list[LostRange] = []
        at_end = False
        while len(found) < limit:
            first: ShardReader | None = None
            first_us = second_us = NO_END
            unknown_us = NO_END
            for shard in ends:
                reader = self._reader(shard, ends)
                if reader is None:
                    continue
                try:
                    at_us = reader.peek(min(ends[shard] + 1, self._until_us))
                except PermanentError:
                    if not found and not lost:
                        raise
                    return Page(found, -1, at_end=False, next_stream=False, lost=lost)
                reader.add_lost(lost)
                if at_us == 0:
                    unknown_us = min(unknown_us, reader.done_us() + 1)
                elif at_us < first_us:
                    first, first_us, second_us = reader, at_us, first_us
                elif at_us < second_us:
                    second_us = at_us
            if first is None or first_us >= unknown_us:
                self.next_us = NO_END if unknown_us == NO_END else 0
                at_end = self.next_us == NO_END and self.up_to_us == NO_END
                break
            if first_us > self.up_to_us:
                self.next_us = first_us
                break
            # As long as no other shard can have an earlier one.
            bound_us = min(second_us, unknown_us - 1, self.up_to_us)
            while 0 < first_us <= bound_us and len(found) < limit:
                found.append(first.take())
                first_us = first.peeked_us()
        return Page(found, -1, at_end=at_end, next_stream=False, lost=lost)

    def _reader(self, shard: int, ends: dict[int, int]) -> ShardReader | None:
        """What reads a shard; None if no filter asks for anything of it."""
        if shard in self._readers:
            reader = self._readers[shard]
        else:
            # With nothing done, a start at 0 asks for the earliest there is.
            is_earliest = shard not in self._done and self._since_us <= 1
            from_us = 0 if is_earliest else self.done_us(shard) + 1
            scans = [self._log.scan(shard, levels, from_us) for levels in self._filters_of(shard)]
            reader = self._readers[shard] = ShardReader(scans) if scans else None
        if reader is None and self._ends is not None:
            self._done[shard] = ends[shard]
        return reader
