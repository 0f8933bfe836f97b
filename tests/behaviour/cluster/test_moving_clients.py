"""A client moves between nodes while records are on their way: what counts is decided where they stand in the log.

Client ids with an `s` and a `p` are of different vnodes.
"""

from holdfast.cluster.registry.takeover_begin import BEGIN
from holdfast.durable.sessions.publish_numbers import PUBLISH_NUMBER
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Publish
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

KEPT = Properties(session_expiry_interval=1000)


def resume(node: ClusterNode, client_id: str) -> Peer:
    """A peer that has asked for its session, and perhaps has no answer yet."""
    peer = node.peer()
    peer.send(Connect(V5, client_id, clean_start=False, properties=KEPT))
    return peer


def acks(peer: Peer) -> list[tuple[int, int]]:
    """Take the acknowledgements at the head of what came."""
    found: list[tuple[int, int]] = []
    while peer.inbox and isinstance(peer.inbox[0], Ack):
        ack = peer.take(Ack)
        found.append((ack.kind, ack.packet_id))
    return found


def numbered(number: int, packet_id: int) -> Publish:
    properties = Properties(user_properties=((PUBLISH_NUMBER, str(number)),))
    return Publish("t", b"number %d" % number, 1, packet_id, properties=properties)


def test_a_record_behind_the_claim_is_rejected_and_its_repetition_stored_once() -> None:
    """A1: the old owner's message lands behind the claim of the new one."""
    with ClusterWorld() as world:
        world.network.unanswered.add(BEGIN)
        one, two, _three = world.nodes
        log = world.log_of("p1")
        old = one.connect("p1", clean_start=True, properties=KEPT)
        world.hold_appends()
        old.send(Publish("t", b"once", 2, 7))
        new = resume(two, "p1")
        assert len(log.held) == 2
        world.do(lambda: log.arrive(1))
        world.let_appends_through()
        assert old.take(Disconnect).reason == 0x8E, "and no PUBREC before it"
        assert new.take(Connack).session_present
        assert world.stored() == []
        new.send(Publish("t", b"once", 2, 7, dup=True))
        assert acks(new) == [(PUBREC, 7)]
        assert world.stored() == [b"once"]


def test_what_the_old_owner_sent_before_the_claim_is_known_to_the_new_one() -> None:
    """A2: an entry in flight that was accepted is loaded; one that was not has never been sent."""
    with ClusterWorld() as world:
        world.network.unanswered.add(BEGIN)
        one, two, three = world.nodes
        log = world.log_of("s1")
        old = one.connect("s1", clean_start=True, properties=KEPT)
        old.subscribe("t", qos=2)
        writer = three.connect("p1")
        log.hold_appends = True
        new = resume(two, "s1")
        writer.send(Publish("t", b"accepted", 2, 1))
        assert len(log.held) == 2, "the claim, and the entry in flight"
        world.do(lambda: log.arrive(1))
        sent = old.take(Publish)
        assert sent.payload == b"accepted"
        writer.send(Publish("t", b"too late", 2, 2))
        world.let_appends_through()
        assert old.take(Disconnect).reason == 0x8E, "the second message was never sent here"
        assert new.take(Connack).session_present
        again, other = new.take_all(Publish)
        assert (again.payload, again.packet_id, again.dup) == (b"accepted", sent.packet_id, True)
        assert (other.payload, other.dup) == (b"too late", False)


def test_a_session_is_opened_when_the_node_has_applied_what_it_was_sent() -> None:
    """A3: the new owner is behind in another vnode. It waits, and what is done does not come again."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        old = one.connect("s1", clean_start=True, properties=KEPT)
        old.subscribe("t", qos=2)
        writer = three.connect("p1")
        log = world.log_of("p1")
        log.hold_reads = True
        of_one, of_two, of_three = log.readings()
        writer.send(Publish("t", b"once", 2, 1))
        world.do(lambda: log.deliver(of_one))
        world.do(lambda: log.deliver(of_three))
        sent = old.take(Publish)
        old.send(Ack(PUBREC, sent.packet_id))
        assert acks(old) == [(PUBREL, sent.packet_id)]
        new = resume(two, "s1")
        assert new.inbox == [], "its message is not here yet"
        world.do(lambda: log.deliver(of_two))
        assert new.take(Connack).session_present
        assert acks(new) == [(PUBREL, sent.packet_id)]
        new.send(Ack(PUBCOMP, sent.packet_id))
        assert new.inbox == []


def test_a_session_is_refused_by_a_node_that_stays_behind() -> None:
    """A3: 0x88 after the patience, and the client goes on elsewhere."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        old = one.connect("s1", clean_start=True, properties=KEPT)
        old.subscribe("t", qos=2)
        writer = three.connect("p1")
        log = world.log_of("p1")
        log.hold_reads = True
        of_one, _of_two, of_three = log.readings()
        writer.send(Publish("t", b"once", 2, 1))
        world.do(lambda: log.deliver(of_one))
        world.do(lambda: log.deliver(of_three))
        sent = old.take(Publish)
        new = resume(two, "s1")
        world.advance(6)
        assert new.take(Connack).reason == 0x88
        elsewhere = resume(three, "s1")
        assert elsewhere.take(Connack).session_present
        assert elsewhere.take(Publish).packet_id == sent.packet_id


