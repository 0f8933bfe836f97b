"""The broker on a disk: what a restart finds, what a session is owed, and the way from history to the present."""

from pathlib import Path

import pytest

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connack, Connect, Publish, Suback, Subscribe, Subscription, Will
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld
from tests.slow_world import connect, kept
from tests.world import Peer

SECOND_US = 1_000_000


def payloads(peer: Peer) -> list[bytes]:
    """What came, acknowledged as it comes, until nothing more does."""
    got: list[bytes] = []
    while peer.inbox:
        packet = peer.inbox.pop(0)
        if isinstance(packet, Publish):
            got.append(packet.payload)
            if packet.qos == 1:
                peer.send(Ack(PUBACK, packet.packet_id))
            elif packet.qos == 2:
                peer.send(Ack(PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            peer.send(Ack(PUBCOMP, packet.packet_id))
    return got


def back(world: DiskWorld, client_id: str, **options: int) -> Peer:
    """A client with a persistent session, which had to be there."""
    peer = world.peer()
    peer.send(connect(client_id, **options))
    assert peer.take(Connack).session_present
    return peer


def publish(world: DiskWorld, *messages: tuple[str, bytes], qos: int = 1) -> None:
    writer = world.connect("writer")
    writer.send(*(Publish(topic, payload, qos, i + 1) for i, (topic, payload) in enumerate(messages)))
    if qos == 2:
        writer.send(*(Ack(PUBREL, i + 1) for i in range(len(messages))))
    writer.drop()


def test_what_was_acknowledged_is_delivered_after_a_restart(tmp_path: Path) -> None:
    """M6, Q5: QoS 1 and 2 come, QoS 0 does not."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        reader.subscribe("a/#")
        reader.drop()
        publish(world, ("a/1", b"1"), ("a/2", b"2"))
        publish(world, ("a/3", b"3"), qos=2)
        world.connect("other").send(Publish("a/0", b"0"))
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "c")) == [b"1", b"2", b"3"]


def test_an_offline_session_has_no_object(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        reader.subscribe("a/#")
        reader.drop()
        assert "c" not in world.broker.sessions.clients
        assert world.broker.exchange.plan_for(b"a/1").empty
        publish(world, ("a/1", b"1"))
        assert payloads(back(world, "c")) == [b"1"]


def test_a_slow_session_reads_the_log_and_is_live_again(tmp_path: Path) -> None:
    """L13: without a gap and without a duplicate."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c", receive_maximum=3)
        reader.subscribe("a")
        expected = [b"%d" % number for number in range(20)]
        publish(world, *(("a", payload) for payload in expected))
        assert payloads(reader) == expected
        assert not world.broker.sessions.clients["c"].behind
        publish(world, ("a", b"live"))
        assert payloads(reader) == [b"live"]


def test_what_is_in_flight_keeps_its_packet_id_and_order_over_a_restart(tmp_path: Path) -> None:
    """Q1."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        reader.subscribe("a")
        publish(world, ("a", b"1"))
        publish(world, ("a", b"2"), qos=2)
        publish(world, ("a", b"3"))
        sent = [(packet.payload, packet.packet_id) for packet in reader.take_all(Publish)]
        reader.drop()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        again = back(world, "c").take_all(Publish)
        assert [(packet.payload, packet.packet_id) for packet in again] == sent
        assert all(packet.dup for packet in again)


def test_a_completed_qos_2_message_does_not_come_again_after_a_crash(tmp_path: Path) -> None:
    """Q1: though the progress that was stored last is older."""
    world = DiskWorld(tmp_path)
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, ("a", b"once"), qos=2)
    assert payloads(reader) == [b"once"]
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "c")) == []


def test_qos_1_since_the_last_progress_comes_again_and_says_so(tmp_path: Path) -> None:
    """Q4: under packet ids that no late acknowledgement can hit."""
    world = DiskWorld(tmp_path)
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, ("a", b"1"))
    first = reader.take(Publish)
    reader.send(Ack(PUBACK, first.packet_id))
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        again = back(world, "c").take(Publish)
        assert (again.payload, again.dup) == (b"1", True)
        assert again.packet_id != first.packet_id


def test_acknowledged_progress_is_stored_once_a_second(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path)
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, ("a", b"1"))
    assert payloads(reader) == [b"1"]
    world.tick()
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "c")) == []


def test_a_resubscribe_keeps_the_backlog(tmp_path: Path) -> None:
    """Q3."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c", receive_maximum=1)
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"1"), ("a", b"2"), ("a", b"3"))
        first = reader.take(Publish)
        reader.subscribe("a", qos=1)
        reader.send(Ack(PUBACK, first.packet_id))
        assert payloads(reader) == [b"2", b"3"]


