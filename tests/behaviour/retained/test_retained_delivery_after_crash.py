"""Retained messages that a SUBACK promised, and whose delivery was interrupted (Q7)."""

from pathlib import Path

import pytest

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Unsuback, Unsubscribe
from tests.broker_backends import OpenWorld
from tests.disk_world import DiskWorld, back, payloads
from tests.slow_world import kept, subscribe
from tests.world import Peer

LATER_US = 1_700_000_010_000_000
NAMES = [f"{number:02}" for number in range(10)]


def retain(world: DiskWorld, *messages: tuple[str, bytes], qos: int = 2) -> None:
    writer = world.connect("writer")
    for number, (name, payload) in enumerate(messages):
        writer.send(Publish(f"r/{name}", payload, qos, number + 1 if qos else 0, retain=True))
        if qos == 2:
            writer.send(Ack(PUBREL, number + 1))
    writer.drop()


def ten(world: DiskWorld, qos: int = 2) -> None:
    retain(world, *((name, name.encode()) for name in NAMES), qos=qos)


def restarted(open_world: OpenWorld) -> DiskWorld:
    return open_world(start_us=LATER_US)


def take(peer: Peer, count: int) -> list[str]:
    """That many messages, each completed before the next comes; what follows stays unacknowledged."""
    got: list[str] = []
    for _message in range(count):
        message = peer.take(Publish)
        got.append(message.payload.decode())
        if message.qos == 1:
            peer.send(Ack(PUBACK, message.packet_id))
        elif message.qos == 2:
            peer.send(Ack(PUBREC, message.packet_id))
            released = next(packet for packet in peer.inbox if isinstance(packet, Ack))
            peer.inbox.remove(released)
            peer.send(Ack(PUBCOMP, message.packet_id))
    return got


def rest(peer: Peer) -> list[str]:
    return [payload.decode() for payload in payloads(peer)]


@pytest.mark.parametrize("qos", [1, 2])
def test_retained_messages_that_a_suback_promised_come_after_a_crash(open_world: OpenWorld, qos: int) -> None:
    """Q7: killed before any of them was acknowledged; QoS 2 exactly once, under its packet id."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=3)
    peer.subscribe("r/#", qos=qos)
    first = [(packet.payload, packet.packet_id) for packet in peer.take_all(Publish)]
    assert len(first) == 3
    world.crash()
    with restarted(open_world) as world:
        peer = back(world, "c")
        again = [(packet.payload, packet.packet_id) for packet in peer.inbox if isinstance(packet, Publish)]
        assert rest(peer) == NAMES
        assert again[:3] == first if qos == 2 else again[:3] != first
        world.tick()
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.retained == {}, "nothing is owed any more"


def test_a_crash_before_the_first_of_them_was_sent_loses_none(open_world: OpenWorld) -> None:
    """Q7: the walk is in the batch of the subscription."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=1)
    peer.subscribe("r/#")
    assert peer.take(Publish).packet_id == 1
    stored = world.stores.sessions.load("c")
    assert stored is not None
    walk = stored.retained[b"r/#"]
    assert (walk.sent, walk.sent_qos2) == (b"", b"r/00")
    world.crash()
    assert [verify_folder(folder).problems for folder in open_world.folders()] == [[]] * len(open_world.folders())
    with restarted(open_world) as world:
        assert rest(back(world, "c")) == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("done", range(0, len(NAMES), 3))
def test_qos_2_comes_exactly_once_wherever_the_walk_is_cut(open_world: OpenWorld, done: int) -> None:
    """Q7, Q1: also what was completed since the progress was stored last."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=2)
    peer.subscribe("r/#")
    got = take(peer, done)
    world.crash()
    with restarted(open_world) as world:
        assert got + rest(back(world, "c")) == NAMES


def test_qos_1_goes_on_where_the_stored_progress_is(open_world: OpenWorld) -> None:
    """Q7: what came since then comes again, and says so."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=2)
    peer.subscribe("r/#", qos=1)
    assert take(peer, 4) == NAMES[:4]
    world.tick()
    assert take(peer, 2) == NAMES[4:6]
    world.crash()
    with restarted(open_world) as world:
        peer = back(world, "c", receive_maximum=20)
        again = [packet for packet in peer.inbox if isinstance(packet, Publish)]
        assert rest(peer) == NAMES[4:]
        assert all(packet.dup and packet.retain for packet in again)


