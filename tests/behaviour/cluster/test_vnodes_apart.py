"""A vnode that stands still holds up its own sessions only. When it goes on, everything of it comes in order.

Client ids with an `s` and a `p` are of different vnodes; it is that of `p` that stands still.
"""

from holdfast.cluster.registry.takeover_begin import BEGIN
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

KEPT = Properties(session_expiry_interval=1000)


def kept(node: ClusterNode, client_id: str) -> Peer:
    return node.connect(client_id, clean_start=True, properties=KEPT)


def hold(world: ClusterWorld) -> None:
    """The vnode of `p` takes no record from here on."""
    world.log_of("p1").hold_appends = True


def go_on(world: ClusterWorld) -> None:
    log = world.log_of("p1")
    log.hold_appends = False
    while log.held:
        world.do(log.arrive)


def at_once(world: ClusterWorld, *sent: tuple[Peer, Packet]) -> None:
    """Peers of one node send in one loop iteration: it all comes into one batch."""

    def receive() -> None:
        for peer, packet in sent:
            peer.world.broker.received(peer.channel, encode(packet, peer.version))

    world.do(receive)


def subscribe(packet_id: int, topic_filter: str) -> Subscribe:
    return Subscribe(packet_id, (Subscription(parse_filter(topic_filter.encode()), 2),))


def ack(packet: Ack) -> tuple[int, int]:
    return packet.kind, packet.packet_id


def test_acknowledgements_of_other_vnodes_go_on() -> None:
    """Q1, Q2: PUBACK, SUBACK, CONNACK and both hops of QoS 2, while a client of the other vnode waits."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        stuck, writer, reader = kept(one, "p1"), kept(one, "s1"), kept(one, "s2")
        reader.subscribe("t", qos=2)
        hold(world)
        stuck.send(Publish("t", b"stuck", 1, 1))
        writer.send(Publish("t", b"1", 1, 1))
        assert ack(writer.take(Ack)) == (PUBACK, 1)
        writer.send(Publish("t", b"2", 2, 2))
        assert ack(writer.take(Ack)) == (PUBREC, 2)
        writer.send(Ack(PUBREL, 2))
        assert ack(writer.take(Ack)) == (PUBCOMP, 2)
        assert writer.subscribe("u", qos=1) == [1]
        first, second = reader.take_all(Publish)
        assert [(one.payload, one.qos) for one in (first, second)] == [(b"1", 1), (b"2", 2)]
        reader.send(Ack(PUBACK, first.packet_id), Ack(PUBREC, second.packet_id))
        assert ack(reader.take(Ack)) == (PUBREL, second.packet_id)
        reader.send(Ack(PUBCOMP, second.packet_id))
        assert kept(one, "s3").connack.reason == 0
        assert stuck.inbox == []
        go_on(world)
        assert ack(stuck.take(Ack)) == (PUBACK, 1)
        assert reader.payloads() == [b"stuck"]


def test_what_waited_for_its_vnode_comes_in_order() -> None:
    """Q6: none of it comes early, though each packet is in a batch of its own and other vnodes are decided."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        stuck, other = kept(one, "p1"), kept(one, "s1")
        hold(world)
        packets: list[Packet] = [
            Publish("t", b"1", 1, 1),
            Publish("t", b"2", 2, 2),
            subscribe(3, "t"),
            Pingreq(),
            Publish("t", b"4", 1, 4),
        ]
        for number, packet in enumerate(packets, 1):
            stuck.send(packet)
            other.send(Publish("t", b"other", 1, number))
            assert ack(other.take(Ack)) == (PUBACK, number)
        assert stuck.inbox == []
        go_on(world)
        came = [packet for packet in stuck.inbox if not isinstance(packet, Publish)]
        kinds = [ack(one) if isinstance(one, Ack) else type(one) for one in came]
        assert kinds == [(PUBACK, 1), (PUBREC, 2), Suback, Pingresp, (PUBACK, 4)]


def test_one_batch_is_acknowledged_vnode_by_vnode() -> None:
    """A16: its parts are decided in two logs, and neither waits for the other."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        stuck, other = kept(one, "p1"), kept(one, "s1")
        hold(world)
        at_once(world, (stuck, Publish("t", b"p", 2, 1)), (other, Publish("t", b"s", 2, 1)))
        assert ack(other.take(Ack)) == (PUBREC, 1)
        assert stuck.inbox == []
        go_on(world)
        assert ack(stuck.take(Ack)) == (PUBREC, 1)


def test_a_repetition_waits_for_what_it_repeats() -> None:
    """Q2, A1: its batch writes nothing, and the message is not decided: an early PUBREC would lose it."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        stuck, other = kept(one, "p1"), kept(one, "s1")
        hold(world)
        stuck.send(Publish("t", b"once", 2, 7))
        at_once(
            world,
            (stuck, Publish("t", b"once", 2, 7, dup=True)),
            (other, Publish("t", b"other", 1, 1)),
        )
        assert ack(other.take(Ack)) == (PUBACK, 1)
        assert stuck.inbox == []
        go_on(world)
        assert [ack(one) for one in stuck.take_all(Ack)] == [(PUBREC, 7), (PUBREC, 7)]
        assert sorted(world.stored()) == [b"once", b"other"]


