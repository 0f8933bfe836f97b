"""The newest messages of a shard in memory."""

import pytest

from holdfast.durable.ring import Ring
from holdfast.model.ids import ClientId
from holdfast.model.message import Message

pytestmark = pytest.mark.compiled

#: What a commit of one message with a payload of 100 bytes and a topic of one takes in the ring.
_ROOM = 651


def message(position_us: int, payload_bytes: int = 100) -> Message:
    made = Message(b"t", bytes(payload_bytes), 1, ClientId("p"), position_us)
    made.position_us = position_us
    return made


def filled(ring: Ring, *positions: int) -> Ring:
    """Each in a commit of its own."""
    for position_us in positions:
        ring.append([message(position_us)])
        ring.check_invariants()
    return ring


def read(ring: Ring, from_us: int, before_us: int, limit: int = 1_000) -> list[int]:
    return [found.position_us for found in ring.read(from_us, before_us, limit)]


def test_a_range_includes_its_lower_end_and_not_its_upper_one() -> None:
    ring = filled(Ring(10**6, 0), 10, 20, 30)
    assert read(ring, 10, 30) == [10, 20]
    assert read(ring, 11, 31) == [20, 30]
    assert read(ring, 31, 99) == []


def test_a_limit_cuts_the_newest_off() -> None:
    assert read(filled(Ring(10**6, 0), 1, 2, 3), 0, 99, limit=2) == [1, 2]


def test_what_was_there_before_the_ring_is_not_covered() -> None:
    ring = Ring(10**6, 50)
    assert not ring.covers(50)
    assert ring.covers(51)


def test_the_oldest_are_evicted_and_no_longer_covered() -> None:
    ring = filled(Ring(3 * _ROOM, 0), 1, 2, 3, 4, 5)
    assert len(ring) == 3
    assert not ring.covers(2)
    assert ring.covers(3)
    assert read(ring, 3, 99) == [3, 4, 5]


def test_a_single_message_may_be_larger_than_the_ring() -> None:
    ring = filled(Ring(_ROOM, 0), 1)
    ring.append([message(2, payload_bytes=10_000)])
    ring.check_invariants()
    assert read(ring, 2, 99) == [2]
    assert not ring.covers(1)


def test_an_evicted_message_is_let_go_at_once() -> None:
    """Thousands of large messages would else stay in memory that nobody counts."""
    ring = filled(Ring(2 * _ROOM, 0), *range(1, 101))
    assert ring.size_bytes == 2 * _ROOM
    assert sum(map(len, ring._commits)) == 2


def test_reading_stays_right_when_evicted_places_are_cut_off() -> None:
    ring = Ring(10 * _ROOM, 0)
    for position_us in range(1, 10_001):
        ring.append([message(position_us)])
        if position_us % 97 == 0:
            assert read(ring, position_us - 4, 10**9) == list(range(max(1, position_us - 4), position_us + 1))
    ring.check_invariants()
    assert read(ring, 9_991, 10**9) == list(range(9_991, 10_001))
    assert len(ring._commits) < 5_000


def test_a_range_may_begin_and_end_inside_of_commits() -> None:
    ring = Ring(10**6, 0)
    for first_us in (10, 20, 30):
        ring.append([message(first_us + number) for number in range(5)])
        ring.check_invariants()
    assert read(ring, 12, 32) == [12, 13, 14, 20, 21, 22, 23, 24, 30, 31]
    assert read(ring, 13, 99, limit=3) == [13, 14, 20]
    assert read(ring, 15, 20) == []
    assert read(ring, 16, 21) == [20]


def test_a_large_commit_is_evicted_in_pieces() -> None:
    """It would else stay as a whole in a shard that falls silent."""
    ring = Ring(8 * _ROOM, 0)
    ring.append([message(number) for number in range(1, 101)])
    ring.check_invariants()
    assert ring.size_bytes <= 8 * _ROOM
    assert read(ring, ring.evicted_us + 1, 999)[-1] == 100
    assert len(ring) >= 6
