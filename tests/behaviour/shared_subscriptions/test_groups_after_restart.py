"""Shared subscriptions whose backlog lies in the log: nothing is lost, doubled or left lying."""

from pathlib import Path

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Suback, Unsuback, Unsubscribe
from tests.broker_backends import OneNode, OpenWorld
from tests.slow_world import SlowWorld, connect, kept, subscribe
from tests.world import Peer


def finish(peer: Peer) -> list[bytes]:
    """Acknowledge everything as it comes; the payloads."""
    got: list[bytes] = []
    while peer.inbox:
        packet = peer.inbox.pop(0)
        if isinstance(packet, Publish):
            got.append(packet.payload)
            peer.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            peer.send(Ack(PUBCOMP, packet.packet_id))
    return got


def test_what_a_leaver_gives_back_is_not_lost_while_others_have_no_room(open_world: OpenWorld) -> None:
    """L15: the group has a backlog already, and what comes back is older than that."""
    with open_world() as world:
        leaver = kept(world, "leaver", receive_maximum=1)
        leaver.subscribe("$share/g/a", qos=1)
        stayer = kept(world, "stayer", receive_maximum=1)
        stayer.subscribe("$share/g/a", qos=1)
        writer = world.connect("writer")
        writer.send(*(Publish("a", b"%d" % number, 1, number) for number in (1, 2, 3, 4)))
        leaver.drop()
        assert sorted(finish(stayer)) == [b"1", b"2", b"3", b"4"]


def test_what_a_leaver_gives_back_does_not_bring_back_what_others_have(open_world: OpenWorld) -> None:
    """Q10: the group's place in the log does not go back with it."""
    with open_world() as world:
        leaver = kept(world, "leaver", receive_maximum=1)
        leaver.subscribe("$share/g/a", qos=2)
        writer = world.connect("writer")
        writer.send(Publish("a", b"1", 1, 1))
        assert leaver.take(Publish).payload == b"1"
        stayer = kept(world, "stayer", receive_maximum=1)
        stayer.subscribe("$share/g/a", qos=2)
        writer.send(Publish("a", b"2", 2, 2))
        leaver.drop()
        assert finish(stayer) == [b"2", b"1"]


def test_a_member_that_returns_with_older_work_does_not_set_the_group_back(open_world: OpenWorld) -> None:
    """Q10: what the stored progress has passed is not remembered as done any more, so it would come twice."""
    world = open_world()
    returner = kept(world, "returner", receive_maximum=1)
    returner.subscribe("$share/g/a", qos=2)
    writer = world.connect("writer")
    writer.send(Publish("a", b"1", 1, 1))
    assert returner.take(Publish).payload == b"1"
    stayer = kept(world, "stayer")
    stayer.subscribe("$share/g/a", qos=2)
    writer.send(Publish("a", b"2", 2, 2))
    assert finish(stayer) == [b"2"]
    returner.send(Unsubscribe(7, (parse_filter(b"$share/g/a"),)))
    assert returner.take(Unsuback).packet_id == 7
    world.tick()
    returner.subscribe("$share/g/a", qos=2, packet_id=8)
    writer.send(Publish("a", b"3", 1, 3))
    assert finish(stayer) == [b"3"]
    world.tick()
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        stayer = world.peer()
        stayer.send(connect("stayer"))
        stayer.inbox.pop(0)
        assert b"2" not in finish(stayer)


def test_a_qos_2_message_goes_to_nobody_else_when_the_member_ended_with_the_broker(open_world: OpenWorld) -> None:
    """Q10: also without a session that is stored; [MQTT-4.8.2-5]."""
    world = open_world()
    other = kept(world, "other")
    other.subscribe("$share/g/a", qos=2)
    other.drop()
    member = world.connect("member")
    member.subscribe("$share/g/a", qos=2)
    writer = world.connect("writer")
    writer.send(Publish("a", b"1", 2, 1))
    assert member.take(Publish).payload == b"1"
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        other = world.peer()
        other.send(connect("other"))
        other.inbox.pop(0)
        assert finish(other) == []


