"""Begin of a takeover between nodes: the old channel stops before the claim, and goes on if no claim comes."""

import pytest

from holdfast.cluster.registry.takeover_begin import (
    ASKED_BEGUN,
    ASKED_GONE,
    BEGIN,
    BROKEN,
    NO_ANSWER,
    SERVED,
    SERVED_GONE,
)
from holdfast.durable.takeover.registry import ChannelVersion, Registration
from holdfast.model.ids import ClientId
from holdfast.model.protocol import V5
from holdfast.records.cluster.begin import GONE, BeginRequest, decode_begin_answer, encode_begin
from holdfast.wire.codec import encode
from holdfast.wire.packets import Ack, Connack, Connect, Publish
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

KEPT = Properties(session_expiry_interval=1000)


def channel_of(node: ClusterNode, peer: Peer, session_id: str = "p1") -> Registration:
    """A peer's channel as a takeover names it."""
    revision = node.log.held_revision(session_id) or 0
    version = ChannelVersion(0, 0, 0)
    return Registration(ClientId(session_id), node.life.node, peer.channel.number, version, node.life.epoch, revision)


def taker_at(node: ClusterNode, number: int = 77) -> Registration:
    return Registration(ClientId("p1"), node.life.node, number, ChannelVersion(1, 1, 1), node.life.epoch)


def test_a_takeover_at_another_node_repeats_no_message_that_was_acknowledged() -> None:
    """A2: the old node writes the session's progress before it answers."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        old = one.connect("p1", clean_start=True, properties=KEPT)
        old.subscribe("t", qos=1)
        three.connect("p2").send(Publish("t", b"seen", 1, 1))
        (seen,) = old.take_all(Publish)
        old.send(Ack(4, seen.packet_id))
        new = two.connect("p1", clean_start=False, properties=KEPT)
        assert (new.connack.session_present, old.closed) == (True, True)
        assert new.payloads() == []
        assert (one.counts.begins[SERVED], two.counts.begins[ASKED_BEGUN]) == (1, 1)


def test_a_session_whose_progress_waits_behind_that_of_others_is_stored_before_the_claim() -> None:
    """A2: a batch takes along the progress of few sessions; that of the old channel is written for the takeover."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        readers = [one.connect(f"r{number}", clean_start=True, properties=KEPT) for number in range(100)]
        old = one.connect("p1", clean_start=True, properties=KEPT)
        for reader in (*readers, old):
            reader.subscribe("t", qos=1)
        three.connect("p2").send(Publish("t", b"seen", 1, 1))
        answers = [(peer.channel, encode(Ack(4, peer.take(Publish).packet_id), V5)) for peer in (*readers, old)]

        def acknowledge_all() -> None:
            for channel, answer in answers:
                one.broker.received(channel, answer)

        world.do(acknowledge_all)
        new = two.connect("p1", clean_start=False, properties=KEPT)
        assert new.connack.session_present
        assert new.payloads() == []


