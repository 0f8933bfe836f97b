"""One shard read for several filters: in order, each message once, and what is looked at stays."""

import pytest

from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.replay import ShardReader
from holdfast.model.ids import ClientId
from holdfast.model.message import Message

pytestmark = pytest.mark.compiled


class ListScan:
    """A `ShardScan` by shape, over positions. A pause is a call that finds nothing and does not reach the end."""

    def __init__(self, *positions: int, pauses: int = 0, lost: tuple[LostRange, ...] = ()) -> None:
        self.from_us = 1
        self.lost = list(lost)
        self._positions = positions
        self._pauses = pauses

    def next(self, limit: int, before_us: int) -> list[Message]:
        if self._pauses:
            self._pauses -= 1
            return []
        found = [position for position in self._positions if self.from_us <= position < before_us][:limit]
        self.from_us = found[-1] + 1 if len(found) == limit else before_us
        return [at(position) for position in found]


def at(position_us: int) -> Message:
    message = Message(b"a", b"", 1, ClientId("c"), 0)
    message.position_us = position_us
    return message


def positions(messages: list[Message]) -> list[int]:
    return [message.position_us for message in messages]


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_filters_that_overlap_give_each_message_once(limit: int) -> None:
    reader = ShardReader([ListScan(1, 3, 5, 7), ListScan(2, 3, 7, 8), ListScan()])
    found: list[int] = []
    while page := reader.next(limit, 9):
        assert len(page) <= limit
        found += positions(page)
        assert reader.done_us() >= found[-1]
    assert found == [1, 2, 3, 5, 7, 8]
    assert reader.done_us() == 8


def test_nothing_is_returned_beyond_a_scan_that_paused() -> None:
    """What it has next may be the next of all."""
    reader = ShardReader([ListScan(1, 2), ListScan(3, pauses=1)])
    assert reader.next(9, 10) == []
    assert reader.done_us() == 0
    assert positions(reader.next(9, 10)) == [1, 2, 3]


def test_what_was_looked_at_is_not_done() -> None:
    reader = ShardReader([ListScan(4, 6)])
    assert reader.peek(10) == 4
    assert reader.done_us() == 3
    assert reader.take().position_us == 4
    assert reader.peeked_us() == 6
    assert reader.take().position_us == 6
    assert reader.peeked_us() == 0
    assert reader.peek(10) == NO_END


def test_a_look_says_that_it_does_not_know_yet() -> None:
    reader = ShardReader([ListScan(4, pauses=1)])
    assert reader.peek(10) == 0
    assert reader.peek(10) == 4


def test_lost_ranges_are_reported_once() -> None:
    reader = ShardReader([ListScan(lost=(LostRange(0, 1, 5, 4),)), ListScan(lost=(LostRange(0, 1, 5, 4),))])
    lost: list[LostRange] = []
    reader.add_lost(lost)
    reader.add_lost(lost)
    assert len(lost) == 1, "however many filters come to it"
