"""Groups that begin in the past: the first member says where, all members work, a group that ended is over."""

from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.records.session.groups import GROUP_PREFIX, group_key, member_key
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.wire.packets import Publish
from tests.broker_backends import OpenWorld
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.group_world import join, leave, work
from tests.slow_world import kept

HISTORY = [b"%d" % number for number in range(10)]
LATER_US = 1_700_000_100_000_000


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("text", ["$share/g/a", "$share/g/$replay/earliest/a"])
def test_the_members_of_a_group_split_history_and_both_of_them_work(open_world: OpenWorld, text: str, qos: int) -> None:
    """L15, L16: by the user property as by the filter."""
    with open_world() as world:
        one, two = kept(world, "one", receive_maximum=2), kept(world, "two", receive_maximum=2)
        publish(world, *(("a", payload) for payload in HISTORY), qos=qos)
        for peer in (one, two):
            suback = join(peer, text) if "$replay" in text else join(peer, text, replay_from="earliest")
            assert list(suback.reasons) == [1]
        ones, twos = work(one, two)
        assert sorted(ones + twos) == HISTORY
        if qos:
            assert min(len(ones), len(twos)) >= 3, "one of them got next to nothing"


def test_the_first_member_says_where_a_group_begins_and_suback_tells_the_others(open_world: OpenWorld) -> None:
    """L15: first client wins, whatever later ones ask for."""
    with open_world() as world:
        publish(world, ("a", b"before"))
        world.advance(1)
        one, two = kept(world, "one"), kept(world, "two")
        suback = join(one, replay_from="latest")
        assert ("replay-from", "1700000001000000") in suback.properties.user_properties
        world.advance(5)
        suback = join(two, replay_from="earliest")
        assert ("replay-from", "1700000001000000") in suback.properties.user_properties
        assert payloads(one) == payloads(two) == []


def test_history_comes_to_a_group_with_its_time_and_place_and_live_messages_without(open_world: OpenWorld) -> None:
    with open_world() as world:
        publish(world, ("a", b"then"))
        peer = kept(world, "one")
        join(peer, replay_from="earliest")
        assert [name for name, _value in peer.take(Publish).properties.user_properties] == ["ts", "offset"]
        world.tick()  # in a cluster, the leader of a group says once a second that it is in the present
        publish(world, ("a", b"now"))
        assert peer.take(Publish).properties.user_properties == ()


def test_a_group_in_the_past_reads_qos_0_from_the_log_and_sends_none_twice(open_world: OpenWorld) -> None:
    """L13 for groups: a QoS 0 message that is published meanwhile comes in its place, once."""
    with open_world() as world:
        publish(world, ("a", b"1"), ("a", b"2"))
        peer = kept(world, "one", receive_maximum=1)
        join(peer, replay_from="earliest")
        publish(world, ("a", b"3"), qos=0)
        publish(world, ("a", b"4"))
        assert payloads(peer) == [b"1", b"2", b"3", b"4"]
        publish(world, ("a", b"5"), qos=0)
        assert payloads(peer) == [b"5"]
        peer.drop()
        publish(world, ("a", b"6"), qos=0)
        publish(world, ("a", b"7"))
        assert payloads(back(world, "one")) == [b"7"], "who is in the present gets no QoS 0 that it was not there for"


def test_a_group_goes_on_with_history_where_it_was_after_a_crash(open_world: OpenWorld) -> None:
    """L15, M6: with QoS 0 of the past, which a group in the present would leave out."""
    world = open_world()
    publish(world, ("a", b"1"))
    publish(world, ("a", b"2"), qos=0)
    publish(world, ("a", b"3"))
    peer = kept(world, "one", receive_maximum=1)
    join(peer, replay_from="earliest")
    world.crash()
    with open_world(start_us=LATER_US) as world:
        got = payloads(back(world, "one"))
        assert list(dict.fromkeys(got)) == [b"1", b"2", b"3"]


