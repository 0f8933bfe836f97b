"""Loaded messages lie in lanes: with their times, once, beside what was published, and owed to nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.shipments.ingestion import Ingestion, ingest_shipment
from holdfast.storage.rocks.shipments.shipment import Shipment, read_shipment, refusal, waiting_shipments
from holdfast.wire.packets import Connack
from tests.disk_world import DiskWorld, back, payloads, publish, replay
from tests.slow_world import connect, kept
from tests.unit.pipeline.local_load import Row, seen, shipped, stored

pytestmark = pytest.mark.slow

NOW_US = 1_700_000_000_000_000
DAY_US = 24 * 3600 * 1_000_000
OLD_US = NOW_US - 30 * DAY_US


def rows(count: int = 50, first_us: int = OLD_US, step_us: int = 1_000) -> list[Row]:
    return [
        Row(first_us + step_us * i, f"plant/{i % 17}/temp", b"old %d" % i, client_id=f"device-{i % 5}")
        for i in range(count)
    ]


def take_all(world: DiskWorld) -> None:
    """As often as a broker that is let run would."""
    while waiting_shipments(world.disk.engine.folder):
        world.do(world.disk.incoming.step)
        world.settle()


def as_told(found: list[Row]) -> list[tuple[int, str, bytes]]:
    return [(row.ts, row.topic, row.payload) for row in found]


def plain(found: list[tuple[int, int, str, bytes]]) -> list[tuple[int, str, bytes]]:
    return [(position_us, topic, payload) for position_us, _serial, topic, payload in found]


@contextmanager
def opened(data: Path) -> Iterator[Engine]:
    engine = Engine.open(data, reserve_bytes=0)
    try:
        yield engine
    finally:
        engine.close()


def taken_while_stopped(data: Path, shipment: Shipment) -> bool:
    with opened(data) as engine:
        return ingest_shipment(engine, shipment)


def begun(engine: Engine, shipment: Shipment) -> Ingestion:
    """As far as it is before its records are written."""
    work = Ingestion(engine, shipment)
    assert work.check()
    while work.make_family():
        pass
    while work.ingest():
        pass
    return work


@pytest.mark.parametrize("layout", ["learned", "timeline", "bitmask", "indexed"])
def test_what_was_loaded_is_read_with_its_times(tmp_path: Path, layout: str) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("plant/1/temp", b"new"))
    old = rows()

    assert taken_while_stopped(tmp_path, shipped(old, tmp_path, "a", NOW_US, layout=layout, stretches=3))

    assert plain(stored(tmp_path))[:-1] == as_told(old)
    assert [serial for _at, serial, _topic, _payload in stored(tmp_path, "default~1")] == list(range(1, 51))
    assert verify_folder(tmp_path).is_sound
    with DiskWorld(tmp_path, start_us=NOW_US + DAY_US) as world:  # and a broker that starts on it finds it
        reader = world.connect("reader")
        replay(reader, "plant/3/temp", replay_from="earliest", replay_until=str(NOW_US))
        world.settle()
        assert payloads(reader) == [row.payload for row in old if row.topic == "plant/3/temp"]


def test_a_running_broker_takes_it_in_and_its_replays_merge_it_by_time(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("plant/1/temp", b"new"))
        old = rows()
        shipped(old, tmp_path, "a", NOW_US)
        take_all(world)
        assert plain(stored(tmp_path))[:-1] == as_told(old)
        assert waiting_shipments(tmp_path) == []
        reader = world.connect("reader")
        replay(reader, "plant/#", replay_from="earliest")
        world.settle()
        assert payloads(reader) == [*[row.payload for row in old], b"new"]
    assert verify_folder(tmp_path).is_sound


def test_a_session_is_not_owed_what_was_loaded(tmp_path: Path) -> None:
    """L4: not while the broker runs, not after a restart, and not if the times lie behind its subscription."""
    with DiskWorld(tmp_path) as world:
        away = world.peer()
        away.send(connect("away"))
        away.take(Connack)
        assert replay(away, "plant/#", qos=1) == [1]
        away.drop()
        publish(world, ("plant/1/temp", b"before"))
        world.advance(10)
        late = [Row(NOW_US + 5_000_000 + i, "plant/1/temp", b"loaded") for i in range(20)]
        shipped(late, tmp_path, "late", NOW_US + 10_000_000)
        take_all(world)
        publish(world, ("plant/1/temp", b"after"))
        assert len(stored(tmp_path)) == 22
        assert payloads(back(world, "away")) == [b"before", b"after"]
        publish(world, ("plant/1/temp", b"live"))
    with DiskWorld(tmp_path, start_us=NOW_US + 60_000_000) as world:
        assert b"loaded" not in payloads(back(world, "away"))


def test_a_group_that_began_in_the_past_is_not_owed_what_was_loaded_later(tmp_path: Path) -> None:
    """L15: it has reached the present, has a backlog, and then history is loaded behind its start."""
    with DiskWorld(tmp_path) as world:
        publish(world, ("plant/1/temp", b"1"))
        member = kept(world, "member", receive_maximum=1)
        replay(member, "$share/g/plant/#", 1, replay_from="earliest")
        assert payloads(member) == [b"1"]
        member.drop()
        publish(world, ("plant/1/temp", b"2"))
        shipped(rows(), tmp_path, "a", NOW_US)
        take_all(world)
        assert payloads(back(world, "member")) == [b"2"]


def test_a_crash_before_the_records_leaves_nothing_and_the_shipment_is_taken_again(tmp_path: Path) -> None:
    """Q9: never twice, never half."""
    with DiskWorld(tmp_path):
        pass
    old = rows()
    shipment = shipped(old, tmp_path, "a", NOW_US)
    with opened(tmp_path) as engine:
        begun(engine, shipment)
    assert stored(tmp_path) == []

    with DiskWorld(tmp_path) as world:
        assert not [name for name in world.disk.engine.families() if name.startswith("log-00001")]
        take_all(world)
        assert plain(stored(tmp_path)) == as_told(old)
    assert verify_folder(tmp_path).is_sound


def test_a_crash_behind_the_records_does_not_load_twice(tmp_path: Path) -> None:
    """Q9: the shipment is still there, and what it brings is in the log."""
    with DiskWorld(tmp_path):
        pass
    shipment = shipped(rows(), tmp_path, "a", NOW_US)
    with opened(tmp_path) as engine:
        engine.write(engine.written + 1, begun(engine, shipment).changes())

    with DiskWorld(tmp_path) as world:
        take_all(world)
        assert len(stored(tmp_path)) == 50
    assert waiting_shipments(tmp_path) == []


def test_loads_in_the_order_of_time_share_a_lane_and_overlapping_ones_do_not(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        for name, first_us in (("a", OLD_US), ("b", OLD_US + DAY_US), ("c", OLD_US + 500)):
            shipped(rows(first_us=first_us), tmp_path, name, NOW_US)
            take_all(world)
        with HistoryReader.open(tmp_path) as history:
            lanes = {zone.name: zone.shards for zone in history.zones()}
            assert lanes == {"default": (0,), "default~1": (1,), "default~2": (2,)}
            assert [record.number for record in history.generations("default~1")] == [1, 2]
        assert [serial for _at, serial, _topic, _payload in stored(tmp_path, "default~1")] == list(range(1, 101))
        reader = world.connect("reader")
        replay(reader, "plant/#", replay_from="earliest")
        world.settle()
        assert len(payloads(reader)) == 150
    assert verify_folder(tmp_path).is_sound


def test_a_zone_stands_for_its_lanes_too(tmp_path: Path) -> None:
    with DiskWorld(tmp_path):
        pass
    taken_while_stopped(tmp_path, shipped(rows(), tmp_path, "a", NOW_US))

    assert len(stored(tmp_path, "default")) == 50


def test_retention_counts_from_the_load(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, storage={"retention_s": 3600}) as world:
        shipped(rows(), tmp_path, "a", NOW_US)
        take_all(world)
        world.tick(3500)
        assert len(stored(tmp_path)) == 50
        world.tick(200)
        assert stored(tmp_path) == []


def test_equal_times_become_positions_one_after_the_other(tmp_path: Path) -> None:
    with DiskWorld(tmp_path):
        pass
    same = [Row(OLD_US, "a", b"%d" % i) for i in range(5)] + [Row(OLD_US + 2, "a", b"5"), Row(OLD_US + 100, "a", b"6")]

    taken_while_stopped(tmp_path, shipped(same, tmp_path, "a", NOW_US, stretches=1))

    assert [(at - OLD_US, payload) for at, _serial, _topic, payload in stored(tmp_path)] == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
        (3, b"3"),
        (4, b"4"),
        (5, b"5"),
        (100, b"6"),
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Row(NOW_US + 2_000_000, "a", b""), "its time is 2 s ahead of the present"),
        (Row(0, "a", b""), "it has no time after 1970"),
        (Row(OLD_US, "a/+", b""), "1 rows cannot be messages, so nothing was loaded; the row on 'a/+'"),
        (Row(OLD_US, "a", b"", qos=3), "its QoS is 3; 0 to 2 would be right"),
    ],
)
def test_rows_that_cannot_be_messages_are_named(tmp_path: Path, row: Row, said: str) -> None:
    with DiskWorld(tmp_path), pytest.raises(PermanentError, match="cannot be messages") as refused:
        seen([*rows(), row], tmp_path, NOW_US)

    assert said in str(refused.value)


def test_what_no_broker_stores_is_left_out(tmp_path: Path) -> None:
    with DiskWorld(tmp_path):
        found, _learn = seen([*rows(), Row(OLD_US, "$SYS/uptime", b"")], tmp_path, NOW_US)

    assert (found.unstored, found.counts()) == (1, {0: 50})


def test_a_shipment_that_does_not_fit_is_refused_once(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        shipped(rows(), tmp_path, "a", NOW_US)
        shipped(rows(), tmp_path, "b", NOW_US)  # planned on the same log, so into the same lane
        take_all(world)
        assert "the log has changed since the tables were made" in (refusal(tmp_path, "load-b") or "")
        assert waiting_shipments(tmp_path) == []
        assert len(stored(tmp_path)) == 50


def test_a_table_that_is_missing_is_refused(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        shipment = shipped(rows(), tmp_path, "a", NOW_US)
        for table in (shipment.folder / "tables").iterdir():
            table.unlink()
        take_all(world)
        assert "is missing" in (refusal(tmp_path, "load-a") or "")
        assert read_shipment(tmp_path, "load-a").entries


def test_a_lane_has_the_retention_of_its_zone(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, storage={"retention_s": 3600}) as world:
        shipped(rows(), tmp_path, "a", NOW_US)
        take_all(world)
    with DiskWorld(tmp_path, storage={"retention_s": 7200}) as world:
        lane = world.disk.log.zone_logs["default~1"]
        assert (lane.zone.retention_s, lane.zone.store) == (7200, False)
