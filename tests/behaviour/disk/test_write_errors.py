"""Writes that fail (M5): nothing live is dropped, settings say what becomes of a publish, and it is never silent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.durable.changes import Changes
from holdfast.exchange.drops import NOT_STORED
from holdfast.model.protocol import PUBACK, PUBREC, PUBREL
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.storage.rocks.engine.disk_space import DiskState, DiskWatch
from holdfast.storage.rocks.engine.failures import DiskFullError, StalledError
from holdfast.wire.packets import Ack, Publish, Suback
from tests.disk_world import DiskWorld, back, payloads
from tests.slow_world import kept, subscribe


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


class FullDisk:
    """Writes find no room, for as long as the test wants."""

    def __init__(self, world: DiskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._write = world.disk.engine.write
        self.full = False
        monkeypatch.setattr(world.disk.engine, "write", self._try)

    def _try(self, number: int, changes: Changes) -> None:
        if self.full:
            raise DiskFullError("no room")
        self._write(number, changes)

    def fill(self) -> None:
        self.full = True

    def make_room(self) -> None:
        self.full = False
        self._world.tick()
        self._world.settle()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DiskWorld]:
    with DiskWorld(tmp_path, storage={"on_write_error": "warn"}) as world:
        world.tick()
        yield world


@pytest.fixture
def full_disk(world: DiskWorld, monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(world, monkeypatch)


def test_with_warn_a_failing_write_is_said_once_counted_and_noted(world: DiskWorld, full_disk: FullDisk) -> None:
    """M5: never silent."""
    writer = world.connect("w")
    full_disk.fill()
    with capture_logs() as lines:
        writer.send(*(Publish("a", b"x", 1, number) for number in range(1, 4)))
        writer.send(*(Publish("a", b"x", 1, number) for number in range(4, 9)))
        world.tick()
        full_disk.make_room()
    assert [ack.packet_id for ack in writer.take_all(Ack)] == list(range(1, 9))
    said = [(line["event"], line["not_stored"]) for line in lines if "not_stored" in line]
    assert said == [("messages are delivered and not stored", 0), ("messages are stored again", 5)]
    world.disk.drops.close_window()
    noted = [event for event in world.disk.drops.recent if event.reason == NOT_STORED]
    assert sum(event.count for event in noted) == 5


def test_what_was_on_its_way_when_writing_failed_comes_once_and_is_stored_later(
    world: DiskWorld, full_disk: FullDisk
) -> None:
    """M5: live ones have it at once, and one that was not there reads it from the log when there is room."""
    here, absent = kept(world, "here"), kept(world, "absent")
    for peer in (here, absent):
        peer.subscribe("a", qos=1)
    absent.drop()
    writer = world.connect("w")
    full_disk.fill()
    writer.send(Publish("a", b"on its way", 1, 1))
    assert payloads(here) == [b"on its way"]
    writer.send(Publish("a", b"unstored", 1, 2))
    assert payloads(here) == [b"unstored"]
    full_disk.make_room()
    assert payloads(here) == []
    assert payloads(back(world, "absent")) == [b"on its way"]


def test_a_client_that_had_to_wait_gets_everything_in_order_when_there_is_room(
    world: DiskWorld, full_disk: FullDisk
) -> None:
    """Promise 3: order holds, though others did not wait."""
    slow, quick = kept(world, "slow", receive_maximum=1), kept(world, "quick")
    for peer in (slow, quick):
        peer.subscribe("a", qos=1)
    writer = world.connect("w")
    writer.send(Publish("a", b"1", 1, 1))
    held = slow.take(Publish)
    full_disk.fill()
    writer.send(Publish("a", b"2", 1, 2))
    writer.send(Publish("a", b"3", 1, 3))
    assert payloads(quick) == [b"1", b"2", b"3"]
    slow.send(Ack(PUBACK, held.packet_id))
    assert slow.inbox == []
    full_disk.make_room()
    assert payloads(slow) == [b"2", b"3"]
    assert payloads(quick) == []


def test_members_of_a_group_go_on_while_nothing_can_be_written(world: DiskWorld, full_disk: FullDisk) -> None:
    """M5, L15: each message to one of them, once."""
    members = [kept(world, name) for name in ("one", "two")]
    for peer in members:
        peer.subscribe("$share/g/a", qos=1)
    writer = world.connect("w")
    full_disk.fill()
    got: list[bytes] = []
    for number in range(1, 7):
        writer.send(Publish("a", b"%d" % number, 1, number))
        for peer in members:
            got += payloads(peer)
    assert got == [b"%d" % number for number in range(1, 7)]
    full_disk.make_room()
    assert [payloads(peer) for peer in members] == [[], []]


def test_acknowledgements_keep_their_order_behind_an_answer_that_waits_for_the_disk(
    world: DiskWorld, full_disk: FullDisk
) -> None:
    """Q6: a SUBACK waits, and so does what the same client sent after it; others do not."""
    one, two = kept(world, "one"), world.connect("two")
    reader = world.connect("reader")
    reader.subscribe("a", qos=1)
    full_disk.fill()
    one.send(subscribe("b"))
    one.send(Publish("a", b"1", 1, 1))
    two.send(Publish("a", b"2", 1, 1))
    assert payloads(reader) == [b"1", b"2"]
    assert one.inbox == []
    assert two.take(Ack).packet_id == 1
    full_disk.make_room()
    one.take(Suback)
    assert one.take(Ack).packet_id == 1
    assert payloads(reader) == []


def test_memory_stays_flat_while_messages_go_on_unstored(world: DiskWorld, full_disk: FullDisk) -> None:
    """Counted in what waits: a thousand times as many messages leave nothing behind."""
    reader = kept(world, "c")
    reader.subscribe("a", qos=1)
    writer = world.connect("w")
    full_disk.fill()
    waiting = []
    for _round in range(5):
        for _batch in range(10):
            writer.send(*(Publish("a", b"x", 1, number) for number in range(1, 21)))
            writer.take_all(Ack)
            assert len(payloads(reader)) == 20
        world.tick()
        waiting.append(world.broker.exchange.unstored.waiting())
    assert len(set(waiting)) == 1
    full_disk.make_room()
    assert world.broker.exchange.unstored.waiting() == 0


def test_a_stall_of_the_database_is_waited_for_with_warn_as_well(
    world: DiskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is over in a moment, and no reason to give up what is stored."""
    writer = world.connect("w")

    def stalled(_number: int, _changes: Changes) -> None:
        raise StalledError("RocksDB is behind")

    with monkeypatch.context() as failing:
        failing.setattr(world.disk.engine, "write", stalled)
        writer.send(Publish("a", b"1", 1, 1))
        assert writer.inbox == []
    world.tick()
    world.settle()
    assert writer.take(Ack).packet_id == 1
    assert world.broker.exchange.counters.not_stored == 0


