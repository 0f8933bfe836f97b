"""Replays that a crash interrupts."""

import pytest

from holdfast.wire.packets import Publish
from tests.broker_backends import OpenWorld
from tests.disk_world import back, payloads, publish, replay
from tests.slow_world import kept


@pytest.mark.parametrize("window", [2, 100])
def test_what_a_replay_sent_with_qos_1_and_nobody_acknowledged_comes_again_after_a_crash(
    open_world: OpenWorld, window: int
) -> None:
    """M6, L13: a QoS 2 message behind it has its place stored, and with it that of the replay."""
    world = open_world()
    publish(world, ("a", b"1"))
    publish(world, ("a", b"2"), qos=2)
    publish(world, ("a", b"3"))
    reader = kept(world, "c", receive_maximum=window)
    replay(reader, "a", replay_from="earliest")
    sent = [packet.payload for packet in reader.take_all(Publish)]
    assert sent == [b"1", b"2", b"3"][:window]
    world.crash()
    with open_world(start_us=1_700_000_010_000_000) as world:
        reader = back(world, "c", receive_maximum=window)
        assert [packet.dup for packet in reader.inbox if isinstance(packet, Publish)][: len(sent)] == [True] * len(sent)
        assert payloads(reader) == [b"1", b"2", b"3"]
