"""The iterator over a log, on a log of lists: pages, ends, cursors, boundaries."""

import pytest

from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.replay import LogReplay
from holdfast.model.errors import MisuseError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cursors import EVERY_ZONE, Cursor, decode_cursor, encode_cursor
from tests.replays import one_filter, replay_of, resumed_replay

pytestmark = pytest.mark.compiled


class ListScan:
    """A `ShardScan` by shape; at most two messages a call, and nothing in every third one."""

    def __init__(self, messages: list[Message], from_us: int, lost: list[LostRange]) -> None:
        self.from_us = from_us
        self.lost = lost
        self._messages = messages
        self._calls = 0

    def next(self, limit: int, before_us: int) -> list[Message]:
        self._calls += 1
        if self._calls % 3 == 0:
            return []
        found = [message for message in self._messages if self.from_us <= message.position_us < before_us]
        if len(found) > min(limit, 2):
            found = found[: min(limit, 2)]
            self.from_us = found[-1].position_us + 1
        else:
            self.from_us = before_us
        return found


class ListLog:
    """A `MessageLog` by shape."""

    def __init__(self, *shards: list[int], boundaries: tuple[int, ...] = ()) -> None:
        self.shards = [[at(shard, position_us) for position_us in places] for shard, places in enumerate(shards)]
        self.boundaries = boundaries
        self.lost: list[LostRange] = []
        self.scans = 0

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        return [] if levels == (b"none",) else list(range(len(self.shards)))

    def heads(self) -> dict[int, int]:
        return {shard: messages[-1].position_us if messages else 0 for shard, messages in enumerate(self.shards)}

    def boundary_after(self, position_us: int) -> int:
        return min([at_us for at_us in self.boundaries if at_us > position_us], default=NO_END)

    def scan(self, shard: int, _levels: tuple[bytes, ...], from_us: int) -> ListScan:
        self.scans += 1
        lost, self.lost = self.lost, []
        return ListScan(self.shards[shard], from_us, lost)


def at(shard: int, position_us: int) -> Message:
    message = Message(b"a", b"", 1, ClientId("c"), 0)
    message.shard, message.position_us = shard, position_us
    return message


def drained(replay: LogReplay, limit: int = 3) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for _page in range(1000):
        page = replay.next(limit)
        assert len(page.messages) <= limit
        assert all(message.shard == page.shard for message in page.messages) or page.shard == -1
        found += [(message.shard, message.position_us) for message in page.messages]
        if page.at_end:
            return found
    raise AssertionError("it does not come to its end")


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("by_time", [False, True])
def test_every_message_comes_once_and_in_order(limit: int, *, by_time: bool) -> None:
    """L1, L13."""
    log = ListLog([1, 5, 6, 9, 12], [2, 3, 4, 20], [])

    found = drained(replay_of(log, (b"#",), 0, by_time=by_time), limit)

    assert sorted(found) == [(0, 1), (0, 5), (0, 6), (0, 9), (0, 12), (1, 2), (1, 3), (1, 4), (1, 20)]
    assert found == sorted(found, key=lambda place: place[1]) if by_time else True
    for shard in (0, 1):
        own = [place for place in found if place[0] == shard]
        assert own == sorted(own)


def test_no_shard_passes_a_boundary_before_the_others_have_reached_it() -> None:
    """L11: a publisher that new settings have moved to another shard keeps its order."""
    log = ListLog([1, 2, 11, 12, 13], [3, 4, 14], boundaries=(10,))

    found = drained(replay_of(log, (b"#",), 0))

    assert {place[1] for place in found[:4]} == {1, 2, 3, 4}


@pytest.mark.parametrize("by_time", [False, True])
def test_a_cursor_that_was_saved_goes_on_where_it_was(*, by_time: bool) -> None:
    """L5."""
    log = ListLog([1, 5, 6, 9, 12], [2, 3, 4, 20])
    replay = replay_of(log, (b"#",), 0, by_time=by_time)
    found = [(message.shard, message.position_us) for _ in range(3) for message in replay.next(2).messages]

    again = resumed_replay(log, (b"#",), decode_cursor(encode_cursor(replay.cursor())), 0, by_time=by_time)

    assert sorted(found + drained(again)) == sorted(drained(replay_of(log, (b"#",), 0)))


def test_the_reader_may_end_each_shard_before_its_head() -> None:
    ends = {0: 5, 1: 0}
    log = ListLog([1, 5, 6], [2, 3])
    replay = LogReplay(log, one_filter(log, (b"#",)), 1, cursor=Cursor(EVERY_ZONE, {0: 1}), ends=ends)
    assert drained(replay) == [(0, 5)]
    ends.update({0: 6, 1: 2})
    assert sorted(drained(replay)) == [(0, 6), (1, 2)]
    assert replay.cursor().done == {0: 6, 1: 2}


def test_a_shard_that_no_filter_concerns_is_not_scanned() -> None:
    log = ListLog([1], [2])
    assert replay_of(log, (b"none",), 0).next(1).at_end
    assert log.scans == 0


def test_a_shard_that_comes_later_begins_at_the_start() -> None:
    log = ListLog([5])
    replay = replay_of(log, (b"#",), 2)
    assert drained(replay) == [(0, 5)]
    log.shards.append([at(1, 1), at(1, 3)])
    assert drained(replay) == [(1, 3)]


@pytest.mark.parametrize("by_time", [False, True])
def test_what_retention_dropped_is_reported_once(*, by_time: bool) -> None:
    """L12."""
    log = ListLog([5, 6, 7])
    log.lost = [LostRange(0, 1, 5, 4)]
    replay = replay_of(log, (b"#",), 1, by_time=by_time)
    lost = [item for _ in range(9) for item in replay.next(1).lost]
    assert [(item.from_us, item.to_us, item.at_most) for item in lost] == [(1, 5, 4)]


def test_by_time_nothing_above_the_bound_is_given_out() -> None:
    log = ListLog([1, 5], [3])
    replay = replay_of(log, (b"#",), 0, by_time=True)
    replay.up_to_us = 3
    found = [message.position_us for _ in range(9) for message in replay.next(5).messages]
    assert found == [1, 3]
    assert replay.next_us == 5
    assert not replay.next(5).at_end


def test_a_page_has_room_for_a_message() -> None:
    with pytest.raises(MisuseError, match="1 or more"):
        replay_of(ListLog([1]), (b"#",), 0).next(0)
