"""What retention took before somebody came for it is told: to the session, and to the operator."""

from holdfast.wire.packets import Publish
from tests.broker_backends import OpenWorld
from tests.disk_world import back, payloads, publish, replay
from tests.slow_world import kept

#: Generations of ten seconds, of which those of the last twenty stay.
SHORT = {"generation_s": 10, "retention_s": 20}


def test_a_session_gets_what_retention_left_and_the_rest_is_counted(open_world: OpenWorld) -> None:
    """L12: it goes on at the oldest message that is there, and never in silence."""
    with open_world(storage=SHORT) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        reader.drop()
        for number in range(8):
            publish(world, ("a", b"%d" % number))
            world.tick(5)
            world.tick(5)
        got = payloads(back(world, "c"))
        assert got == [b"%d" % number for number in range(8 - len(got), 8)]
        assert 1 <= len(got) < 8
        assert world.drops().get("retention", 0) >= 8 - len(got)


def test_a_replay_from_the_earliest_begins_at_the_oldest_message_and_has_lost_nothing(open_world: OpenWorld) -> None:
    """L12: whoever asks for what there is was promised no more. Publishers of both vnodes, so borders differ."""
    with open_world(storage=SHORT) as world:
        for number in range(8):
            publish(world, ("a", b"%d" % number))
            world.tick(5)
            world.connect("zero").send(Publish("b", b"", 1, 1))
            world.tick(5)
        reader = world.connect("c")
        replay(reader, "a", qos=1, replay_from="earliest")
        got = payloads(reader)
        assert got == [b"%d" % number for number in range(8 - len(got), 8)]
        assert 1 <= len(got) < 8
        assert world.drops() == {}