def test_a_qos_2_message_waits_for_the_disk_and_is_stored(world: DiskWorld, full_disk: FullDisk) -> None:
    """M5, Q1, Q2: exactly once needs what is stored, on both ways; nothing of it is dropped."""
    here, absent = kept(world, "here"), kept(world, "absent")
    for peer in (here, absent):
        peer.subscribe("a", qos=2)
    absent.drop()
    writer = kept(world, "w")
    full_disk.fill()
    writer.send(Publish("a", b"1", 2, 1), Publish("a", b"2", 2, 2))
    world.tick()
    writer.send(Publish("a", b"3", 2, 3))
    assert writer.inbox == here.inbox == []
    full_disk.make_room()
    assert [ack.kind for ack in writer.take_all(Ack)] == [PUBREC, PUBREC, PUBREC]
    assert payloads(here) == [b"1", b"2", b"3"]
    assert payloads(back(world, "absent")) == [b"1", b"2", b"3"]
    assert world.broker.exchange.counters.not_stored == 0


def test_a_retained_message_is_stored_when_there_is_room(world: DiskWorld, full_disk: FullDisk) -> None:
    """M1, M5"""
    writer = world.connect("w")
    full_disk.fill()
    writer.send(Publish("a", b"kept", 1, 1, retain=True))
    writer.send(Publish("a", b"kept too", 1, 2, retain=True))
    assert [ack.packet_id for ack in writer.take_all(Ack)] == [1, 2]
    full_disk.make_room()
    reader = world.connect("r")
    reader.subscribe("a")
    assert reader.payloads() == [b"kept too"]


def test_a_disk_that_is_full_again_before_the_sync_doubles_nothing(world: DiskWorld, full_disk: FullDisk) -> None:
    """What was let go the first time waits for its receipt still, when writes fail for the second time."""
    reader = kept(world, "c")
    reader.subscribe("a", qos=1)
    writer = world.connect("w")
    full_disk.fill()
    writer.send(Publish("a", b"1", 1, 1))
    world.hold()
    full_disk.make_room()
    full_disk.fill()
    many = range(2, 122)  # so many are written though a sync is under way
    writer.send(*(Publish("a", b"%d" % number, 1, number) for number in many))
    assert payloads(reader) == [b"1", *(b"%d" % number for number in many)]
    assert [ack.packet_id for ack in writer.take_all(Ack)] == [1, *many]
    world.release()
    full_disk.make_room()
    assert payloads(reader) == []
    assert writer.inbox == []
