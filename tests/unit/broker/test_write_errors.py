"""Writes that fail (M5): nothing live is dropped, settings say what becomes of a publish, and it is never silent."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.durable.changes import Changes
from holdfast.model.protocol import PUBACK, PUBREC, PUBREL
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.storage.rocks.disk_space import DiskState, DiskWatch
from holdfast.storage.rocks.failures import StalledError
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import DiskWorld, back, payloads
from tests.slow_world import kept


class Disk:
    """The disk's state, as the test wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = DiskState.OK
        monkeypatch.setattr(DiskWatch, "check", self._check)

    def _check(self) -> DiskState:
        return self.state


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_write_that_is_refused_is_done_later_and_nothing_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M5: neither acknowledged nor delivered before, both after; and the log says that writing waits."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "c")
        reader.subscribe("a", qos=1)
        writer = world.connect("w")

        def stalled(_number: int, _changes: Changes) -> None:
            raise StalledError("RocksDB is behind")

        with monkeypatch.context() as failing, capture_logs() as lines:
            failing.setattr(world.disk.engine, "write", stalled)
            writer.send(Publish("a", b"1", 1, 1))
            writer.send(Publish("a", b"2", 1, 2))
            world.tick()
            assert writer.inbox == reader.inbox == []
        assert [line["event"] for line in lines].count("writing waits") == 1, "said once, not for each attempt"
        with capture_logs() as lines:
            world.tick()
            world.settle()
        assert [ack.packet_id for ack in writer.take_all(Ack)] == [1, 2]
        assert payloads(reader) == [b"1", b"2"]
        assert "writing goes on" in [line["event"] for line in lines]


def test_without_room_publishers_are_refused_by_default(tmp_path: Path, disk: Disk) -> None:
    """M5: and it is counted."""
    with DiskWorld(tmp_path) as world:
        writer = world.connect("w")
        disk.state = DiskState.FULL
        world.tick()
        writer.send(Publish("a", b"1", 1, 1))
        assert writer.take(Ack).reason == QUOTA_EXCEEDED
        assert world.broker.exchange.counters.drops == {"no_room_to_store": 1}


def test_without_room_messages_are_delivered_unstored_if_the_settings_say_so(tmp_path: Path, disk: Disk) -> None:
    """M5, `on_write_error = "warn"`: live deliveries go on, with every QoS, and the log says what that means."""
    with DiskWorld(tmp_path, storage={"on_write_error": "warn"}) as world:
        reader = kept(world, "c", receive_maximum=1)
        reader.subscribe("a")
        absent = kept(world, "absent")
        absent.subscribe("a")
        absent.drop()
        writer = world.connect("w")
        disk.state = DiskState.FULL
        with capture_logs() as lines:
            world.tick()
            world.tick()
            writer.send(Publish("a", b"1", 1, 1), Publish("a", b"2", 2, 2), Publish("a", b"3", 1, 3))
            writer.send(Ack(PUBREL, 2))
            assert [ack.reason for ack in writer.inbox[:3] if isinstance(ack, Ack)] == [SUCCESS] * 3
            assert [ack.kind for ack in writer.inbox[:3] if isinstance(ack, Ack)] == [PUBACK, PUBREC, PUBACK]
            assert payloads(reader) == [b"1", b"2", b"3"], "also what had to wait for room in the window"
            disk.state = DiskState.OK
            world.tick()
            writer.send(Publish("a", b"4", 1, 4))
        said = [(line["event"], line["not_stored"]) for line in lines if "not_stored" in line]
        assert said == [("messages are delivered and not stored", 0), ("messages are stored again", 3)]
        assert payloads(reader) == [b"4"]
        assert payloads(back(world, "absent")) == [b"4"], "who was not there gets what was stored"
