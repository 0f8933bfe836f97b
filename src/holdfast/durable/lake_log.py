"""A log whose oldest part lies in a lake, as a replay reads it: what retention dropped comes from there.

    lake ……………………………………………│ log ……………………………│ durable head            by shard
    ──────▶ pages, asked for ────▶ ──────▶ read at once ──▶
                                 the border: what the log has from here on, as of now

A position means the same in both. So there is nothing to convert, a cursor is a position by shard as ever, and the
border is looked up whenever a scan stands before it.

1. A stretch comes from the lake if the log does not have it when the scan comes there, and else from the log. So each
   message comes once, whatever retention drops and an archive adds meanwhile.
2. What the lake does not have either is reported as lost, by the log.
3. At most one question of a reading is on its way. Each shard holds at most what one page has of it.
4. Nothing waits here: while an answer is on its way a scan gives an empty page, and `ready` is called when it has come.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from holdfast.durable.erasures import Erasures
from holdfast.durable.lake_page import LakeEnd, LakePage, LakeQuestion
from holdfast.durable.log import NO_END, LostRange, MessageLog, ShardScan
from holdfast.model.message import ArchivedMessage, Message

#: The first position there can be.
_FIRST_US: Final = 1
#: The end of a shard of which a lake has nothing.
_NOTHING: Final = LakeEnd(0, 0)


class LakeCounts:
    """What was read of the lake, since the start."""

    def __init__(self) -> None:
        #: Messages that replays took from there.
        self.messages = 0
        #: Pages that were asked for, and questions that got no answer.
        self.pages = 0
        self.failures = 0
        #: Replays that went on without what the lake has.
        self.given_up = 0
        #: Replays that read the lake at the moment.
        self.reading = 0


class ArchivedLog(MessageLog, Protocol):
    """A log of which older messages may lie in a lake."""

    #: What no reader is shown.
    erasures: Erasures

    def missing_before(self, shard: int, from_us: int) -> int:
        """Where a stretch ends that begins at a position and that the log does not have any more; 0 if it has it."""


class LakeReading(Protocol):
    """A question that is on its way, as `LakeSource.ask` gave it out."""

    def cancel(self) -> None:
        """Nobody wants the answer."""


class LakeSource(Protocol):
    """Where pages of a lake come from."""

    @property
    def counts(self) -> LakeCounts: ...

    def ask(
        self,
        question: Callable[[], LakeQuestion],
        answered: Callable[[LakePage], None],
        failed: Callable[[str], None],
    ) -> LakeReading:
        """Ask for the next page, and go on trying for a while. One of the two calls comes later, from the loop, unless
        it is cancelled; `failed` gets the reason. `question` is called when it is about to be sent.
        """

    def problem(self) -> str:
        """Why the lake could not be read the last time; empty if it could."""


class LakeLog:
    """The log and the lake, for one reading of one filter; a `MessageLog` by shape."""

    def __init__(
        self,
        log: ArchivedLog,
        source: LakeSource,
        levels: tuple[bytes, ...],
        ready: Callable[[], None],
        given_up: Callable[[str, dict[int, tuple[int, int]]], None],
    ) -> None:
        """`ready` is called when an answer has come; `given_up` with the reason when the lake is read no more, and with
        what it was to give.
        """
        self._log: Final = log
        self._source: Final = source
        self._levels: Final = levels
        self._ready: Final = ready
        self._given_up: Final = given_up
        self._scans: Final[list[LakeScan]] = []
        self._asked: LakeReading | None = None
        self._counted = False
        #: Whether the lake is read no more.
        self.is_over = False

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        return self._log.shards_for(levels)

    def heads(self) -> dict[int, int]:
        return self._log.heads()

    def boundary_after(self, position_us: int) -> int:
        return self._log.boundary_after(position_us)

    def scan(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> "LakeScan":
        for scan in self._scans:
            if scan.shard == shard and scan.from_us == max(from_us, _FIRST_US):
                return scan  # it was paused
        self._scans[:] = [scan for scan in self._scans if scan.shard != shard]
        scan = LakeScan(self, self._log, shard, levels, from_us)
        self._scans.append(scan)
        return scan

    def pause(self, done: dict[int, int]) -> None:
        """Nobody reads for a while: hold nothing of the store meanwhile. `done` are the last positions that were used,
        by shard: what was given behind them is given again.
        """
        for scan in self._scans:
            if scan.shard in done:
                scan.pause(done[scan.shard])

    def is_needed(self, starts: dict[int, int]) -> bool:
        """Whether the log does not have all from these positions on."""
        shards = self._log.shards_for(self._levels)
        return max([0, *[self._log.missing_before(shard, starts.get(shard, _FIRST_US)) for shard in shards]]) > 0

    def waits(self) -> bool:
        """Whether an answer is on its way."""
        return self._asked is not None

    def close(self) -> None:
        """Nobody reads on."""
        self.is_over = True
        if self._asked is not None:
            self._asked.cancel()
            self._asked = None
        if self._counted:
            self._counted = False
            self._source.counts.reading -= 1

    # ---- for its scans

    def want(self, up_to_us: int) -> None:
        """A scan has nothing above a position. It is asked for, unless another one has something that comes before."""
        if self._asked is None and not any(scan.has_before(up_to_us) for scan in self._scans):
            if not self._counted:
                self._counted = True
                self._source.counts.reading += 1
            self._asked = self._source.ask(self._question, self._answered, self._failed)

    def count(self, messages: int) -> None:
        self._source.counts.messages += messages

    def _question(self) -> LakeQuestion:
        ranges = {scan.shard: scan.wanted() for scan in self._scans}
        return LakeQuestion(self._levels, {shard: one for shard, one in ranges.items() if one[0] < one[1]})

    def _answered(self, page: LakePage) -> None:
        self._asked = None
        by_shard: dict[int, list[ArchivedMessage]] = {}
        for message in page.messages:
            by_shard.setdefault(message.shard, []).append(message)
        for scan in self._scans:
            scan.take(by_shard.get(scan.shard, []), page)
        self._ready()

    def _failed(self, why: str) -> None:
        self._asked = None
        missing = self._question().ranges
        self.close()
        self._source.counts.given_up += 1
        self._given_up(why, missing)
        self._ready()


class LakeScan:
    """One shard, from the lake and from the log; a `ShardScan` by shape.

    1. `from_us` never goes back, whatever the log loses or gets back; but by `pause`, to what was used.
    """

    def __init__(self, lake: LakeLog, log: ArchivedLog, shard: int, levels: tuple[bytes, ...], from_us: int) -> None:
        self.shard: Final = shard
        self._lake: Final = lake
        self._log: Final = log
        self._levels: Final = levels
        #: Whether it began with the earliest, and has given nothing yet nor read anything of the log.
        self._from_earliest = from_us < _FIRST_US
        self.from_us = max(from_us, _FIRST_US)
        self.lost: list[LostRange] = []
        #: Of the lake: messages that were not taken yet, and up to where there are no others.
        self._ahead: Final[deque[ArchivedMessage]] = deque()
        self._known_us = self.from_us - 1
        #: What the last call gave of them.
        self._given: list[ArchivedMessage] = []
        #: All up to here are counted.
        self._counted_us = 0
        #: Where the stretch ends that the log does not have, as of the last look.
        self._missing_us = 0
        #: The last message of the lake, as a last page said; and the last position to look for in the lake: that one,
        #: unless it may have more by now.
        self._lake_end = _NOTHING
        self._lake_end_us = NO_END
        #: Up to where that page was asked for.
        self._ended_at_us = 0
        #: Made when the log is read.
        self._hot: ShardScan | None = None
        #: Where the range ends that was asked for; 0 if none was.
        self._asked_us = 0

    def next(self, limit: int, before_us: int) -> list[Message]:
        self._missing_us = self._log.missing_before(self.shard, self.from_us)
        if not self._missing_us:
            return self._next_of_log(limit, before_us)
        if self._missing_us > self._ended_at_us:
            self._lake_end_us = NO_END  # retention has dropped more, so it may have more
        if self.from_us > self._lake_end_us:
            return self._next_of_log(limit, before_us)
        self._hot = None
        end_us = min(before_us, self._missing_us)
        found = self._take(limit, end_us)
        if not found and self.from_us < end_us:
            if self._lake.is_over or self.from_us > self._lake_end_us:
                return self._next_of_log(limit, before_us)
            self._lake.want(self.from_us - 1)
        return found

    def _next_of_log(self, limit: int, before_us: int) -> list[Message]:
        if self._hot is None:
            self._ahead.clear()
            self._given = []
            self._asked_us = 0  # the log has it
            self._hot = self._log.scan(self.shard, self._levels, self.from_us)
        found = self._hot.next(limit, before_us)
        self.from_us = self._hot.from_us
        self._known_us = self.from_us - 1
        if self._hot.lost:
            # Whoever wants the earliest there is has not lost what is gone; behind messages of a lake, it has.
            if not self._from_earliest:
                self._lose(self._hot.lost)
            self._hot.lost = []
        if found or self.from_us > self._missing_us:
            self._from_earliest = False
        return found

    def _lose(self, lost: list[LostRange]) -> None:
        """Report what is gone, without what the lake has: its last message may be the last one of what was dropped."""
        end = self._lake_end
        for one in lost:
            count = one.at_most
            if one.last_serial and one.from_us > end.position_us:
                count = min(count, one.last_serial - end.serial)
            if count == one.at_most:
                self.lost.append(one)
            elif count > 0:
                self.lost.append(LostRange(one.shard, one.from_us, one.to_us, count, last_serial=one.last_serial))

    def _take(self, limit: int, before_us: int) -> list[Message]:
        """What is at hand below a position."""
        found: list[Message] = []
        given: list[ArchivedMessage] = []
        erasures = self._log.erasures
        ahead = self._ahead
        while ahead and len(found) < limit and ahead[0].position_us < before_us:
            message = ahead.popleft()
            self.from_us = message.position_us + 1
            if not erasures.hides(self.shard, message.position_us, message.topic, message.publisher):
                found.append(message)
                given.append(message)
        self._given = given
        if not ahead:
            self.from_us = max(self.from_us, min(self._known_us + 1, before_us))
        elif len(found) < limit:
            self.from_us = max(self.from_us, min(ahead[0].position_us, before_us))
        if found:
            self._from_earliest = False
            # What is given again was counted.
            self._lake.count(len([one for one in given if one.position_us > self._counted_us]))
            self._counted_us = max(self._counted_us, given[-1].position_us)
        return found

    # ---- for the reading

    def pause(self, done_us: int) -> None:
        """Hold nothing of the store, and go on behind a position."""
        if self._hot is not None:
            self._hot = None
            self._known_us = done_us
        self._ahead.extendleft([one for one in reversed(self._given) if one.position_us > done_us])
        self._given = []
        self.from_us = done_us + 1

    def has_before(self, up_to_us: int) -> bool:
        """Whether a message up to a position is at hand."""
        return bool(self._ahead) and self._ahead[0].position_us <= up_to_us

    def wanted(self) -> tuple[int, int]:
        """The range to ask for; empty if none is, because enough is at hand or the log has what follows."""
        self._asked_us = 0
        if not self._ahead and self._known_us < min(self._missing_us - 1, self._lake_end_us):
            self._asked_us = self._missing_us
        return self._known_us + 1, self._asked_us

    def take(self, messages: list[ArchivedMessage], page: LakePage) -> None:
        """A page has come; it may be of others alone."""
        if not self._asked_us:
            return
        asked_us = self._asked_us
        end_us = asked_us - 1
        self._asked_us = 0
        self._ahead.extend(messages)
        if page.ends is None:
            end_us = min(end_us, page.up_to_us)
        else:
            self._lake_end = page.ends.get(self.shard, _NOTHING)
            self._lake_end_us = self._lake_end.position_us
            self._ended_at_us = asked_us
            end_us = min(end_us, self._lake_end_us)
        self._known_us = max(self._known_us, end_us)


class LakeHistory:
    """A log with the lake behind it: what a replay that begins in the past is read from."""

    def __init__(self, log: ArchivedLog, source: LakeSource) -> None:
        self._log: Final = log
        self._source: Final = source
        self.counts: Final = source.counts

    def open(
        self,
        levels: tuple[bytes, ...],
        ready: Callable[[], None],
        given_up: Callable[[str, dict[int, tuple[int, int]]], None],
    ) -> LakeLog:
        """Begin a reading. See `LakeLog`."""
        return LakeLog(self._log, self._source, levels, ready, given_up)

    def border_us(self, levels: tuple[bytes, ...], from_us: int) -> int:
        """Up to where messages from a time on come from the lake, at most; 0 if none does."""
        shards = self._log.shards_for(levels)
        return max([0, *[self._log.missing_before(shard, max(from_us, _FIRST_US)) for shard in shards]])

    def problem(self) -> str:
        """Why the lake could not be read the last time; empty if it could."""
        return self._source.problem()
