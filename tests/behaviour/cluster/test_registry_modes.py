"""`registry.mode`: what `both` reads, writes and asks for, and the way from `eventual` to `linear` node by node."""

import pytest

from holdfast.cluster.registry.gossip_map import GossipMap
from holdfast.cluster.registry.takeover_lock import LOCKS
from holdfast.model.ids import ClientId
from holdfast.wire.packets import Ack, Publish
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

KEPT = Properties(session_expiry_interval=1000)


def channels_of(node: ClusterNode) -> GossipMap:
    assert node.registries.channels is not None
    return node.registries.channels


@pytest.mark.registry_modes("both")
def test_both_reads_the_linear_registry_alone_and_writes_the_map_without_a_lock() -> None:
    """R15: what the map says wrongly is not looked at."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        client = one.connect("p1", clean_start=True, properties=KEPT)
        known = channels_of(two).newest("p1")
        assert known is not None
        assert known[:3] == (1, one.life.epoch, client.channel.number)
        world.do(lambda: channels_of(two).add("p2", 77, 5))
        assert two.registries.registry.local_newest(ClientId("p2")) is None
        client.drop()
        assert channels_of(two).newest("p1") is None
        assert LOCKS not in [what for _node, what in world.network.asked]


@pytest.mark.registry_modes("eventual")
def test_eventual_reads_the_map_and_asks_for_the_lock_at_the_leader_of_the_vnode() -> None:
    """R13."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        one.connect("p1", clean_start=True, properties=KEPT)
        found = two.registries.registry.local_newest(ClientId("p1"))
        assert found is not None
        assert found.node == 1
        asked = [node for node, what in world.network.asked if what == LOCKS]
        assert asked == [1, 1], "locked and unlocked at the leader"


@pytest.mark.registry_modes("linear")
def test_linear_tells_nobody_of_its_channels() -> None:
    with ClusterWorld() as world:
        world.nodes[0].connect("p1")
        assert (world.network.asked, world.nodes[0].registries.channels) == ([], None)


@pytest.mark.registry_modes("both")
def test_a_node_that_starts_is_told_the_channels_of_the_others() -> None:
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        for number in range(150):  # more than one part of a list
            one.connect(f"c{number}")
        two.kill()
        back = world.start(2)
        assert all(channels_of(back).newest(f"c{number}") is not None for number in range(150))


@pytest.mark.registry_modes("eventual")
def test_a_change_of_mode_node_by_node_keeps_one_channel_and_the_session() -> None:
    """R17, R16: eventual → both → linear, one node after another, with a client that moves and is published to."""
    with ClusterWorld() as world:
        client = world.nodes[1].connect("p1", clean_start=True, properties=KEPT)
        client.subscribe("t", qos=1)
        received: list[bytes] = []
        sent: list[bytes] = []
        for mode in ("both", "linear"):
            for number in (1, 2, 3):
                node = world.nodes[number - 1]
                node.kill()
                node.fence()
                world.start(number, node.tables, mode)
                world.lead(2)
                for other in (number % 3, (number + 1) % 3):
                    old, client = client, moved(world.nodes[other])
                    assert (client.connack.reason, client.connack.session_present) == (0, True)
                    assert old.closed
                    publisher = world.nodes[other].connect("writer", clean_start=False, properties=KEPT)
                    payload = b"%d" % len(sent)
                    publisher.send(Publish("t", payload, 1, 1))
                    assert publisher.take(Ack).packet_id == 1
                    sent.append(payload)
                    for publish in client.take_all(Publish):
                        received.append(publish.payload)
                        client.send(Ack(4, publish.packet_id))
        assert received == sent
        first, *others = world.digests()
        assert all(other == first for other in others)


def moved(node: ClusterNode) -> Peer:
    return node.connect("p1", clean_start=False, properties=KEPT)
