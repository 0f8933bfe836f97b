"""Positions whatever the clock does; see also tests/unit/durable/test_positions.py."""

from pathlib import Path

import pytest

from holdfast.durable.positions import MAX_LEAP_US
from holdfast.durable.zones import MEMORY
from tests.replays import resumed_replay
from tests.unit.storage.rocks.log.store import HOUR_US, SECOND_US, OpenStore, Store, drain, places, zone


@pytest.mark.cluster_too
def test_positions_increase_when_the_clock_steps_back_an_hour(store: Store) -> None:
    """L14."""
    before = store.publish("a", "a")
    store.clock.step_wall(-HOUR_US)
    after = store.publish("a", "a")
    positions = [message.position_us for message in before + after]
    assert positions == sorted(set(positions))
    assert places(store.read()) == places(before + after)


@pytest.mark.cluster_too
def test_positions_increase_when_a_turn_has_more_messages_than_microseconds(store: Store) -> None:
    """L14."""
    many = store.publish(*["a"] * 3_000)
    positions = [message.position_us for message in many]
    assert positions == list(range(positions[0], positions[0] + 3_000))


def test_a_clock_that_leaps_ahead_is_not_followed_until_it_is_confirmed(store: Store) -> None:
    """Positions never go back, so one second with a wrong clock would be for good."""
    (first,) = store.publish("a")
    store.clock.step_wall(1_000 * HOUR_US)
    (second,) = store.publish("a")
    assert second.position_us - first.position_us < MAX_LEAP_US
    assert store.log.time.leap_us > MAX_LEAP_US
    store.log.time.confirm()
    (third,) = store.publish("a")
    assert third.position_us >= first.position_us + 1_000 * HOUR_US
    assert places(store.read()) == places([first, second, third])


def test_a_leap_does_not_end_a_generation_or_drop_one(store: Store) -> None:
    """Retention goes by the trusted time: a wrong clock deletes nothing."""
    store.publish("a")
    store.rotate()
    store.publish("a")
    store.clock.step_wall(1_000 * HOUR_US)
    store.maintenance.tick()
    assert places(store.read()) == places(store.written)


@pytest.mark.cluster_too
def test_no_position_repeats_over_restarts_with_a_clock_that_steps_back(store: Store) -> None:
    """Q9."""
    for _ in range(4):
        store.publish("a", "a")
        store.clock.step_wall(-HOUR_US)
        store.reopen()
    positions = [message.position_us for message in store.written]
    assert positions == sorted(set(positions))
    assert places(store.read()) == places(store.written)


@pytest.mark.cluster_too
def test_positions_go_on_above_the_ceiling_when_retention_has_emptied_the_shard(store: Store) -> None:
    """Q9: never below a cursor, though nothing is left in the log to tell."""
    store.publish("a", "a")
    replay = store.replay()
    drain(replay)
    cursor = replay.cursor()
    store.rotate()
    store.drop_oldest()
    store.clock.step_wall(-HOUR_US)
    store.reopen()
    (message,) = store.publish("b")
    assert message.position_us > cursor.done[0]
    assert drain(resumed_replay(store.reader, (b"#",), cursor, 0))[0] == [message]


def test_a_lax_shards_position_is_below_its_synced_ceiling_whenever_it_is_shown(tmp_path: Path) -> None:
    """Q9: what a reader saw of a `memory` zone may be lost, but its place is not given to another message."""
    store = Store(tmp_path / "data", default=zone("default", durability=MEMORY))
    shard = store.zone_log().shards[0]
    for _ in range(30):
        store.clock.advance(SECOND_US)
        store.write(store.message("a"))
        assert all(message.position_us <= shard.clock.ceiling_us for message in store.read())
    store.settle()
    assert places(store.read()) == places(store.written)
    store.close()


def test_a_shard_that_comes_late_to_a_generation_stays_inside_it_after_a_restart(tmp_path: Path) -> None:
    """A generation begins above the clocks of all its shards; one that was far behind must not fall back below."""
    store = Store(tmp_path / "data", default=zone("default", shards=2))
    publishers = {store.log.zones.shard_of(store.log.zones.default, f"p{n}"): f"p{n}" for n in range(20)}
    store.publish("a", publisher=publishers[0])
    store.clock.step_wall(-HOUR_US)
    store.rotate()
    store.reopen()
    store.publish("a", publisher=publishers[1])
    assert store.written[-1].position_us >= store.zone_log().live[-1].record.start_us
    assert sorted(places(store.read())) == sorted(places(store.written))
    store.close()


def test_another_zones_messages_come_later_even_if_the_clock_stepped_back_before_the_topic_moved(
    open_store: OpenStore,
) -> None:
    """L1: a topic that a new zone takes over goes on above what the old one gave out."""
    store = open_store()
    store.publish("x/1", "x/1")
    store.clock.step_wall(-HOUR_US)
    store.reopen(zone("x", "x/#"))
    store.publish("x/1")
    assert places(store.read(by_time=True)) == places(store.written)


def test_a_batch_that_brings_its_time_is_placed_by_it_and_by_no_clock(store: Store) -> None:
    """A12: what every node of a cluster has to place alike must not depend on when a node comes to it."""
    given_us = store.clock.wall_us() + HOUR_US
    store.write(store.message("a"), store.message("a"), time_us=given_us)
    store.clock.advance(SECOND_US)
    store.write(store.message("a"), time_us=given_us - SECOND_US)
    assert [message.position_us for message in store.written] == [given_us, given_us + 1, given_us + 2]
    store.settle()