def test_an_incoming_qos_2_message_is_taken_once_over_a_crash(tmp_path: Path) -> None:
    """Q2."""
    world = DiskWorld(tmp_path)
    reader = kept(world, "c")
    reader.subscribe("a")
    reader.drop()
    writer = kept(world, "w")
    writer.send(Publish("a", b"once", 2, 7))
    assert writer.take(Ack).kind == PUBREC
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        writer = back(world, "w")
        writer.send(Publish("a", b"once", 2, 7, dup=True))
        assert writer.take(Ack).kind == PUBREC
        writer.send(Ack(PUBREL, 7))
        assert writer.take(Ack).kind == PUBCOMP
        assert payloads(back(world, "c")) == [b"once"]


def test_retained_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    """M1, M2."""
    with DiskWorld(tmp_path) as world:
        world.connect("w").send(Publish("r/1", b"x", 1, 1, retain=True), Publish("r/2", b"y", 0, retain=True))
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        reader = world.connect("c")
        reader.subscribe("r/#")
        assert sorted(payloads(reader)) == [b"x", b"y"]


def test_a_session_that_expired_while_the_broker_was_down_is_gone(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        kept(world, "c").drop()
    with DiskWorld(tmp_path, start_us=1_700_000_200_000_000) as world:
        world.tick()
        assert world.stores.sessions.load("c") is None
        peer = world.peer()
        peer.send(connect("c"))
        assert not peer.take(Connack).session_present


def test_the_will_of_who_was_connected_at_a_crash_is_published_after_the_grace(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path)
    reader = kept(world, "reader")
    reader.subscribe("w")
    reader.drop()
    peer = world.peer()
    peer.send(Connect(V5, "dying", will=Will("w", b"bye", 1)))
    peer.take(Connack)
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        reader = back(world, "reader")
        world.tick(20)
        assert payloads(reader) == []
        world.tick(15)
        assert payloads(reader) == [b"bye"]
        assert world.stores.sessions.load("dying") is None


def test_a_will_whose_delay_ran_out_while_the_broker_was_down_is_published_at_the_start(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader")
        reader.subscribe("w")
        will = Will("w", b"late", 1, properties=Properties(will_delay_interval=5))
        peer = world.peer()
        peer.send(Connect(V5, "c", properties=Properties(session_expiry_interval=100), will=will))
        peer.take(Connack)
        peer.drop()
        reader.drop()
    with DiskWorld(tmp_path, start_us=1_700_000_020_000_000) as world:
        reader = back(world, "reader")
        assert payloads(reader) == [b"late"]
        reader.drop()
    with DiskWorld(tmp_path, start_us=1_700_000_030_000_000) as world:
        assert payloads(back(world, "reader")) == [], "once"


# ---- replays


def replay(peer: Peer, text: str, qos: int = 2, **user: str) -> list[int]:
    asked = tuple((name.replace("_", "-"), value) for name, value in user.items())
    lines = (Subscription(parse_filter(text.encode()), qos),)
    peer.send(Subscribe(9, lines, Properties(user_properties=asked)))
    suback = peer.take(Suback)
    return list(suback.reasons)


@pytest.mark.parametrize("by_filter", [True, False])
def test_a_replay_gives_history_and_then_what_is_live(tmp_path: Path, by_filter: bool) -> None:
    """L13, L16: by the filter in any version, by a user property in MQTT 5."""
    with DiskWorld(tmp_path) as world:
        publish(world, ("a/1", b"1"), ("b", b"no"), ("a/2", b"2"))
        world.connect("zero").send(Publish("a/0", b"0"))
        reader = world.connect("c", properties=Properties(receive_maximum=2))
        if by_filter:
            assert replay(reader, "$replay/earliest/a/#", qos=1) == [1]
        else:
            assert replay(reader, "a/#", qos=1, replay_from="earliest") == [1]
        assert payloads(reader) == [b"1", b"2", b"0"]
        publish(world, ("a/3", b"3"))
        assert payloads(reader) == [b"3"]
        assert reader.inbox == []


def test_a_replay_starts_at_a_time(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"old"))
        world.advance(3600)
        publish(world, ("a", b"new"))
        reader = world.connect("c")
        assert replay(reader, "$replay/-10m/a", qos=1) == [1]
        assert payloads(reader) == [b"new"]


def test_a_replayed_message_says_when_and_where_it_was_stored(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"1"))
        reader = world.connect("c")
        replay(reader, "$replay/earliest/a", qos=0)
        message = reader.take(Publish)
        told = dict(message.properties.user_properties)
        assert told["ts"] == str(world.clock.wall_us())
        assert told["offset"].startswith("0:")


def test_a_replay_may_end(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"1"))
        world.advance(100)
        publish(world, ("a", b"2"))
        reader = world.connect("c")
        assert replay(reader, "a", replay_from="earliest", replay_until="-50s") == [2]
        assert payloads(reader) == [b"1"]
        publish(world, ("a", b"3"))
        assert payloads(reader) == []