def test_a_subscriber_of_a_vnode_that_stands_still_gets_qos_2_when_it_goes_on() -> None:
    """Q1: its entry in flight is decided in its own vnode, whichever the publisher's is; QoS 1 needs none."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        stuck, other = kept(one, "p1"), kept(one, "s1")
        for reader in (stuck, other):
            reader.subscribe("t", qos=2)
        writer = kept(two, "s2")
        hold(world)
        writer.send(Publish("t", b"2", 2, 1))
        assert other.payloads() == [b"2"]
        assert stuck.inbox == []
        go_on(world)
        assert stuck.payloads() == [b"2"]


def test_a_fenced_session_closes_while_another_part_of_its_batch_is_open() -> None:
    """A1: the claim of another node stands before its record; the part of the other vnode is acknowledged later."""
    with ClusterWorld() as world:
        world.network.unanswered.add(BEGIN)
        one, two, _three = world.nodes
        fenced, waiting = kept(one, "s1"), kept(one, "p1")
        hold(world)
        log = world.log_of("s1")
        log.hold_appends = True
        at_once(world, (fenced, Publish("t", b"s", 1, 1)), (waiting, Publish("t", b"p", 1, 1)))
        taker = two.peer()
        taker.send(Connect(V5, "s1", clean_start=False, properties=KEPT))
        world.do(lambda: log.arrive(1))
        log.hold_appends = False
        while log.held:
            world.do(log.arrive)
        assert fenced.take(Disconnect).reason == 0x8E, "and no PUBACK before it"
        assert taker.take(Connack).session_present
        assert (waiting.inbox, waiting.closed) == ([], False)
        go_on(world)
        assert ack(waiting.take(Ack)) == (PUBACK, 1)
        assert world.stored() == [b"p"]


def test_a_will_of_another_vnode_is_published() -> None:
    """A17: the end of a connection waits for its own vnode."""
    with ClusterWorld() as world:
        one, _two, three = world.nodes
        world.lead(3)
        stuck = kept(one, "p1")
        watcher = three.connect("s2")
        watcher.subscribe("wills", qos=1)
        client = one.connect("s1", clean_start=True, will=Will("wills", b"gone", 1))
        hold(world)
        stuck.send(Publish("t", b"stuck", 1, 1))
        client.drop()
        assert watcher.payloads() == [b"gone"]


def test_a_connect_to_a_vnode_that_stands_still_is_refused_in_time() -> None:
    """A5, Q8: also if the client is connected to the same node, and its last messages are not decided."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        old = kept(one, "p1")
        hold(world)
        old.send(Publish("t", b"1", 1, 1))
        new = one.peer()
        new.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        for _part in range(20):
            world.advance(1)
        assert new.take(Connack).reason == 0x88
        assert old.inbox == []
        go_on(world)
        assert old.take(Disconnect).reason == 0x8E, "the claim lands late, with its release behind it"
        again = one.connect("p1", clean_start=False, properties=KEPT)
        assert again.connack.session_present
        assert world.stored() == [b"1"]


def test_publishers_of_a_vnode_that_stands_still_are_paused_and_others_are_not() -> None:
    """A11: the vnode has its share of the 64 MB that may wait, and no more."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        stuck, other = kept(one, "p1"), kept(one, "s1")
        hold(world)
        payload = bytes(1024 * 1024)
        count = 40
        for number in range(count):
            stuck.send(Publish("t", payload, 1, number + 1))
        assert not stuck.reading
        assert other.reading
        for number in range(count):
            other.send(Publish("t", b"%d" % number, 1, number + 1))
        assert [one.packet_id for one in other.take_all(Ack)] == list(range(1, count + 1))
        assert not one.broker.exchange.is_settled()
        go_on(world)
        assert [one.packet_id for one in stuck.take_all(Ack)] == list(range(1, count + 1))
        assert stuck.reading
        assert one.broker.exchange.is_settled()


def test_a_node_whose_epoch_ends_lets_go_what_waits_in_all_vnodes() -> None:
    """A6: nothing of it was acknowledged, and nothing waits any more."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        stuck, other = kept(one, "p1"), kept(one, "s1")
        hold(world)
        stuck.send(Publish("t", b"1", 1, 1))
        other.send(Publish("t", b"2", 1, 1))
        assert ack(other.take(Ack)) == (PUBACK, 1)
        world.do(one.log.end)
        for peer in (stuck, other):
            assert peer.take(Disconnect).reason == 0x8E
            assert peer.closed
        assert one.broker.exchange.is_settled()


def test_no_claim_is_written_when_too_much_waits_for_a_vnode() -> None:
    """A11: clients that come again and again must not fill the memory of a node while a vnode stands still."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        stuck = kept(one, "p1")
        hold(world)
        for number in range(20):
            stuck.send(Publish("t", bytes(1024 * 1024), 1, number + 1))
        before = one.writers[world.logs.index(world.log_of("p1"))].unsettled_bytes
        for number in range(10):
            peer = one.peer()
            peer.send(Connect(V5, "p2", clean_start=True))
            world.advance(6)  # for the outcome of the release
            assert peer.take(Connack).reason == 0x88, number
        after = one.writers[world.logs.index(world.log_of("p1"))].unsettled_bytes
        assert after - before < 10 * 200
