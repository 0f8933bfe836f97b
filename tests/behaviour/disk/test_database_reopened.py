"""A database that is being opened again, after a full disk: nothing can be read or written for a while."""

from pathlib import Path

from holdfast.model.protocol import PUBACK, PUBREC
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import DiskWorld, back, payloads
from tests.slow_world import kept


def test_qos_2_that_begins_while_the_database_is_opened_again_is_stored_before_its_pubrec(tmp_path: Path) -> None:
    """Q2: a packet id needs a slot, and which are free cannot be read while an iterator holds the old database."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader")
        reader.subscribe("a/#", qos=2)
        reader.drop()
        first, second = kept(world, "first"), kept(world, "second")
        iterator = world.disk.engine.family(SESSIONS).iter()
        iterator.seek_to_first()
        world.disk.engine._broken = "an append found no room"
        first.send(Publish("a/b", b"1", 1, 1))
        second.send(Publish("a/b", b"2", 2, 7))
        assert not first.inbox
        assert not second.inbox
        assert not world.disk.log.idle()
        del iterator
        world.tick()
        world.settle()
        assert [(ack.kind, ack.packet_id) for ack in (first.take(Ack), second.take(Ack))] == [(PUBACK, 1), (PUBREC, 7)]
    with DiskWorld(tmp_path) as world:
        second = back(world, "second")
        second.send(Publish("a/b", b"2", 2, 7, dup=True))
        assert second.take(Ack) == Ack(PUBREC, 7)
        assert payloads(back(world, "reader")) == [b"1", b"2"]
