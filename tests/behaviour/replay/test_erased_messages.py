"""Erasures as clients notice them: in replays, in what a session is owed, in retained messages."""

from pathlib import Path
from typing import Any

from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables.tables import RETAINED, TableQuery, table_batches
from holdfast.storage.event_files import read_events
from holdfast.storage.rocks.log.erasure_file import erase
from holdfast.wire.packets import Publish
from tests.disk_world import DiskWorld, back, payloads, publish, replay
from tests.slow_world import kept


def erased(world: DiskWorld, folder: Path, **what: str) -> None:
    with HistoryReader.open(folder) as reader:
        up_to = {shard: head.position_us for shard, head in reader.heads().items()}
    erase(folder, up_to=up_to, now_us=world.clock.wall_us(), made_by="test", **what)


def retained(world: DiskWorld, folder: Path) -> list[Any]:
    with HistoryReader.open(folder) as reader:
        query = TableQuery(RETAINED, ("topic",))
        found = [row for batch in table_batches(reader, query, world.clock.wall_us()) for row in batch.to_pylist()]
    return [row["topic"] for row in found]


def test_a_replay_leaves_out_what_was_erased(tmp_path: Path) -> None:
    """From memory, and after a restart from the disk."""
    world = DiskWorld(tmp_path)
    publish(world, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    erased(world, tmp_path, topic="a")
    world.tick()
    publish(world, ("a", b"4"))
    reader = kept(world, "reader")
    replay(reader, "#", replay_from="earliest")
    assert payloads(reader) == [b"2", b"4"]
    world.crash()
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        reader = kept(world, "another")
        replay(reader, "#", replay_from="earliest")
        assert payloads(reader) == [b"2", b"4"]


def test_a_long_erased_stretch_does_not_end_a_replay(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        for _round in range(6):
            publish(world, *[("a", b"x")] * 500)
        publish(world, ("b", b"last"))
    with DiskWorld(tmp_path, start_us=1_700_000_010_000_000) as world:
        erased(world, tmp_path, topic="a")
        world.tick()
        reader = kept(world, "reader")
        replay(reader, "#", replay_from="earliest")
        world.tick()
        assert payloads(reader) == [b"last"]


def test_a_session_is_not_owed_what_was_erased(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader")
        reader.subscribe("#", qos=1)
        reader.drop()
        publish(world, ("a", b"1"), ("b", b"2"))
        erased(world, tmp_path, client="writer")
        world.tick()
        publish(world, ("a", b"3"))
        assert payloads(back(world, "reader")) == [b"3"]


def test_retained_messages_go_and_later_ones_stay(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, unstored="m/#") as world:
        writer = world.connect("writer")
        writer.send(*(Publish(topic, b"x", 1, i + 1, retain=True) for i, topic in enumerate(("a/1", "b/1", "m/1"))))
        other = world.connect("other")
        other.send(Publish("a/2", b"x", 1, 1, retain=True))
        assert retained(world, tmp_path) == ["a/1", "a/2", "b/1", "m/1"]
        world.tick()
        erased(world, tmp_path, client="writer")
        assert retained(world, tmp_path) == ["a/2"], "hidden before it is removed"
        world.tick()
        assert world.disk.retained.count() == 1
        writer.send(Publish("b/1", b"again", 1, 9, retain=True))
        world.tick()
        assert retained(world, tmp_path) == ["a/2", "b/1"]
        world.tick()
        [event] = [event for event in read_events(tmp_path) if event.reason == "erased"]
        assert (event.client, event.detail) == ("writer", "by test")