@pytest.mark.parametrize("restart", [False, True], ids=["the broker stays", "the broker restarts"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_connection_that_ends_in_the_middle_loses_and_doubles_nothing(
    open_world: OpenWorld, qos: int, *, restart: bool
) -> None:
    """Q7: what was in flight keeps its packet id [MQTT-4.4.0-1], and says DUP."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=3)
    peer.subscribe("r/#", qos=qos)
    got = take(peer, 4)
    waiting = [(packet.payload, packet.packet_id) for packet in peer.take_all(Publish)]
    peer.drop()
    assert world.client_of("c") is None
    if restart:
        world.__exit__(None, None, None)
        world = restarted(open_world)
    with world:
        peer = back(world, "c")
        again = [packet for packet in peer.inbox if isinstance(packet, Publish)]
        assert [(packet.payload, packet.packet_id) for packet in again[:3]] == waiting
        assert [packet.dup for packet in again[:3]] == [True] * 3
        assert got + rest(peer) == NAMES


def test_only_what_was_in_flight_says_dup_when_the_broker_knows_what_it_sent(tmp_path: Path) -> None:
    """Q7: one node stores what it has sent with the end of a connection; one of a cluster does not know of others."""
    with DiskWorld(tmp_path) as world:
        ten(world)
        peer = kept(world, "c", receive_maximum=3)
        peer.subscribe("r/#", qos=1)
        assert take(peer, 4) == NAMES[:4]
        peer.drop()
        again = [packet for packet in back(world, "c").inbox if isinstance(packet, Publish)]
        assert [packet.dup for packet in again] == [True] * 3 + [False] * 3


def test_messages_of_both_qos_are_each_kept_as_theirs(open_world: OpenWorld) -> None:
    """Q7: QoS 2 is stored ahead of QoS 1, which comes again; QoS 0 was for who was there (Q5)."""
    world = open_world()
    for number, name in enumerate(NAMES):
        retain(world, (name, name.encode()), qos=(1, 2, 0)[number % 3])
    peer = kept(world, "c", receive_maximum=5)
    peer.subscribe("r/#")
    assert peer.payloads() == [name.encode() for name in NAMES[:7]]
    world.crash()
    with restarted(open_world) as world:
        assert rest(back(world, "c")) == ["01", "04", "00", "03", "06", "07", "09"]


def test_what_was_acknowledged_before_a_later_commit_does_not_come_again(open_world: OpenWorld) -> None:
    """Q7: how far the delivery is goes with the session's progress, which the commits of QoS 2 take along."""
    world = open_world()
    for number, name in enumerate(NAMES):
        retain(world, (name, name.encode()), qos=1 + number % 2)
    peer = kept(world, "c", receive_maximum=2)
    peer.subscribe("r/#")
    assert take(peer, 8) == NAMES[:8]
    world.crash()
    with restarted(open_world) as world:
        assert rest(back(world, "c")) == ["08", "09"]


def test_a_qos_0_subscription_is_owed_nothing_later(open_world: OpenWorld) -> None:
    """Q5."""
    with open_world() as world:
        ten(world)
        peer = kept(world, "c")
        peer.subscribe("r/#", qos=0)
        assert rest(peer) == NAMES
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.retained == {}


def test_what_vanished_meanwhile_is_skipped_and_what_changed_comes_as_live(open_world: OpenWorld) -> None:
    """Q7: nothing comes in two versions, neither in flight nor in the rest of the walk."""
    world = open_world()
    ten(world, qos=1)
    peer = kept(world, "c", receive_maximum=2)
    peer.subscribe("r/#", qos=1)
    assert take(peer, 2) == ["00", "01"]
    peer.drop()  # 02 and 03 are in flight
    retain(world, ("02", b""), ("03", b"new 3"), ("06", b""), ("07", b"new 7"), ("99", b"new"), qos=1)
    world.__exit__(None, None, None)
    with restarted(open_world) as world:
        peer = back(world, "c")
        came = [(packet.payload.decode(), packet.retain) for packet in peer.inbox if isinstance(packet, Publish)]
        assert rest(peer) == [payload for payload, _retain in came]
        assert came == [
            *((name, True) for name in ("04", "05", "08", "09")),
            *((text, False) for text in ("", "new 3", "", "new 7", "new")),
        ]


def test_a_qos_2_message_in_flight_is_completed_though_its_topic_changed(open_world: OpenWorld) -> None:
    """Q1, Q7."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=1)
    peer.subscribe("r/#")
    first = peer.take(Publish)
    world.crash()
    with restarted(open_world) as world:
        retain(world, ("00", b""))
        peer = back(world, "c", receive_maximum=1)
        again = peer.take(Publish)
        assert (again.payload, again.packet_id, again.dup) == (b"00", first.packet_id, True)


def test_an_unsubscribe_ends_the_walk_for_good(open_world: OpenWorld) -> None:
    """[MQTT-3.10.4-2], [MQTT-3.10.4-3]: what was begun is completed, nothing is added."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=1)
    peer.subscribe("r/#", qos=1)
    peer.take(Publish)
    peer.send(Unsubscribe(9, (parse_filter(b"r/#"),)))
    peer.take(Unsuback)
    peer.subscribe("r/#", qos=1, packet_id=10, retain_handling=2)
    peer.drop()
    world.__exit__(None, None, None)
    with restarted(open_world) as world:
        assert rest(back(world, "c")) == ["00"]


def test_a_new_subscribe_begins_the_walk_anew(open_world: OpenWorld) -> None:
    """Q7: the walk that it replaces does not go on under its name, not even until the SUBACK."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=1)
    peer.subscribe("r/#")
    assert take(peer, 5) == NAMES[:5]
    sixth = peer.take(Publish).packet_id
    peer.send(Ack(PUBREC, sixth))
    peer.send(subscribe("r/#", qos=2), Ack(PUBCOMP, sixth))
    world.crash()
    with restarted(open_world) as world:
        assert rest(back(world, "c")) == NAMES


def test_the_end_of_a_walk_does_not_end_the_next_one(open_world: OpenWorld) -> None:
    """Q7: the end is stored lazily, and by then the filter may have another walk."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=3)
    peer.subscribe("r/#", qos=1)
    assert take(peer, 10) == NAMES
    peer.subscribe("r/#", qos=1, packet_id=2)
    world.tick()
    world.crash()
    with restarted(open_world) as world:
        assert rest(back(world, "c")) == NAMES


def test_a_walk_that_came_to_its_end_is_not_begun_again(open_world: OpenWorld) -> None:
    world = open_world()
    ten(world)
    peer = kept(world, "c")
    peer.subscribe("r/#")
    assert rest(peer) == NAMES
    world.tick()
    world.crash()
    with restarted(open_world) as world:
        assert rest(back(world, "c")) == []
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.retained == {}


def test_a_subscription_without_retained_messages_stores_no_walk(open_world: OpenWorld) -> None:
    """Most subscriptions find nothing: they cost one record, as before."""
    with open_world() as world:
        peer = kept(world, "c")
        peer.subscribe("a", "$SYS/#")
        peer.inbox.clear()
        stored = world.stores.sessions.load("c")
        assert stored is not None
        assert stored.retained == {}


def test_a_second_crash_finds_the_walk_where_the_first_run_and_the_second_left_it(open_world: OpenWorld) -> None:
    """Q7: over any number of runs."""
    world = open_world()
    ten(world)
    peer = kept(world, "c", receive_maximum=1)
    peer.subscribe("r/#")
    got = take(peer, 2)
    for run in range(1, 4):
        world.crash()
        world = open_world(start_us=LATER_US + run * 60_000_000)
        got += take(back(world, "c", receive_maximum=1), 2)
    world.crash()
    with open_world(start_us=LATER_US + 240_000_000) as world:
        assert got + rest(back(world, "c")) == NAMES


def test_a_walk_in_the_skipped_stretch_keeps_its_second_mark(open_world: OpenWorld) -> None:
    """Q7: a progress that is stored there must not bring back what QoS 2 has passed."""
    world = open_world()
    retain(world, *((name, name.encode()) for name in NAMES[:4]), qos=1)
    retain(world, *((name, name.encode()) for name in NAMES[4:]), qos=2)
    peer = kept(world, "c", receive_maximum=7)
    peer.subscribe("r/#")
    assert peer.payloads() == [name.encode() for name in NAMES[:7]], "and none of them is acknowledged"
    world.crash()
    world = restarted(open_world)
    peer = back(world, "c", receive_maximum=2)
    assert take(peer, 3) == ["04", "05", "06"], "QoS 2, in flight when it crashed"
    assert take(peer, 1) == ["00"]
    world.tick()
    world.crash()
    with open_world(start_us=LATER_US + 60_000_000) as world:
        came = rest(back(world, "c"))
        assert sorted(set(came)) == ["01", "02", "03", "07", "08", "09"]
        assert [came.count(name) for name in NAMES[7:]] == [1, 1, 1]
