"""Three nodes serve as one broker: what is published at one is delivered at all, sessions go on at any of them."""

from holdfast.wire.packets import Ack, Connack, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterWorld

KEPT = Properties(session_expiry_interval=100)


def test_a_message_is_delivered_at_every_node_in_one_order() -> None:
    with ClusterWorld() as world:
        peers = [node.connect(f"reader-{node.life.node}") for node in world.nodes]
        for peer in peers:
            assert peer.subscribe("plant/#", qos=1) == [1]
        writers = [node.connect(f"writer-{node.life.node}") for node in world.nodes]
        for number in range(6):
            writers[number % 3].send(Publish(f"plant/{number}", b"%d" % number, 1, number + 1))
            assert writers[number % 3].take(Ack).packet_id == number + 1
        for peer in peers:
            assert peer.payloads() == [b"%d" % number for number in range(6)]
        first, *others = world.digests()
        assert all(other == first for other in others)


def test_a_session_goes_on_at_another_node() -> None:
    """The client moves while its node lives: the old connection is told, the new one has what it missed."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        old = one.connect("reader", clean_start=True, properties=KEPT)
        assert old.subscribe("a", qos=1) == [1]
        writer = three.connect("writer")
        new = two.connect("reader", clean_start=False, properties=KEPT)
        assert new.connack.session_present
        assert old.take(Disconnect).reason == 0x8E
        assert old.closed
        writer.send(Publish("a", b"1", 1, 1))
        assert new.payloads() == [b"1"]


def test_a_session_that_comes_back_before_the_first_message_leaves_its_node_at_rest() -> None:
    """No shard is there to be read: the node does not look again and again. The world settles, or fails."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        assert one.connect("reader", clean_start=True, properties=KEPT).subscribe("a", qos=1) == [1]
        back = two.connect("reader", clean_start=False, properties=KEPT)
        assert back.connack.session_present
        three.connect("writer").send(Publish("a", b"1", 1, 1))
        assert back.payloads() == [b"1"]


def test_a_killed_node_loses_nothing_that_was_acknowledged() -> None:
    """Its clients go on elsewhere with their sessions, and get what came meanwhile."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        reader = one.connect("reader", clean_start=True, properties=KEPT)
        assert reader.subscribe("a", qos=2) == [2]
        writer = three.connect("writer")
        writer.send(Publish("a", b"before", 2, 1))
        assert reader.take(Publish).payload == b"before"
        one.kill()
        one.fence()
        writer.send(Publish("a", b"after", 1, 2))
        again = two.connect("reader", clean_start=False, properties=KEPT)
        assert again.connack.session_present
        assert [packet.payload for packet in again.take_all(Publish)] == [b"before", b"after"]


def test_a_will_is_published_once_whichever_node_dies() -> None:
    """A17: the closing leaves it waiting, the leader proposes it, every node publishes it by the same record."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        world.lead(3)
        one.connect("doomed", clean_start=True, will=Will("wills", b"gone", 1))
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        one.kill()
        one.fence()
        world.lead(20)
        assert watcher.inbox == [], "it has 30 s to come back"
        world.lead(20)
        assert watcher.payloads() == [b"gone"]
        world.lead(60)
        assert watcher.inbox == []
        assert isinstance(two.connect("doomed", clean_start=False).connack, Connack)
