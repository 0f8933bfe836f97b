"""Retained messages on a disk: what a restart brings back, what expires, and what a wildcard costs."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.sys_topics import SysTopics
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import V5
from holdfast.storage.rocks.engine import scan
from holdfast.storage.rocks.retained import retained_scan
from holdfast.wire.packets import Connack, Connect, Publish, Will
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld
from tests.unit.storage.rocks.layouts.counting import CountingFamily

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000


def restarted(folder: Path, after_s: int) -> DiskWorld:
    return DiskWorld(folder, start_us=START_US + after_s * SECOND_US)


def retained_now(world: DiskWorld, text: str = "#") -> list[Publish]:
    """What a new subscriber gets, by topic."""
    reader = world.connect("reader")
    reader.subscribe(text)
    found = reader.take_all(Publish)
    reader.drop()
    assert all(packet.retain for packet in found)
    return sorted(found, key=lambda packet: packet.topic)


def leave_will(world: DiskWorld, payload: bytes) -> None:
    peer = world.peer()
    peer.send(Connect(V5, "dying", will=Will("will", payload, 1, retain=True)))
    peer.take(Connack)
    peer.drop()


def publish_own(world: DiskWorld, payload: bytes) -> None:
    message = Message(b"own", payload, 1, ClientId(""), world.clock.wall_us(), retain=True)
    world.do(lambda: world.broker.exchange.intake.publish(message))


def test_every_kind_of_retained_publish_replaces_and_removes_on_disk(tmp_path: Path) -> None:
    """M1: a client's, a will, and the broker's own."""
    for run, payload in enumerate((b"1", b"2", b"")):
        with restarted(tmp_path, run) as world:
            world.connect("w").send(Publish("client", payload, 1, 1, retain=True))
            leave_will(world, payload)
            publish_own(world, payload)
        with restarted(tmp_path, run + 1) as world:
            found = [(packet.topic, packet.payload) for packet in retained_now(world)]
            assert found == ([(topic, payload) for topic in ("client", "own", "will")] if payload else [])
            assert world.stores.retained.get(b"client", 0) is None or payload


def test_sys_values_are_never_stored_and_all_are_said_at_the_start_of_the_next_run(tmp_path: Path) -> None:
    """M1, where Holdfast differs: a value of an earlier run would pass for one of this run."""
    with restarted(tmp_path, 0) as world:
        for number in range(5):
            world.connect(f"c{number}")
        world.do(SysTopics(world.broker, "holdfast 1", 10).start)
        said = {packet.topic: packet.payload for packet in retained_now(world, "$SYS/#")}
        assert said["$SYS/broker/clients/maximum"] == b"5"
        assert world.disk.retained.count() == len(said)
    with restarted(tmp_path, 60) as world:
        assert world.disk.retained.count() == 0, "nothing of it is on the disk"
        assert retained_now(world, "$SYS/#") == []
        world.do(SysTopics(world.broker, "holdfast 2", 10).start)
        again = {packet.topic: packet.payload for packet in retained_now(world, "$SYS/#")}
        assert again.keys() == said.keys(), "one round says everything"
        assert again["$SYS/broker/version"] == b"holdfast 2"
        assert again["$SYS/broker/clients/maximum"] == b"1"


def test_a_restart_brings_back_everything_and_counts_the_expiry_from_the_time_it_was_stored(tmp_path: Path) -> None:
    """M2: topic, payload, QoS and properties; what has expired is skipped, and deleted."""
    properties = Properties(
        message_expiry_interval=60,
        content_type="text/plain",
        user_properties=(("unit", "°C"),),
        correlation_data=b"\x00\xff",
    )
    with restarted(tmp_path, 0) as world:
        world.connect("w").send(Publish("a/ü", b"21", 2, 1, retain=True, properties=properties))
    with restarted(tmp_path, 10) as world:
        (found,) = retained_now(world)
        assert (found.topic, found.payload, found.qos) == ("a/ü", b"21", 2)
        assert found.properties.message_expiry_interval == 50
        assert found.properties.user_properties == properties.user_properties
        assert found.properties.content_type == properties.content_type
        assert found.properties.correlation_data == properties.correlation_data
        stored = world.stores.retained.get("a/ü".encode(), world.clock.wall_us())
        assert stored is not None
        assert stored.received_us == START_US
    with restarted(tmp_path, 60) as world:
        assert retained_now(world) == []
        world.tick()
        assert world.disk.retained.count() == 0


def test_a_clock_that_went_backwards_counts_as_no_time_elapsed(tmp_path: Path) -> None:
    """M7: the message is there, with the interval that it came with, and not with an hour more."""
    with restarted(tmp_path, 0) as world:
        properties = Properties(message_expiry_interval=60)
        world.connect("w").send(Publish("a", b"x", 1, 1, retain=True, properties=properties))
    with restarted(tmp_path, -3600) as world:
        world.tick()
        (found,) = retained_now(world)
        assert found.properties.message_expiry_interval == 60
    with restarted(tmp_path, 59) as world:
        (found,) = retained_now(world)
        assert found.properties.message_expiry_interval == 1, "what was found too early was not changed by that"


@pytest.mark.parametrize(
    ("text", "matching"),
    [("plant/17/+", 20), ("plant/+/temp", 100), ("plant/17/temp", 1), ("plant/17/#", 20), ("+/99/s1", 1)],
)
def test_a_wildcard_does_not_touch_what_cannot_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, matching: int
) -> None:
    """M10: the moves over the keys follow what matches and the halls there are, not the 2,000 topics.

    `test_retained_many.py` has a million.
    """
    with DiskWorld(tmp_path) as world:
        sensors = ["temp", *(f"s{number}" for number in range(1, 20))]
        writer = world.connect("w")
        writer.send(*(Publish(f"plant/{hall}/{name}", b"x", retain=True) for hall in range(100) for name in sensors))
        counted: list[CountingFamily] = []

        def open_counted(cells: Any, hi: bytes) -> Any:
            counted.append(CountingFamily(cells))
            return scan.open_cursor(counted[-1], hi)

        monkeypatch.setattr(retained_scan, "open_cursor", open_counted)
        assert len(retained_now(world, text)) == matching
        moves = sum(cells.moves for cells in counted)
        jumps = 2 * 100 if "+" in text.split("/")[:2] else 2
        assert moves <= matching + jumps + 2 * len(counted)
