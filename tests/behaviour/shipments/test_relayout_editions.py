"""A generation in another edition has the same messages, and takes the place of the old one in one step."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.durable.log import NO_END
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.relayout.plan import RelayoutJob, RelayoutTask, check_count, choose_generations, day_us
from holdfast.pipeline.relayout.rows import count_topics, lay_out_parts, trial_digest
from holdfast.pipeline.shipment.pair_batches import DIGEST_SLOT, digest_of
from holdfast.records.generations import Generation
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ZoneGenerations
from holdfast.storage.rocks.shipments.parallel_layout import learn
from holdfast.storage.rocks.shipments.shipment import TABLES, ShipmentEntry, make_folder, refusal, ship
from holdfast.storage.rocks.shipments.sst_files import SstWriter
from holdfast.storage.rocks.shipments.trial_database import open_trial
from holdfast.wire.packets import Connack
from tests.disk_world import DiskWorld, back, payloads, publish, replay
from tests.slow_world import connect
from tests.unit.pipeline.bulk_load.test_lane_plan import DAY_US, NOW_US, take_all
from tests.unit.pipeline.local_load import stored

pytestmark = pytest.mark.slow


def tasks(job: RelayoutJob) -> list[RelayoutTask]:
    with HistoryReader.open(job.data) as reader:
        return choose_generations(reader.view(), job, NOW_US)


def remade(data: Path, task: RelayoutTask) -> ShipmentEntry:
    """What a job on Spark leaves for whoever holds the folder, of one generation, on trial already."""
    with HistoryReader.open(data) as reader:
        parts = [part for part in reader.parts(zone=task.old.zone) if part.generation == task.old.number]
        right = digest_of(value for part in parts for value in reader.start_replay([part]).records())
    pieces = [piece for part in parts for piece in part.split(3)]
    counted: dict[tuple[int, bytes], tuple[int, int]] = {}
    for piece in pieces:
        for place, (count, last_us) in count_topics(str(data), piece):
            before, last_before_us = counted.get(place, (0, 0))
            counted[place] = (before + count, max(last_us, last_before_us))
    shards = task.old.shards
    structures = {
        shard: learn(
            task.new.layout,
            dict(task.new.parameters),
            {topic: count for (at, topic), (count, _last_us) in counted.items() if at == shard},
        )
        for shard in shards
    }
    last = {
        shard: max([last for (at, _t), (_n, last) in counted.items() if at == shard], default=-1) for shard in shards
    }
    pairs = {shard: structures[shard].own_pairs(last[shard]) for shard in shards}
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(pieces)))})
    for batch in lay_out_parts(str(data), pieces, structures, [numbers]):
        for row in batch.to_pylist():
            if row["slot"] != DIGEST_SLOT:
                pairs[row["slot"]].append((row["key"], row["value"]))
    folder = make_folder(data, task.name)
    tables: dict[int, tuple[str, ...]] = {}
    for shard, own in pairs.items():
        writer = SstWriter(folder / TABLES, f"{shard:05d}")
        writer.write(sorted(own))
        tables[shard] = tuple(table.name for table in writer.close())
    with open_trial(folder, task.new, tables) as path:
        whole = [part for part in parts if part.generation == task.old.number]
        read = [trial_digest(str(path), task.new, part) for part in whole]
        assert sum(digest.messages for digest in read) == right.messages
        assert sum(digest.total for digest in read) % 2**64 == right.total
    return ShipmentEntry(task.new, tables, replaces=task.old)


def relaid(data: Path, task: RelayoutTask) -> None:
    entry = remade(data, task)
    ship(data / "incoming" / task.name, [entry], NOW_US)


def many(first: int, count: int = 60) -> list[tuple[str, bytes]]:
    return [(f"plant/{number % 23}/temp", b"%d" % number) for number in range(first, first + count)]


def filled(folder: Path) -> list[tuple[int, int, str, bytes]]:
    """A sealed generation of the layout `timeline`, and one of `paged` that is written to."""
    with DiskWorld(folder, storage={"layout": "timeline"}) as world:
        publish(world, *many(0))
    with DiskWorld(folder, start_us=NOW_US + 20_000_000) as world:
        publish(world, *many(60))
    return stored(folder)


@pytest.mark.parametrize("layout", ["learned", "bitmask", "indexed", "paged"])
def test_readers_do_not_notice(tmp_path: Path, layout: str) -> None:
    """L4, Q9: positions, serials, sessions, replays; the old families are gone, and the log is sound."""
    with DiskWorld(tmp_path, storage={"layout": "timeline"}) as world:
        away = world.peer()
        away.send(connect("away"))
        away.take(Connack)
        replay(away, "plant/3/temp", qos=1)
        away.drop()
    before = filled(tmp_path)
    with DiskWorld(tmp_path, start_us=NOW_US + 40_000_000) as world:
        (task,) = [one for one in tasks(RelayoutJob(tmp_path, layout)) if one.old.number == 1]
        relaid(tmp_path, task)
        take_all(world)
        families = world.disk.engine.families()
        assert task.old.family(0) not in families
        assert [name for name in families if name.startswith("log-00000-00000001-")]
        assert stored(tmp_path) == before
        wanted = [payload for _at, _serial, topic, payload in before if topic == "plant/3/temp"]
        assert payloads(back(world, "away")) == wanted
        reader = world.connect("reader")
        replay(reader, "plant/3/temp", replay_from="earliest")
        world.settle()
        assert payloads(reader) == wanted
    assert verify_folder(tmp_path).is_sound
    with DiskWorld(tmp_path, start_us=NOW_US + 180_000_000):
        assert stored(tmp_path) == before


def test_only_what_is_sealed_and_in_another_layout_is_written_anew(tmp_path: Path) -> None:
    filled(tmp_path)

    assert [(task.old.number, task.new.layout) for task in tasks(RelayoutJob(tmp_path))] == [(1, "paged")]
    assert tasks(RelayoutJob(tmp_path, "timeline")) == []
    assert tasks(RelayoutJob(tmp_path, zone="default", numbers=(2,))) == []
    assert [task.old.number for task in tasks(RelayoutJob(tmp_path, "learned", learn=True))] == [1]
    with pytest.raises(SettingsError, match="there is no generation 9; there are 1, 2"):
        tasks(RelayoutJob(tmp_path, numbers=(9,)))
    with pytest.raises(SettingsError, match="there is no zone 'x'; there are default"):
        tasks(RelayoutJob(tmp_path, zone="x"))


def test_messages_that_are_missing_are_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    (task,) = tasks(RelayoutJob(tmp_path))

    check_count(task, 0, 60)
    with pytest.raises(PermanentError, match=r"59 messages of shard 0 were found, and generation 1 .* has 60"):
        check_count(task, 0, 59)


def test_an_edition_of_what_has_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with DiskWorld(tmp_path, start_us=NOW_US + 40_000_000) as world:
        (task,) = tasks(RelayoutJob(tmp_path))
        entry = remade(tmp_path, task)
        world.do(lambda: world.disk.maintenance.drop_oldest(world.disk.log.zone_logs["default"]))
        dropped = tasks(RelayoutJob(tmp_path, days=(_day(),)))
        ship(
            tmp_path / "incoming" / task.name,
            [ShipmentEntry(entry.record, entry.tables, replaces=dropped[0].new)],
            NOW_US,
        )
        take_all(world)
        assert "is not what it was, or gone" in (refusal(tmp_path, task.name) or "")


def test_a_generation_that_was_dropped_comes_back_and_stays_a_while(tmp_path: Path) -> None:
    """As it was; retention counts from then on, and drops others that are older meanwhile."""
    before = filled(tmp_path)
    with DiskWorld(tmp_path, start_us=NOW_US + 40_000_000, storage={"retention_s": 3600}) as world:
        (kept,) = tasks(RelayoutJob(tmp_path))
        entry = remade(tmp_path, kept)  # while it is there: what a lake would have
        tables = {path.name: path.read_bytes() for path in (tmp_path / "incoming" / kept.name / TABLES).iterdir()}
        world.do(lambda: world.disk.maintenance.drop_oldest(world.disk.log.zone_logs["default"]))
        assert len(stored(tmp_path)) == 60
        (task,) = tasks(RelayoutJob(tmp_path, "paged", days=(_day(),)))
        folder = make_folder(tmp_path, task.name)
        for name, content in tables.items():
            (folder / TABLES / name).write_bytes(content)
        now_us = world.clock.wall_us()
        record = task.old.edited("paged", dict(task.new.parameters), now_us)
        ship(folder, [ShipmentEntry(record, entry.tables, replaces=task.old)], now_us)
        take_all(world)
        assert stored(tmp_path) == before
        world.tick(3500)
        assert stored(tmp_path) == before
        world.tick(3600)
        assert len(stored(tmp_path)) == 60
    assert verify_folder(tmp_path).is_sound


def test_a_reader_is_told_what_lies_behind_a_generation_that_was_brought_back() -> None:
    """Rule 2 of a walk: it does not go on silently behind a gap."""
    zone = ZoneGenerations()
    records = [
        Generation(
            "default", number, "timeline", {}, 10 * number, (0,), 0, end_us=10 * number + 10, last_serials=(number,)
        )
        for number in range(1, 6)
    ]
    zone.live.extend(LiveGeneration(records[index]) for index in (0, 3, 4))
    zone.dropped.extend([records[1], records[2]])

    assert (zone.gap_us(0, 0), zone.gap_us(0, 19), zone.gap_us(0, 20), zone.gap_us(0, 45)) == (20, 20, NO_END, NO_END)
    zone.dropped.clear()
    assert zone.gap_us(0, 0) == NO_END


def _day() -> date:
    day = datetime.fromtimestamp(NOW_US / 1_000_000, UTC).date()
    assert day_us(day) <= NOW_US < day_us(day) + DAY_US
    return day