def test_a_group_survives_a_crash_before_its_progress_was_first_stored(open_world: OpenWorld) -> None:
    """M6, L15."""
    with open_world() as world:
        member = kept(world, "member", receive_maximum=1)
        member.subscribe("$share/g/a", qos=1)
        writer = world.connect("writer")
        writer.send(*(Publish("a", b"%d" % number, 1, number) for number in (1, 2, 3)))
    with open_world(start_us=1_700_000_100_000_000) as world:
        member = world.peer()
        member.send(connect("member"))
        member.inbox.pop(0)
        assert finish(member) == [b"1", b"2", b"3"]


def test_a_long_stretch_of_other_messages_does_not_stall_a_group(open_world: OpenWorld) -> None:
    """L15: nothing happens to the group while it looks for its next message."""
    with open_world() as world:
        member = kept(world, "member")
        member.subscribe("$share/g/a", qos=1)
        member.drop()
        writer = world.connect("writer")
        writer.send(Publish("a", b"first", 1, 1))
        for start in range(0, 9000, 1000):
            writer.send(*(Publish("other", b"", 1, 2 + start + number) for number in range(1000)))
        writer.send(Publish("a", b"last", 1, 60_000))
        member = world.peer()
        member.send(connect("member"))
        member.inbox.pop(0)
        assert finish(member) == [b"first", b"last"]


def test_who_subscribes_while_a_message_is_under_way_is_sent_it() -> None:
    """Promise 3: its place is behind the subscription, so a crash would bring it, behind what came after it."""
    with SlowWorld() as world:
        reader = kept(world, "reader")
        writer = world.connect("writer")
        world.hold()
        writer.send(Publish("a", b"1", 1, 1))
        reader.send(subscribe("a"))
        writer.send(Publish("a", b"2", 1, 2))
        world.release()
        reader.take(Suback)
        assert reader.payloads() == [b"1", b"2"]


def test_what_is_stored_of_a_group_does_not_grow_with_its_qos_2_messages(open_world: OpenWorld) -> None:
    """Q10: a message that is done is forgotten when the group's progress has passed it."""
    with open_world() as world:
        member = kept(world, "member")
        member.subscribe("$share/g/a", qos=2)
        writer = world.connect("writer")
        keys: list[int] = []
        for _round in range(5):
            writer.send(*(Publish("a", b"x", 2, number) for number in range(1, 11)))
            writer.send(*(Ack(PUBREL, number) for number in range(1, 11)))
            assert len(finish(member)) == 10
            world.tick()
            world.tick()
            keys.append(world.count_keys(GROUP_PREFIX + "$share/g/a"))
        assert max(keys) == min(keys)


def _share_of(peers: dict[str, Peer]) -> dict[bytes, str]:
    """Which member was sent which message of a group."""
    return {
        packet.payload: name for name, peer in peers.items() for packet in peer.inbox if isinstance(packet, Publish)
    }


def test_what_members_have_acknowledged_does_not_come_again_behind_one_that_rests(tmp_path: Path) -> None:
    """Q10, L15: the group remembers each message that is open, so one member that rests repeats its own work alone."""
    open_world = OneNode(tmp_path)
    world = open_world()
    resting, busy = kept(world, "resting", receive_maximum=1), kept(world, "busy")
    for member in (resting, busy):
        member.subscribe("$share/g/a", qos=1)
    writer = world.connect("writer")
    writer.send(Publish("a", b"first", 1, 1), Publish("a", b"second", 1, 2))
    open_work = [packet.payload for packet in resting.inbox if isinstance(packet, Publish)]
    done = finish(busy)
    writer.send(*(Publish("a", b"%d" % number, 1, 10 + number) for number in range(20)))
    done += finish(busy)
    assert len(open_work) == 1
    assert len(done) == 21
    world.tick()
    world.crash()
    for start_us in (1_700_000_010_000_000, 1_700_000_020_000_000):
        world = open_world(start_us=start_us)
        busy = world.peer()
        busy.send(connect("busy"))
        busy.inbox.pop(0)
        again = [packet.payload for packet in busy.inbox if isinstance(packet, Publish)]
        assert again == open_work
        world.tick()
        world.crash()
    with open_world(start_us=1_700_000_030_000_000) as world:
        busy = world.peer()
        busy.send(connect("busy"))
        busy.inbox.pop(0)
        assert finish(busy) == open_work
        writer = world.connect("writer")
        writer.send(Publish("a", b"new", 1, 1))
        assert finish(busy) == [b"new"]


