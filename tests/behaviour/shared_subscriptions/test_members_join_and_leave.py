"""Shared subscriptions when members come and go: nothing stalls, nothing is lost or doubled."""

from pathlib import Path

import pytest

from holdfast.broker.policy import Policy, Sessions
from holdfast.model.protocol import PUBACK
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import (
    Ack,
    Connack,
    Publish,
    Suback,
    Unsuback,
    Unsubscribe,
)
from holdfast.wire.properties import Properties
from tests.slow_world import at_once, connect, kept, rules, subscribe
from tests.world import World

pytestmark = pytest.mark.compiled


def test_leaving_a_group_does_not_stall_what_waits_for_the_window() -> None:
    with World() as world:
        peer = kept(world, "c", receive_maximum=1)
        peer.subscribe("$share/g/a", qos=1)
        peer.subscribe("b", qos=1)
        writer = world.connect("writer")
        writer.send(Publish("a", b"shared", 1, 1), Publish("b", b"own", 1, 2))
        packet_id = peer.take(Publish).packet_id
        peer.send(Unsubscribe(9, (parse_filter(b"$share/g/a"),)))
        peer.take(Unsuback)
        peer.send(Ack(PUBACK, packet_id))
        assert peer.payloads() == [b"own"]


def test_leaving_a_group_does_not_exceed_the_clients_receive_maximum_nor_double_what_is_in_flight() -> None:
    """sessions.md: in-flight entries stay, also after UNSUBSCRIBE."""
    with World() as world:
        one = kept(world, "one", receive_maximum=1)
        one.subscribe("$share/g/a", qos=1)
        one.subscribe("b", qos=1)
        writer = world.connect("writer")
        writer.send(Publish("a", b"shared", 1, 1))
        assert one.take(Publish).payload == b"shared"
        two = kept(world, "two")
        two.subscribe("$share/g/a", qos=1)
        one.send(Unsubscribe(9, (parse_filter(b"$share/g/a"),)))
        one.take(Unsuback)
        writer.send(Publish("b", b"own", 1, 2))
        assert one.inbox == [], "two unacknowledged messages, and the receive maximum is 1"
        assert two.inbox == [], "the other one has it and may be about to acknowledge it"


@pytest.mark.parametrize("expiry_s", [0, 100])
def test_a_leaver_gives_back_also_what_waits_in_its_queue(expiry_s: int) -> None:
    """L15. Two members with full windows; what was put into the queue of the leaver is lost with its session."""
    with World() as world:
        peers = []
        for name in ("one", "two"):
            properties = Properties(session_expiry_interval=expiry_s, receive_maximum=1)
            peer = world.connect(name, properties=properties)
            peer.subscribe("$share/g/a", qos=1)
            peers.append(peer)
        writer = world.connect("writer")
        for number in range(6):
            writer.send(Publish("a", b"%d" % number, 1, number + 1))
        one, two = peers
        one.drop()
        world.advance(expiry_s + 1)
        seen = []
        while two.inbox:
            message = two.take(Publish)
            seen.append(message.payload)
            two.send(Ack(PUBACK, message.packet_id))
        assert sorted(seen) == [b"%d" % number for number in range(6)]


def test_what_is_given_back_has_the_qos_and_the_identifier_of_the_new_member() -> None:
    with World() as world:
        one = kept(world, "one")
        one.subscribe("$share/g/a", qos=1)
        world.connect("writer").send(Publish("a", b"x", 1, 1))
        assert one.take(Publish).qos == 1
        two = kept(world, "two")
        two.send(subscribe("$share/g/a", qos=0, identifier=7))
        two.take(Suback)
        one.drop()
        message = two.take(Publish)
        assert message.qos == 0
        assert message.properties.subscription_identifiers == (7,)


def test_a_member_that_returns_after_another_went_gets_the_work_that_nobody_took() -> None:
    """Both go offline, the other one returns: the unacknowledged QoS 1 of the first waits for the first alone."""
    with World() as world:
        one = kept(world, "one")
        one.subscribe("$share/g/a", qos=1)
        two = kept(world, "two")
        two.subscribe("$share/g/a", qos=1)
        two.drop()
        world.connect("writer").send(Publish("a", b"x", 1, 1))
        assert one.payloads() == [b"x"]
        one.drop()
        assert kept(world, "two").payloads() == [b"x"]


def test_a_groups_backlog_comes_before_what_is_published_while_a_member_returns() -> None:
    """In one turn of the loop: a publish, then the CONNECT of the member."""
    with World() as world:
        kept(world, "m").subscribe("$share/g/a", qos=1)
        world.broker.connections.close(next(iter(world.broker.connections)), b"")
        writer = world.connect("writer")
        writer.send(Publish("a", b"1", 1, 1))
        member = world.peer()
        at_once(world, (writer, Publish("a", b"2", 1, 2)), (member, connect("m")))
        member.take(Connack)
        assert member.payloads() == [b"1", b"2"]


def test_draining_a_groups_backlog_does_not_push_out_what_the_member_is_owed_itself() -> None:
    with World(Policy(sessions=Sessions(max_queued_messages=10))) as world:
        peer = kept(world, "m", receive_maximum=1)
        peer.subscribe("$share/g/a", qos=1)
        peer.subscribe("b", qos=1)
        peer.drop()
        writer = world.connect("writer")
        for number in range(8):
            writer.send(Publish("b", b"b%d" % number, 1, 1), Publish("a", b"a%d" % number, 1, 2))
        member = kept(world, "m", receive_maximum=1)
        seen = []
        while member.inbox:
            message = member.take(Publish)
            seen.append(message.payload)
            member.send(Ack(PUBACK, message.packet_id))
        assert len(seen) == 16, world.broker.exchange.counters.drops


def test_a_member_that_may_not_read_a_topic_does_not_swallow_it_for_the_group(tmp_path: Path) -> None:
    text = "pattern readwrite x/%c\npattern readwrite x/%c/#\ntopic write x/one\n"
    with World(authenticator=rules(tmp_path, text)) as world:
        peers = [kept(world, name) for name in ("one", "two")]
        for peer in peers:
            assert peer.subscribe("$share/g/x/#", qos=1) == [1]
        writer = world.connect("writer")
        for number in range(4):
            writer.send(Publish("x/one", b"%d" % number, 1, number + 1))
        assert peers[0].payloads() == [b"0", b"1", b"2", b"3"], world.broker.exchange.counters.drops
