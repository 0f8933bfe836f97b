"""Packet ids over many crashes: each skips a quarter of them, so the fifth life meets those of the first again."""

from collections.abc import Iterable

from holdfast.model.protocol import PUBCOMP, PUBREC
from holdfast.wire.packets import Ack, Publish
from tests.broker_backends import OpenWorld
from tests.disk_world import back, publish
from tests.slow_world import kept
from tests.world import Peer

_LIVES_IN_A_CIRCLE = 4


def sent(peer: Peer) -> dict[bytes, int]:
    """What came, in order, with its packet ids."""
    return {packet.payload: packet.packet_id for packet in peer.take_all(Publish)}


def complete(peer: Peer, packet_ids: Iterable[int]) -> None:
    for packet_id in packet_ids:
        peer.send(Ack(PUBREC, packet_id))
        peer.take(Ack)
        peer.send(Ack(PUBCOMP, packet_id))


def test_an_id_that_was_used_again_has_the_place_of_its_new_message(open_world: OpenWorld) -> None:
    """Q1, L1: what was stored last of how far a session is knows the id for an older message."""
    start_us = 1_700_000_000_000_000
    world = open_world(start_us=start_us)
    reader = kept(world, "c")
    reader.subscribe("a")
    publish(world, *(("a", b"old %d" % number) for number in range(5)), qos=2)
    ids = sent(reader)
    for life in range(_LIVES_IN_A_CIRCLE):
        world.crash()
        world = open_world(start_us=start_us + (life + 1) * 60_000_000)
        reader = back(world, "c")
        if life < _LIVES_IN_A_CIRCLE - 1:
            assert sent(reader) == ids
        if life == _LIVES_IN_A_CIRCLE - 2:
            complete(reader, [ids.pop(b"old 2")])
    reader.inbox.clear()
    complete(reader, [ids[b"old 3"]])
    publish(world, ("a", b"new 0"), ("a", b"new 1"), ("a", b"new 2"), qos=2)
    again = sent(reader)
    assert ids[b"old 3"] == again[b"new 1"], "the story needs an id that comes round"
    world.crash()
    with open_world(start_us=start_us + 300_000_000) as world:
        assert list(sent(back(world, "c"))) == [b"old 0", b"old 1", b"old 4", b"new 0", b"new 1", b"new 2"]
