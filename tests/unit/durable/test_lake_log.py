"""A log with a lake behind it, under chance: pages of any size at any time, and a border that moves meanwhile."""

from collections.abc import Callable
from random import Random

import pytest

from holdfast.durable.erasures import no_erasures
from holdfast.durable.lake_log import LakeCounts, LakeLog
from holdfast.durable.lake_page import LakeEnd, LakePage, LakeQuestion
from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.replay import LogReplay
from holdfast.model.ids import ClientId
from holdfast.model.message import Message, archived_message
from holdfast.records.cursors import EVERY_ZONE, Cursor
from tests.replays import one_filter

pytestmark = pytest.mark.compiled

Place = tuple[int, int]


def message_at(shard: int, position_us: int) -> Message:
    message = Message(b"t", b"%d" % position_us, 1, ClientId("p"), position_us)
    message.shard, message.position_us = shard, position_us
    return message


class KeptScan:
    """A `ShardScan` by shape."""

    def __init__(self, log: "KeptLog", shard: int, from_us: int) -> None:
        self._log, self._shard, self._earliest = log, shard, from_us < 1
        self.from_us = max(from_us, 1)
        self.lost: list[LostRange] = []

    def next(self, limit: int, before_us: int) -> list[Message]:
        missing_us = self._log.missing_before(self._shard, self.from_us)
        if missing_us:
            if not self._earliest:
                serials = self._log.serial_before(self._shard, missing_us)
                # As long as nothing tells how many of them the reader has: all of them.
                self.lost.append(LostRange(self._shard, self.from_us, missing_us, max(1, serials), last_serial=serials))
            self.from_us = missing_us
        self._earliest = False
        behind = [first_us for first_us, _end_us in self._log.holes if first_us > self.from_us]
        before_us = min([before_us, *behind])
        there = [us for us in self._log.positions[self._shard] if self.from_us <= us < before_us][:limit]
        self.from_us = there[-1] + 1 if len(there) == limit else max(self.from_us, before_us)
        return [message_at(self._shard, us) for us in there]


