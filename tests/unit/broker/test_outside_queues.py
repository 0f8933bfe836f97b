"""Clients whose queue is outside the log."""

from holdfast.model.protocol import PUBACK, PUBREC, PUBREL
from holdfast.wire.packets import Ack, Publish
from tests.queue_world import QueueWorld
from tests.slow_world import kept


def test_a_live_client_gets_its_message_when_the_queue_has_it() -> None:
    """T11: stored first, delivered after."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=1)
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"1", 1, 7))
        assert writer.take(Ack) == Ack(PUBACK, 7)
        message = reader.take(Publish)
        assert (message.payload, message.qos, message.dup) == (b"1", 1, False)
        assert len(world.store.appends) == 1
        assert world.size("reader") == 1
        reader.send(Ack(PUBACK, message.packet_id))
        assert world.size("reader") == 0


def test_an_absent_client_finds_its_messages_in_order() -> None:
    """T12: a slow client loses nothing within its limits."""
    with QueueWorld() as world:
        kept(world, "reader").subscribe("a/#", qos=1)
        world.connect("other")
        reader = kept(world, "reader")
        reader.drop()
        writer = world.connect("writer")
        for number in range(600):
            writer.send(Publish("a/b", str(number).encode(), 1, number + 1))
        assert len(writer.take_all(Ack)) == 600
        assert world.size("reader") == 600
        reader = kept(world, "reader")
        got = []
        while reader.inbox:
            for message in reader.take_all(Publish):
                got.append(message.payload)
                reader.send(Ack(PUBACK, message.packet_id))
        assert got == [str(number).encode() for number in range(600)]
        assert world.size("reader") == 0


def test_a_qos_2_message_goes_through_all_its_steps() -> None:
    """T8: PUBREC marks the entry, PUBCOMP forgets it."""
    with QueueWorld() as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=2)
        writer = world.connect("writer")
        writer.send(Publish("a/b", b"1", 2, 7))
        assert writer.take(Ack) == Ack(PUBREC, 7)
        message = reader.take(Publish)
        reader.send(Ack(PUBREC, message.packet_id))
        assert reader.take(Ack).kind == PUBREL
        assert world.size("reader") == 1
        reader.drop()
        reader = kept(world, "reader")
        assert reader.take(Ack) == Ack(PUBREL, message.packet_id)
        assert not reader.inbox