def test_a_group_that_dies_while_it_catches_up_still_knows_what_was_done(tmp_path: Path) -> None:
    """Q10: the progress that is stored halfway through the messages that were open keeps what lies behind them."""
    open_world = OneNode(tmp_path)
    world = open_world()
    members = {name: kept(world, name, receive_maximum=5) for name in ("one", "two")}
    for member in members.values():
        member.subscribe("$share/g/a", qos=1)
    writer = world.connect("writer")
    writer.send(*(Publish("a", b"%d" % number, 1, 1 + number) for number in range(10)))
    shares = _share_of(members)
    finish(members["two"])
    open_work = sorted(payload for payload, name in shares.items() if name == "one")
    assert len(open_work) == 5
    world.tick()
    world.crash()
    # One at a time: the first of them is in flight when it dies again, the others are not read yet or wait.
    world = open_world(start_us=1_700_000_010_000_000)
    third = kept(world, "third", receive_maximum=1)
    third.subscribe("$share/g/a", qos=1)
    assert [packet.payload for packet in third.inbox if isinstance(packet, Publish)] == open_work[:1]
    world.tick()
    world.crash()
    with open_world(start_us=1_700_000_020_000_000) as world:
        third = world.peer()
        third.send(connect("third"))
        third.inbox.pop(0)
        assert sorted(set(finish(third))) == open_work


def test_what_was_in_flight_to_a_member_is_given_out_once_after_a_crash(tmp_path: Path) -> None:
    """Q10, L15: the group gives it out again, so the session of its member does not send it as well."""
    open_world = OneNode(tmp_path)
    world = open_world()
    members = {name: kept(world, name) for name in ("one", "two")}
    for member in members.values():
        member.subscribe("$share/g/a", qos=1)
    writer = world.connect("writer")
    writer.send(*(Publish("a", b"%d" % number, 1, 1 + number) for number in range(10)))
    done: list[bytes] = []
    for member in members.values():
        # Its progress is stored, with all the others as in flight.
        first = member.take(Publish)
        member.send(Ack(PUBACK, first.packet_id))
        done.append(first.payload)
    world.tick()
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        got: list[bytes] = []
        for name in members:
            peer = world.peer()
            peer.send(connect(name))
            peer.inbox.pop(0)
            got += finish(peer)
        assert sorted(done + got) == [b"%d" % number for number in range(10)]


def test_work_that_a_member_keeps_when_it_leaves_its_group_survives_a_crash(tmp_path: Path) -> None:
    """Q10, L15: the group passes it, so it has to be stored with the session of the member before that."""
    open_world = OneNode(tmp_path)
    world = open_world()
    member, other = kept(world, "member"), kept(world, "other")
    member.subscribe("$share/g/a", qos=1)
    writer = world.connect("writer")
    writer.send(Publish("a", b"1", 1, 1))
    assert member.take(Publish).payload == b"1"
    other.subscribe("$share/g/a", qos=1)
    member.send(Unsubscribe(7, (parse_filter(b"$share/g/a"),)))
    assert member.take(Unsuback).packet_id == 7
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        got: list[bytes] = []
        for name in ("other", "member"):
            peer = world.peer()
            peer.send(connect(name))
            peer.inbox.pop(0)
            got += finish(peer)
        assert b"1" in got