class KeptLog:
    """An `ArchivedLog` by shape: what lies below `kept_us` was dropped, and what lies in a hole is lost above it."""

    def __init__(self, positions: dict[int, list[int]]) -> None:
        self.positions = positions
        self.kept_us = dict.fromkeys(positions, 0)
        #: Ranges [from, before) of all shards.
        self.holes: list[Place] = []
        self.erasures = no_erasures()

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        return list(self.positions)

    def heads(self) -> dict[int, int]:
        return {shard: found[-1] for shard, found in self.positions.items()}

    def boundary_after(self, position_us: int) -> int:
        return min([kept_us for kept_us in self.kept_us.values() if kept_us > position_us], default=NO_END)

    def missing_before(self, shard: int, from_us: int) -> int:
        from_us = max(from_us, 1)
        if from_us < self.kept_us[shard]:
            return self.kept_us[shard]
        return max([0, *[before_us for first_us, before_us in self.holes if first_us <= from_us < before_us]])

    def serial_before(self, shard: int, before_us: int) -> int:
        """The serial of the last message before a position."""
        return sum(us < before_us for us in self.positions[shard])

    def scan(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> KeptScan:
        return KeptScan(self, shard, from_us)


class Asking:
    def __init__(self, question: Callable[[], LakeQuestion], answered: Callable[[LakePage], None]) -> None:
        self.question, self.answered, self.cancelled = question, answered, False
        #: What is asked, once it is.
        self.sent: LakeQuestion | None = None

    def cancel(self) -> None:
        self.cancelled = True


class PagedLake:
    """A `LakeSource` by shape: it has everything up to `archived_us`, and answers when it is told to."""

    def __init__(self, log: KeptLog, random: Random) -> None:
        self.counts = LakeCounts()
        self.archived_us = dict.fromkeys(log.positions, 0)
        self.asked: list[Asking] = []
        self.failing = ""
        #: Messages of a page; 0 for chance.
        self.page_size = 0
        self._log, self._random = log, random
        self._failed: Callable[[str], None] | None = None

    def ask(
        self, question: Callable[[], LakeQuestion], answered: Callable[[LakePage], None], failed: Callable[[str], None]
    ) -> Asking:
        assert not self.asked, "one question at a time"
        self.asked.append(Asking(question, answered))
        self._failed = failed
        return self.asked[0]

    def problem(self) -> str:
        return self.failing

    def send(self) -> None:
        """What is asked is decided now."""
        [asking] = self.asked
        asking.sent = asking.question()

    def end(self, shard: int) -> LakeEnd:
        archived_us = self.archived_us[shard]
        return LakeEnd(archived_us, self._log.serial_before(shard, archived_us + 1))

    def answer(self) -> None:
        asking = self.asked.pop()
        if self.failing:
            assert self._failed is not None
            self._failed(self.failing)
            return
        question = asking.sent or asking.question()
        assert question.ranges
        found = sorted(
            (us, shard)
            for shard, (from_us, before_us) in question.ranges.items()
            for us in self._log.positions[shard]
            if from_us <= us < before_us and us <= self.archived_us[shard]
        )
        size = self.page_size or self._random.randint(1, 6)
        while 0 < size < len(found) and found[size][0] == found[size - 1][0]:
            size += 1
        messages = [archived_message(message_at(shard, us), shard, us) for us, shard in found[:size]]
        is_last = size >= len(found)
        up_to_us = max(one[1] for one in question.ranges.values()) - 1 if is_last else found[size - 1][0]
        ends = {shard: self.end(shard) for shard in question.ranges} if is_last else None
        asking.answered(LakePage(messages, up_to_us, ends))


class Reading:
    """A replay of everything, its log and its lake."""

    def __init__(
        self,
        seed: int,
        *,
        by_time: bool,
        since_us: int = 1,
        until_us: int = NO_END,
        positions: dict[int, list[int]] | None = None,
    ) -> None:
        self.random = Random(seed)
        self._since_us = since_us
        # No two of the same time: which shard goes first then is nobody's promise.
        positions = positions or {
            shard: sorted(self.random.sample(range(9 + shard, 400, 3), self.random.choice([1, 3, 40, 120])))
            for shard in range(3)
        }
        self.log = KeptLog(positions)
        self.lake = PagedLake(self.log, self.random)
        self.ready = 0
        self.given_up: list[tuple[str, dict[int, tuple[int, int]]]] = []
        self.opened = LakeLog(self.log, self.lake, (b"#",), self._ready, lambda *why: self.given_up.append(why))
        self.replay = LogReplay(self.opened, one_filter(self.log, (b"#",)), since_us, until_us, by_time=by_time)
        self.got: list[Place] = []
        self.lost: list[LostRange] = []

    def _ready(self) -> None:
        self.ready += 1

    def drop(self) -> None:
        """Retention drops some of what is archived."""
        shard = self.random.choice(list(self.log.positions))
        self.log.kept_us[shard] = max(self.log.kept_us[shard], self.random.randint(0, self.lake.archived_us[shard] + 1))

    def pause(self) -> None:
        """As a paced replay does: what reads is thrown away, and the lake's part of it is kept."""
        done = {shard: self.replay.done_us(shard) for shard in self.log.positions}
        self.opened.pause(done)
        self.replay = LogReplay(
            self.opened,
            one_filter(self.log, (b"#",)),
            self._since_us,
            NO_END,
            cursor=Cursor(EVERY_ZONE, {shard: done_us for shard, done_us in done.items() if done_us}),
            by_time=True,
        )

    def archive(self) -> None:
        for shard, found in self.log.positions.items():
            more = [us for us in found if us > self.lake.archived_us[shard]]
            if more:
                self.lake.archived_us[shard] = self.random.choice(more)

    def read(self) -> bool:
        """A page; whether it was at the end."""
        before = [self.replay.done_us(shard) for shard in self.log.positions]
        page = self.replay.next(self.random.randint(1, 9))
        self.got += [(message.position_us, message.shard) for message in page.messages]
        self.lost += page.lost
        after = [self.replay.done_us(shard) for shard in self.log.positions]
        assert all(one <= other for one, other in zip(before, after, strict=True)), "it goes back"
        moved = before != after
        assert page.messages or page.at_end or moved or self.opened.waits(), "it stands still, and nothing will come"
        return page.at_end

    def read_until_asked(self) -> None:
        """Read on until it waits for the lake."""
        for _step in range(100):
            if self.opened.waits():
                return
            assert not self.read(), "it came to its end"
        raise AssertionError("it asks for nothing")

    def read_all(self, *, moves: bool, pauses: bool = False) -> None:
        for _step in range(5_000):
            if pauses and self.random.random() < 0.3:
                self.pause()
            if moves and self.random.random() < 0.1:
                self.archive()
                self.drop()
            if self.opened.waits() and self.random.random() < 0.5:
                self.lake.answer()
            elif self.read():
                return
        raise AssertionError("it does not come to an end")

    def everything(self, since_us: int = 0, until_us: int = NO_END) -> list[Place]:
        found = [(us, shard) for shard, positions in self.log.positions.items() for us in positions]
        return sorted(one for one in found if since_us <= one[0] < until_us)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("by_time", [True, False])
def test_each_message_comes_once_while_the_border_moves(seed: int, *, by_time: bool) -> None:
    reading = Reading(seed, by_time=by_time)
    for _run in range(3):
        reading.archive()
        reading.drop()
    reading.read_all(moves=True)
    assert sorted(reading.got) == reading.everything()
    assert reading.lost == []
    if by_time:
        assert reading.got == reading.everything()
    for shard in range(3):
        own = [us for us, of in reading.got if of == shard]
        assert own == sorted(own)
    assert reading.lake.counts.messages <= len(reading.got)


@pytest.mark.parametrize("seed", range(40))
def test_each_message_comes_once_through_pauses(seed: int) -> None:
    reading = Reading(seed, by_time=True)
    for _run in range(3):
        reading.archive()
        reading.drop()
    reading.read_all(moves=True, pauses=True)
    assert reading.got == reading.everything()
    assert reading.lost == []
    assert reading.lake.counts.messages <= len(reading.got)


def test_a_pause_costs_no_page() -> None:
    reading = Reading(1, by_time=True, positions={0: [5, 6, 7, 8], 1: [10, 11, 30]})
    reading.lake.archived_us = {0: 20, 1: 20}
    reading.log.kept_us = {0: 20, 1: 20}
    reading.lake.page_size = 10
    reading.read_until_asked()
    reading.lake.answer()
    for _message in range(6):
        reading.got += [(message.position_us, message.shard) for message in reading.replay.next(1).messages]
        counted = reading.lake.counts.messages
        reading.pause()
        assert reading.lake.counts.messages == counted, "it never falls"
        assert not reading.opened.waits()
    assert reading.lake.counts.messages == 6
    assert reading.got == reading.everything(0, 20)
    reading.read_all(moves=False)
    assert reading.got == reading.everything()


@pytest.mark.parametrize("seed", range(10))
def test_a_range_is_read_from_both_and_nothing_else(seed: int) -> None:
    reading = Reading(seed, by_time=True, since_us=100, until_us=300)
    for _run in range(4):
        reading.archive()
    reading.drop()
    reading.drop()
    reading.read_all(moves=True)
    assert reading.got == reading.everything(100, 300)
    assert reading.lost == []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("since_us", [1, 2])
def test_a_lake_that_fails_leaves_the_log_and_what_is_gone_is_told(seed: int, since_us: int) -> None:
    reading = Reading(seed, by_time=True, since_us=since_us)
    for _run in range(4):
        reading.archive()
    reading.log.kept_us = {shard: archived + 1 for shard, archived in reading.lake.archived_us.items()}
    # Each shard has something in the lake, so two pages are not all of it.
    reading.lake.page_size = 1
    for _page in range(2):
        reading.read()
        if reading.opened.waits():
            reading.lake.answer()
    reading.lake.failing = "away"
    reading.read_all(moves=False)
    right = reading.everything()
    assert reading.got == [one for one in right if one in set(reading.got)], "in order"
    hot = [one for one in right if one[0] >= reading.log.kept_us[one[1]]]
    assert set(hot) <= set(reading.got)
    [(why, missing)] = reading.given_up
    assert why == "away"
    told = {lost.shard: (lost.from_us, lost.to_us) for lost in reading.lost}
    gone = [one for one in right if one not in set(reading.got)]
    assert gone
    for us, shard in gone:
        from_us, before_us = missing[shard]
        assert from_us <= us < before_us
        # Whoever asked for the earliest has lost only what lies behind something that it got.
        assert since_us == 1 or told[shard][0] <= us < told[shard][1]


@pytest.mark.parametrize("failing", ["", "away"])
@pytest.mark.parametrize("by_time", [True, False])
def test_a_replay_of_the_earliest_comes_past_a_hole_before_which_nothing_matches(
    failing: str, *, by_time: bool
) -> None:
    """As days that were brought back leave one, or a damaged page."""
    reading = Reading(1, by_time=by_time, positions={0: [30]})
    reading.log.holes = [(10, 20)]
    reading.lake.archived_us = {0: 25}
    reading.lake.failing = failing
    reading.read_all(moves=False)
    assert reading.got == [(30, 0)]
    assert [(lost.from_us, lost.to_us) for lost in reading.lost] == ([(10, 20)] if failing else [])


def test_what_the_lake_does_not_have_either_is_lost() -> None:
    reading = Reading(1, by_time=True, since_us=2)
    reading.lake.archived_us = dict.fromkeys(range(3), 150)
    reading.log.kept_us = dict.fromkeys(range(3), 250)
    reading.read_all(moves=False)
    assert reading.got == [one for one in reading.everything() if one[0] <= 150 or one[0] >= 250]
    gone = {shard for us, shard in reading.everything(151, 250)}
    assert {(lost.shard, lost.from_us, lost.to_us) for lost in reading.lost} == {(n, 151, 250) for n in gone}
    assert sum(lost.at_most for lost in reading.lost) == len(reading.everything(151, 250)) > 0
    assert reading.given_up == []


def test_a_lake_that_has_more_by_now_is_asked_again() -> None:
    """The archive copied on, and retention dropped that, while the client took what the last page had."""
    reading = Reading(1, by_time=True, since_us=2, positions={0: [5, 6, 15, 30]})
    reading.lake.archived_us = {0: 9}
    reading.log.kept_us = {0: 10}
    reading.read_until_asked()
    reading.lake.page_size = 10
    reading.lake.answer()
    assert reading.replay.next(1).messages == [message_at(0, 5)]
    reading.lake.archived_us = {0: 20}
    reading.log.kept_us = {0: 20}
    reading.read_all(moves=False)
    assert reading.got == [(6, 0), (15, 0), (30, 0)]
    assert reading.lost == []


@pytest.mark.parametrize("by_time", [True, False])
def test_nothing_of_a_shard_is_lost_whose_last_message_the_lake_has(*, by_time: bool) -> None:
    """Its generation ends later than its last message, with that of a shard which has more."""
    reading = Reading(1, by_time=by_time, since_us=2, positions={0: [5, 6, 90], 1: [10, 40, 91]})
    reading.lake.archived_us = {0: 6, 1: 40}
    reading.log.kept_us = {0: 50, 1: 50}
    reading.read_all(moves=False)
    assert sorted(reading.got) == reading.everything()
    assert reading.lost == []


def test_no_more_is_lost_than_the_lake_does_not_have() -> None:
    reading = Reading(1, by_time=True, since_us=2, positions={0: [5, 6, 20, 21, 22, 90]})
    reading.lake.archived_us = {0: 9}
    reading.log.kept_us = {0: 50}
    reading.read_all(moves=False)
    assert reading.got == [(5, 0), (6, 0), (90, 0)]
    assert [(lost.from_us, lost.to_us, lost.at_most) for lost in reading.lost] == [(10, 50, 3)]


def test_an_answer_to_what_the_log_has_again_by_now_gives_nothing_twice() -> None:
    """Days are brought back while a page of them is on its way; behind them the log has a hole."""
    reading = Reading(1, by_time=True, since_us=2, positions={0: [5, 6, 15, 30]})
    reading.lake.archived_us = {0: 20}
    reading.log.kept_us = {0: 20}
    reading.read_until_asked()
    reading.lake.send()
    reading.log.kept_us = {0: 0}
    reading.log.holes = [(10, 20)]
    assert [message.position_us for message in reading.replay.next(1).messages] == [5]
    reading.lake.page_size = 10
    reading.lake.answer()
    reading.read_all(moves=False)
    assert reading.got == [(6, 0), (15, 0), (30, 0)]
    assert reading.lost == []


def test_a_reading_that_is_closed_asks_no_more_and_cancels_what_it_asked() -> None:
    reading = Reading(1, by_time=True)
    reading.lake.archived_us = dict.fromkeys(range(3), 400)
    reading.log.kept_us = dict.fromkeys(range(3), 401)
    reading.read()
    [asking] = reading.lake.asked
    assert reading.lake.counts.reading == 1
    reading.opened.close()
    reading.opened.close()
    assert asking.cancelled
    assert reading.lake.counts.reading == 0
    assert not reading.opened.waits()
