"""Events are merged, bounded, and taken once."""

import pytest

from holdfast.exchange.drops import DROP_DENIED, DROP_EXPIRED, DROP_SLOW, KEPT, MAX_KINDS, Drops
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.events import CUT, MAX_NAME_BYTES, Event

pytestmark = pytest.mark.compiled

START_US = 1_700_000_000_000_000


def message(topic: bytes = b"a/b", position_us: int = 0, shard: int = 0) -> Message:
    made = Message(topic, b"x", 1, ClientId("sender"), START_US)
    made.position_us = position_us
    made.shard = shard
    return made


def new_drops() -> Drops:
    return Drops()


def test_the_same_thing_within_a_second_is_one_event_with_a_count() -> None:
    drops = new_drops()
    for number in range(1000):
        drops.drop(DROP_SLOW, "c", message(position_us=5000 + number, shard=3), START_US + number, "why")
    assert drops.counters.drops == {DROP_SLOW: 1000}
    assert drops.take() == [
        Event(START_US, DROP_SLOW, "c", "a/b", shard=3, from_us=5000, to_us=5999, count=1000, detail="why")
    ]


def test_another_client_topic_shard_reason_or_second_is_another_event() -> None:
    drops = new_drops()
    drops.drop(DROP_SLOW, "c", message(), START_US)
    drops.drop(DROP_SLOW, "d", message(), START_US)
    drops.drop(DROP_SLOW, "c", message(b"other"), START_US)
    drops.drop(DROP_SLOW, "c", message(shard=1, position_us=7), START_US)
    drops.drop(DROP_DENIED, "c", message(), START_US)
    drops.drop(DROP_SLOW, "c", message(), START_US + 999_999)
    drops.drop(DROP_SLOW, "c", message(), START_US + 1_000_000)
    assert [(event.client, event.topic, event.count) for event in drops.take()] == [
        ("c", "a/b", 2),
        ("d", "a/b", 1),
        ("c", "other", 1),
        ("c", "a/b", 1),
        ("c", "a/b", 1),
        ("c", "a/b", 1),
    ]


def test_a_flood_of_one_reason_is_bounded_and_counted_and_leaves_room_for_others() -> None:
    drops = new_drops()
    for number in range(10 * MAX_KINDS):
        drops.drop(DROP_DENIED, f"c{number}", message(b"t/%d" % number), START_US)
    drops.drop(DROP_EXPIRED, "c", message(), START_US)
    events = drops.take()
    assert len(events) == MAX_KINDS + 2
    assert sum(event.count for event in events if event.reason == DROP_DENIED) == 10 * MAX_KINDS
    rest = next(event for event in events if event.reason == DROP_DENIED and not event.client)
    assert (rest.topic, rest.count) == ("", 9 * MAX_KINDS)


def test_events_are_taken_once_and_the_newest_stay_to_be_looked_at() -> None:
    drops = new_drops()
    assert drops.take() == []
    for second in range(3 * KEPT):
        drops.drop(DROP_EXPIRED, "c", message(), START_US + second * 1_000_000)
    taken = drops.take()
    assert len(taken) == KEPT == len(drops.recent)
    assert taken[-1].time_us == START_US + (3 * KEPT - 1) * 1_000_000
    assert drops.take() == []
    drops.drop(DROP_EXPIRED, "c", message(), START_US)
    assert [event.time_us for event in drops.take()] == [START_US]
    assert len(drops.recent) == KEPT


def test_nothing_is_noted_for_a_count_of_zero() -> None:
    drops = new_drops()
    drops.lose(DROP_EXPIRED, "c", 0, START_US)
    assert (drops.take(), drops.counters.drops) == ([], {})


def test_long_names_are_cut_and_show_it() -> None:
    drops = new_drops()
    drops.drop(DROP_DENIED, "c" * 70_000, message("é".encode() * 30_000), START_US)
    (event,) = drops.take()
    assert event.client == "c" * MAX_NAME_BYTES + CUT
    assert event.topic == "é" * (MAX_NAME_BYTES // 2) + CUT


def test_a_clock_that_was_set_back_begins_another_second() -> None:
    drops = new_drops()
    drops.drop(DROP_SLOW, "c", message(), START_US)
    drops.drop(DROP_SLOW, "c", message(), START_US - 3_600_000_000)
    assert [event.count for event in drops.take()] == [1, 1]
