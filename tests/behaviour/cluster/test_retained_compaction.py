"""Removed and replaced retained messages leave nothing behind, and none of them returns, on any node (A18)."""

from holdfast.durable.state_machine.tables import RETAINED
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.retained import retained_key
from holdfast.wire.packets import Ack, Publish
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

#: A client of each vnode.
CLIENTS = [next(f"c{n}" for n in range(20) if vnode_of(f"c{n}", 2) == vnode) for vnode in (0, 1)]


def retain(peer: Peer, payload: bytes) -> None:
    peer.send(Publish("t", payload, 1, 1, retain=True))
    peer.take(Ack)


def shown(node: ClusterNode) -> bytes | None:
    found = node.retained.get(b"t", node.clock.wall_us())
    return None if found is None else found.payload


def entries(node: ClusterNode) -> list[bool]:
    """By vnode: whether it has an entry of the topic."""
    return [tables.get(RETAINED, retained_key(b"t")) is not None for tables in node.tables]


def test_a_removed_message_leaves_nothing_on_any_node() -> None:
    """A18."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        first, second = one.connect(CLIENTS[0]), two.connect(CLIENTS[1])
        retain(first, b"value")
        retain(second, b"")
        world.lead(30)
        assert [entries(node) for node in world.nodes] == [[False, False]] * 3
        digests = world.digests()
        assert digests[0] == digests[1] == digests[2]


def test_an_answer_replaces_the_message_and_its_entry() -> None:
    """A18: though the vnode of the answer is ten minutes behind."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        first, second = one.connect(CLIENTS[0]), two.connect(CLIENTS[1])
        world.logs[0].stamp_offset_us = -600_000_000
        retain(second, b"question")
        retain(first, b"answer")
        world.lead(30)
        assert [entries(node) for node in world.nodes] == [[True, False]] * 3
        assert [shown(node) for node in world.nodes] == [b"answer"] * 3


def test_a_removal_waits_for_a_slow_node() -> None:
    """A18: a node that is slow in one vnode never shows the message again, once it has applied the removal."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        first, second = one.connect(CLIENTS[0]), two.connect(CLIENTS[1])
        retain(first, b"value")
        slow = three.appliers[0]._reading
        world.logs[0].hold_reads = True
        retain_without_reply = [Publish("t", b"", 1, 1, retain=True)]
        second.send(*retain_without_reply)
        readings = [reading for reading in world.logs[0].readings() if reading is not slow]
        for _second in range(30):
            world.lead()
            for reading in readings:
                world.do(lambda reading=reading: world.logs[0].deliver(reading))  # type: ignore[misc]
            assert shown(three) is None
        assert entries(three) == [True, True], "the slow node has not come to the horizon of the message"
        assert entries(one) == [False, True], "so the removal stays"
        world.logs[0].hold_reads = False
        for reading in world.logs[0].readings():
            world.do(lambda reading=reading: world.logs[0].deliver(reading))  # type: ignore[misc]
        world.lead(30)
        assert [entries(node) for node in world.nodes] == [[False, False]] * 3