def test_a_bad_start_is_refused_with_a_reason_and_the_connection_stays(tmp_path: Path) -> None:
    """L16."""
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c")
        assert replay(reader, "$replay/yesterday/a") == [TOPIC_FILTER_INVALID]
        assert replay(reader, "a", replay_until="latest") == [TOPIC_FILTER_INVALID]
        assert not reader.closed


def test_a_persistent_session_goes_on_with_its_replay_after_a_crash(tmp_path: Path) -> None:
    """L3, Q1: exactly once for QoS 2."""
    world = DiskWorld(tmp_path)
    publish(world, *(("a", b"%d" % number) for number in range(10)), qos=2)
    reader = kept(world, "c", receive_maximum=3)
    replay(reader, "$replay/earliest/a")
    first = reader.take_all(Publish)
    assert [packet.payload for packet in first] == [b"0", b"1", b"2"]
    reader.send(Ack(PUBREC, first[0].packet_id))
    assert reader.take(Ack).kind == PUBREL
    reader.send(Ack(PUBCOMP, first[0].packet_id))
    assert [packet.payload for packet in reader.take_all(Publish)] == [b"3"]
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        reader = back(world, "c")
        assert payloads(reader) == [b"%d" % number for number in range(1, 10)]
        publish(world, ("a", b"live"))
        assert payloads(reader) == [b"live"]


def test_a_group_shares_a_replay_and_the_first_to_join_says_where_it_begins(tmp_path: Path) -> None:
    """L15."""
    with DiskWorld(tmp_path) as world:
        publish(world, *(("a", b"%d" % number) for number in range(6)))
        one = world.connect("one", properties=Properties(receive_maximum=2))
        two = world.connect("two", properties=Properties(receive_maximum=2))
        replay(one, "$share/g/$replay/earliest/a", qos=1)
        replay(two, "$share/g/$replay/latest/a", qos=1)
        got = payloads(one)
        got += payloads(two)
        got += payloads(one)
        assert sorted(got) == [b"%d" % number for number in range(6)]
        publish(world, ("a", b"live"))
        assert payloads(one) + payloads(two) == [b"live"]


def test_no_message_is_seen_twice_by_a_subscription_and_a_replay_of_one_filter(tmp_path: Path) -> None:
    """A replay in place of a subscription: one stream from then on."""
    with DiskWorld(tmp_path) as world:
        reader = world.connect("c")
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"1"))
        assert payloads(reader) == [b"1"]
        assert replay(reader, "a", qos=1, replay_from="earliest") == [1]
        assert payloads(reader) == [b"1"]
        publish(world, ("a", b"2"))
        assert payloads(reader) == [b"2"]


def test_the_end_of_a_replay_survives_a_reconnect(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"1"))
        world.advance(100)
        reader = kept(world, "c")
        replay(reader, "a", replay_from="earliest", replay_until="-50s")
        assert payloads(reader) == [b"1"]
        reader.drop()
    with DiskWorld(tmp_path, start_us=1_700_000_150_000_000) as world:
        reader = back(world, "c")
        publish(world, ("a", b"2"))
        assert payloads(reader) == []


def test_a_group_keeps_its_backlog_over_a_restart_without_a_member_online(tmp_path: Path) -> None:
    """L15: and what is published before somebody returns."""
    with DiskWorld(tmp_path) as world:
        member = kept(world, "m")
        member.subscribe("$share/g/a", qos=1)
        publish(world, ("a", b"1"))
        assert payloads(member) == [b"1"]
        world.tick()
        member.drop()
        publish(world, ("a", b"2"))
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        publish(world, ("a", b"3"))
        assert payloads(back(world, "m")) == [b"2", b"3"]


def test_a_qos_2_message_that_was_assigned_goes_to_no_other_member_after_a_crash(tmp_path: Path) -> None:
    """Q10."""
    world = DiskWorld(tmp_path)
    one, two = kept(world, "one"), kept(world, "two")
    one.subscribe("$share/g/a")
    two.subscribe("$share/g/a")
    publish(world, ("a", b"1"), ("a", b"2"), qos=2)
    first = [packet.payload for packet in one.take_all(Publish)]
    second = [packet.payload for packet in two.take_all(Publish)]
    assert sorted(first + second) == [b"1", b"2"]
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "one")) == first
        assert payloads(back(world, "two")) == second


def test_a_zone_that_is_not_stored_keeps_what_it_owes_in_memory(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, unstored="u/#") as world:
        reader = kept(world, "c")
        reader.subscribe("u/#", qos=1)
        reader.drop()
        publish(world, ("u/1", b"1"))
        assert payloads(back(world, "c")) == [b"1"]
