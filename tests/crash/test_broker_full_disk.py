"""A broker on a disk that fills up: publishers wait or are told, nothing acknowledged is lost, it goes on by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.protocol import PUBACK, PUBREC, V5, V311
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.wire.packets import Ack, Publish
from tests.crash.disks import SmallDisk
from tests.disk_world import DiskWorld
from tests.slow_world import kept

pytestmark = pytest.mark.slow

MB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "small", 700 * MB)
    yield disk
    disk.close()


def test_publishers_wait_while_nothing_can_be_written_and_go_on_when_there_is_room(disk: SmallDisk) -> None:
    """M5: what cannot be written is neither acknowledged nor delivered yet, and nothing of it is dropped."""
    folder = disk.folder / "data"
    with DiskWorld(folder) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        writer = world.connect("w")
        writer.send(Publish("a", b"1", 1, 1))
        assert writer.take(Ack).kind == PUBACK
        ballast = disk.fill(leave_bytes=20 * MB)
        writer.send(Publish("a", b"2", 1, 2), Publish("a", b"3", 1, 3))
        world.tick()
        assert writer.inbox == [], "not acknowledged before it is stored"
        assert [packet.payload for packet in reader.take_all(Publish)] == [b"1"], "not delivered either"
        ballast.unlink()
        world.tick()
        world.settle()
        assert [ack.packet_id for ack in writer.take_all(Ack)] == [2, 3]
        assert [packet.payload for packet in reader.take_all(Publish)] == [b"2", b"3"]


def test_with_warn_a_write_that_fails_holds_up_neither_subscribers_nor_publishers(disk: SmallDisk) -> None:
    """M5: QoS 1 goes on while the disk is full, counted and said; QoS 2 waits for it and comes once."""
    with DiskWorld(disk.folder / "data", storage={"on_write_error": "warn"}) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=2)
        writer = world.connect("w")
        world.tick()
        writer.send(Publish("a", b"1", 1, 1))
        assert writer.take(Ack).kind == PUBACK
        ballast = disk.fill(leave_bytes=20 * MB)
        for number in (2, 3, 4):
            writer.send(Publish("a", b"%d" % number, 1, number))
            assert writer.take(Ack).packet_id == number, "acknowledged, though nothing can be written"
        writer.send(Publish("a", b"once", 2, 5))
        world.tick()
        assert [packet.payload for packet in reader.take_all(Publish)] == [b"1", b"2", b"3", b"4"]
        assert writer.inbox == [], "exactly once waits for the disk"
        ballast.unlink()
        world.tick()
        world.settle()
        assert [(ack.kind, ack.packet_id) for ack in writer.take_all(Ack)] == [(PUBREC, 5)]
        assert [packet.payload for packet in reader.take_all(Publish)] == [b"once"]
        assert world.broker.exchange.counters.not_stored == 2, "the first one was on its way, and is stored by now"
        writer.send(Publish("a", b"6", 1, 6))
        assert [packet.payload for packet in reader.take_all(Publish)] == [b"6"]


def test_below_the_watermark_publishers_are_told(disk: SmallDisk) -> None:
    """M5: MQTT 5 gets 0x97; MQTT 3, which has no word for it, is not acknowledged."""
    with DiskWorld(disk.folder / "data", min_free_bytes=300 * MB) as world:
        world.tick()
        new, old = world.connect("new"), world.connect("old", V311)
        ballast = disk.fill(leave_bytes=250 * MB)
        world.tick()
        new.send(Publish("a", b"1", 1, 1))
        assert new.take(Ack).reason == QUOTA_EXCEEDED
        old.send(Publish("a", b"1", 1, 1))
        assert old.closed
        assert old.inbox == []
        new.send(Publish("a", b"0"))
        assert not new.closed, "QoS 0 needs no room"
        ballast.unlink()
        world.tick()
        new.send(Publish("a", b"2", 1, 2))
        assert new.take(Ack).reason in (SUCCESS, 0x10)
        assert new.version == V5