def test_numbers_that_a_node_remembers_decide_nothing() -> None:
    """A9: a numbered message is fenced at its node, and published there again after a visit elsewhere."""
    with ClusterWorld() as world:
        world.network.unanswered.add(BEGIN)
        one, two, _three = world.nodes
        log = world.log_of("p1")
        first = one.connect("p1", clean_start=True, properties=KEPT)
        first.send(numbered(1, 1))
        assert acks(first) == [(PUBACK, 1)]
        world.hold_appends()
        first.send(numbered(2, 2))
        second = resume(two, "p1")
        world.do(lambda: log.arrive(1))
        world.let_appends_through()
        second.take(Connack)
        second.drop()
        third = resume(one, "p1")
        third.take(Connack)
        third.send(numbered(2, 3), numbered(2, 4), numbered(3, 5))
        assert acks(third) == [(PUBACK, 3), (PUBACK, 4), (PUBACK, 5)]
        assert world.stored() == [b"number 1", b"number 2", b"number 3"]


def test_an_incoming_id_that_was_fenced_is_taken_again_at_the_same_node() -> None:
    """A15: the client returns to the node whose record was fenced; its repetition is stored, not only acknowledged."""
    with ClusterWorld() as world:
        world.network.unanswered.add(BEGIN)
        one, two, _three = world.nodes
        log = world.log_of("p1")
        first = one.connect("p1", clean_start=True, properties=KEPT)
        world.hold_appends()
        first.send(Publish("t", b"once", 2, 7))
        resume(two, "p1")
        world.do(lambda: log.arrive(1))  # its claim, in front of the message
        third = resume(one, "p1")
        world.let_appends_through()
        assert third.take(Connack).session_present
        assert world.stored() == []
        third.send(Publish("t", b"once", 2, 7, dup=True))
        assert acks(third) == [(PUBREC, 7)]
        third.send(Publish("t", b"once", 2, 7, dup=True))
        assert acks(third) == [(PUBREC, 7)]
        assert world.stored() == [b"once"]


def test_a_writer_that_dies_between_two_records_leaves_no_id_without_its_message() -> None:
    """A16: of one batch every prefix is a state that can be loaded."""
    messages = [Publish("t", b"%d" % number * 300, 2, number) for number in (1, 2, 3)]
    for landed in range(len(messages) + 1):
        with ClusterWorld(record_bytes=600) as world:
            one, two, _three = world.nodes
            log = world.log_of("p1")
            client = one.connect("p1", clean_start=True, properties=KEPT)
            world.hold_appends()
            client.send(*messages)
            for _record in range(landed):
                world.do(log.arrive)
            assert len(acks(client)) == (3 if landed == 3 else 0), "they share a batch"
            log.held.clear()
            log.hold_appends = False
            world.let_appends_through()
            one.kill()
            one.fence()
            again = resume(two, "p1")
            assert again.take(Connack).session_present
            again.send(*[Publish("t", message.payload, 2, message.packet_id, dup=True) for message in messages])
            assert acks(again) == [(PUBREC, 1), (PUBREC, 2), (PUBREC, 3)]
            world.nodes = [two]
            assert world.stored() == [message.payload for message in messages]


def test_what_another_node_may_have_sent_comes_with_dup() -> None:
    """Up to where this node stands at the claim: a client that counts by DUP must not take it for new."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        reader = one.connect("reader", clean_start=True, properties=KEPT)
        reader.subscribe("t", qos=1)
        writer = three.connect("writer")
        for number in range(3):
            writer.send(Publish("t", b"%d" % number, 1, number + 1))
        assert len(reader.take_all(Publish)) == 3
        one.kill()
        one.fence()
        again = two.connect("reader", clean_start=False, properties=KEPT)
        assert [(packet.payload, packet.dup) for packet in again.take_all(Publish)] == [
            (b"0", True),
            (b"1", True),
            (b"2", True),
        ]
        writer.send(Publish("t", b"new", 1, 9))
        assert [packet.dup for packet in again.take_all(Publish)] == [False]