def test_a_channel_that_is_begun_with_neither_reads_nor_sends_and_goes_on_without_an_end() -> None:
    """R11: the taker's node begins, and never claims."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        old = one.connect("p1", clean_start=True, properties=KEPT)
        old.subscribe("t", qos=1)
        world.run(two.begin.begin(channel_of(one, old), taker_at(two)))
        old.send(Publish("u", b"waits", 1, 1))
        three.connect("p2").send(Publish("t", b"waits, too", 1, 1))
        assert old.inbox == []
        world.advance(4.9)
        assert old.inbox == []
        world.advance(0.2)
        assert [packet.packet_id for packet in old.inbox if isinstance(packet, Ack)] == [1]
        assert [packet.payload for packet in old.inbox if isinstance(packet, Publish)] == [b"waits, too"]
        assert not old.closed


def test_a_socket_that_is_full_when_its_channel_goes_on_is_sent_nothing_until_it_drains() -> None:
    with ClusterWorld() as world:
        one, two, three = world.nodes
        old = one.connect("p1", clean_start=True, properties=KEPT)
        old.subscribe("t", qos=1)
        world.run(two.begin.begin(channel_of(one, old), taker_at(two)))
        world.do(lambda: one.broker.writable(old.channel, yes=False))
        three.connect("p2").send(Publish("t", b"waits", 1, 1))
        world.advance(5.1)
        assert old.inbox == []
        world.do(lambda: one.broker.writable(old.channel, yes=True))
        assert old.payloads() == [b"waits"]


def test_a_channel_with_the_number_of_another_is_not_frozen() -> None:
    """A8: connection numbers are equal at all nodes; node, epoch and revision are not."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        first, second = one.connect("p1", clean_start=True, properties=KEPT), two.connect("p2")
        assert first.channel.number == second.channel.number
        named = channel_of(one, first)
        others = [
            Registration(ClientId("p2"), 2, named.connection_id, named.version, two.life.epoch, named.revision),
            Registration(ClientId("p1"), 2, named.connection_id, named.version, two.life.epoch, named.revision),
            Registration(ClientId("p1"), 1, named.connection_id, named.version, one.life.epoch + 9, named.revision),
            Registration(ClientId("p1"), 1, named.connection_id + 1, named.version, one.life.epoch, named.revision),
            named.at_revision(named.revision + 1),
        ]
        for other in others:
            world.run(three.begin.begin(other, taker_at(three)))
        assert three.counts.begins[ASKED_GONE] == len(others)
        for peer in (first, second):
            peer.send(Publish("t", b"still here", 1, 1))
            assert peer.take(Ack).packet_id == 1


def test_what_cannot_be_begun_with_is_gone_and_counted() -> None:
    """A taker of a closed epoch; bodies that cannot be read."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        old = one.connect("p1", clean_start=True, properties=KEPT)
        named = channel_of(one, old)
        closed = BeginRequest("p1", named.channel, named.revision, (2, two.life.epoch - 1, 1))
        whole = encode_begin(BeginRequest("p1", named.channel, named.revision, (2, two.life.epoch, 1)))
        for body in (encode_begin(closed), b"", b"\x09", whole[:-1], whole + b"\x00", b"\x01\xff\xff" + whole[3:]):
            assert decode_begin_answer(world.run(one.begin.answer(body))) == GONE
        assert (one.counts.begins[SERVED_GONE], one.counts.begins[BROKEN]) == (1, 5)
        old.send(Publish("t", b"still here", 1, 1))
        assert old.take(Ack).packet_id == 1


def test_a_node_that_does_not_answer_counts_as_begun_after_a_second() -> None:
    """R8: its process is stopped. Its channel is fenced by the claim."""
    with ClusterWorld() as world:
        _one, two, three = world.nodes
        old = two.connect("p1", clean_start=True, properties=KEPT)
        world.network.silent.add(2)
        new = three.peer()
        new.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        assert (new.inbox, old.closed) == ([], False)
        world.advance(1)
        assert new.take(Connack).session_present
        assert (three.counts.begins[NO_ANSWER], old.closed) == (1, True)


@pytest.mark.registry_modes("linear", "both")  # the lock of the others is at the node that is gone
def test_a_node_that_is_gone_is_not_waited_for() -> None:
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        one.connect("p1", clean_start=True, properties=KEPT)
        one.kill()
        assert two.connect("p1", clean_start=False, properties=KEPT).connack.session_present
        assert world.network.asked == [(1, BEGIN)]
        assert two.counts.begins[NO_ANSWER] == 1


def test_an_old_channel_whose_commits_hang_is_begun_with_after_a_second() -> None:
    """A2: what it wrote before the claim counts and is loaded, what it wrote behind it does not."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        reader = three.connect("s1")
        reader.subscribe("t", qos=1)
        old = one.connect("p1", clean_start=True, properties=KEPT)
        log = world.log_of("p1")
        log.hold_appends = True
        old.send(Publish("t", b"before", 1, 1))
        new = two.peer()
        new.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        old.send(Publish("t", b"not read", 1, 2))
        world.advance(1)
        world.let_appends_through()
        assert new.take(Connack).session_present
        assert old.closed
        assert reader.payloads() == [b"before"]