def test_a_group_begins_where_its_first_member_said_though_another_is_back_first(open_world: OpenWorld) -> None:
    """L15: the broker ends before anybody took anything."""
    world = open_world()
    publish(world, *(("a", payload) for payload in HISTORY))
    one = kept(world, "one", receive_maximum=1)
    join(one, replay_from="earliest")
    world.advance(5)
    two = kept(world, "two", receive_maximum=1)
    join(two, replay_from="latest")
    two.drop()
    world.crash()
    with open_world(start_us=LATER_US) as world:
        got = payloads(back(world, "two"))
        assert sorted(set(got)) == HISTORY


@pytest.mark.parametrize("restart", [False, True])
def test_a_group_that_has_ended_begins_anew_where_its_next_first_member_says(
    open_world: OpenWorld, restart: bool
) -> None:
    """L15: nothing of a group is left when its last member has gone."""
    world = open_world()
    publish(world, ("a", b"1"), ("a", b"2"))
    one = kept(world, "one")
    join(one, replay_from="earliest")
    assert payloads(one) == [b"1", b"2"]
    world.tick()
    leave(one)
    stored = world.stores.sessions.load("\0group\0$share/g/a")
    assert stored is None
    if restart:
        world.crash()
        world = open_world(start_us=LATER_US)
    with world:
        two = kept(world, "two")
        join(two, replay_from="earliest")
        assert payloads(two) == [b"1", b"2"]


def test_a_group_lives_while_a_member_is_away_that_was_not_back_since_the_restart(open_world: OpenWorld) -> None:
    """L15: its session is stored, and so is its membership."""
    world = open_world()
    for name in ("one", "two"):
        peer = kept(world, name)
        peer.subscribe("$share/g/a", qos=1)
    publish(world, ("a", b"1"))
    world.tick()
    world.crash()
    with open_world(start_us=LATER_US) as world:
        one = back(world, "one")
        payloads(one)
        leave(one)
        publish(world, ("a", b"2"))
        assert payloads(back(world, "two"))[-1:] == [b"2"]


def test_a_group_whose_members_sessions_are_all_over_is_over(open_world: OpenWorld) -> None:
    world = open_world()
    publish(world, ("a", b"1"))
    join(kept(world, "one"), replay_from="latest")
    world.tick()
    world.crash()
    with open_world(start_us=LATER_US) as world:
        world.tick(101)
        world.tick()
        assert world.stores.sessions.load("one") is None, "it has expired"
        two = kept(world, "two")
        join(two, replay_from="earliest")
        assert payloads(two) == [b"1"]


def test_what_one_member_cannot_ask_for_all_of_them_is_refused(open_world: OpenWorld) -> None:
    with open_world() as world:
        peer = kept(world, "one")
        for suback in (
            join(peer, replay_from="earliest", replay_until="latest"),
            join(peer, replay_from="earliest", replay_speed="1"),
            join(peer, replay_from="earliest", replay_end="done"),
        ):
            assert list(suback.reasons) == [TOPIC_FILTER_INVALID]
            assert "are not for groups" in (suback.properties.reason_string or "")


def test_a_group_that_an_earlier_version_stored_goes_on_and_does_not_end_while_members_may_be_away(
    tmp_path: Path,
) -> None:
    """Its members are not listed: nobody knows whether the one that leaves is the last."""
    world = DiskWorld(tmp_path)
    for name in ("one", "two"):
        kept(world, name).subscribe("$share/g/a", qos=1)
    publish(world, ("a", b"1"))
    world.tick()
    name = GROUP_PREFIX + "$share/g/a"
    changes = Changes()
    for key in (group_key(name), member_key(name, "one"), member_key(name, "two")):
        changes.into(SESSIONS).delete(key)
    world.disk.log.write_own(changes)
    world.crash()
    with DiskWorld(tmp_path, start_us=LATER_US) as world:
        one = back(world, "one")
        assert payloads(one) == [b"1"], "it was not acknowledged"
        join(one, share_steal_after="1h")  # makes it store a record, which says that not all members are listed
        world.tick()
        leave(one)
        publish(world, ("a", b"2"))
        two = back(world, "two")
        assert payloads(two)[-1:] == [b"2"]
        stored = world.disk.sessions.load(name)
        assert stored is not None
        assert stored.group is not None
        assert stored.group.unlisted
