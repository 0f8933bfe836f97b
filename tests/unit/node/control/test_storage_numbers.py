"""Numbers of what a node has on disk."""

import asyncio
from pathlib import Path

import pytest

from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.durable.changes import Changes
from holdfast.model.errors import PermanentError
from holdfast.model.histogram import HistogramCounts
from holdfast.node.control.broker_stats import BrokerStats, LoopLag
from holdfast.node.control.client_feed import ClientFeed, ClientScan
from holdfast.node.control.client_rows import ClientRowBuilder
from holdfast.node.control.slice_times import SliceTimes
from holdfast.node.control.storage_numbers import REFRESH_S, StorageNumbers
from holdfast.node.node_state import NodeState
from holdfast.node.settings.tree import Settings
from holdfast.records.retained import retained_key
from holdfast.storage.rocks.engine.column_families import RETAINED
from holdfast.storage.rocks.engine.disk_space import DiskState
from holdfast.storage.rocks.engine.quarantine import QUARANTINE_NAME, Damage, Quarantine
from holdfast.storage.rocks.log.leases import note_broken, renew_lease
from tests.disk_world import DiskWorld, publish


def test_numbers_of_the_disk_are_looked_at_now_and_then(tmp_path: Path) -> None:
    now_s = [0.0]
    with DiskWorld(tmp_path) as world:
        numbers = StorageNumbers(world.disk, lambda: now_s[0])
        publish(world, ("a", b"x"), ("b", b"y"))

        async def look() -> None:
            renew_lease(tmp_path, "archive", {0: 1}, 1)
            numbers.refresh()
            assert numbers._looking is not None
            await asyncio.wait([numbers._looking])
            numbers.refresh()

        async def look_again() -> None:
            numbers.refresh()
            assert numbers.labelled["stored_messages"] == {"default": 2}, "the last look is not old"
            now_s[0] = REFRESH_S
            numbers.refresh()
            assert numbers.labelled["stored_messages"] == {"default": 3}
            assert numbers._looking is not None
            await asyncio.wait([numbers._looking])

        asyncio.run(look())
        assert numbers.labelled["stored_messages"] == {"default": 2}
        publish(world, ("a", b"x"))
        asyncio.run(look_again())
        assert numbers.labelled["generations"] == {"default": 1}
        assert numbers.labelled["stored_bytes"]["default"] > 0
        assert numbers.labelled["lease_age_seconds"]["archive"] > 0
        head_us = max(shard.head_us for shard in world.disk.stored_shards())
        assert 0 < numbers.labelled["lease_lag_seconds"]["archive"] <= (head_us - 1) / 1e6
        assert numbers.numbers["rocksdb_wal_bytes"] > 0
        assert numbers.numbers["rocksdb_memtable_bytes"] > 0
        assert 0 < numbers.disk()["disk_free_bytes"] < numbers.disk()["disk_total_bytes"]


def test_broken_leases_damage_and_the_state_of_the_disk_are_told(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"x"))
        note_broken(tmp_path, renew_lease(tmp_path, "archive", {0: 1}, 1), 5_000_000, "the disk is short of space")
        for name in ("one", "two"):
            Quarantine(tmp_path / QUARANTINE_NAME, name).report([Damage("repaired", "MANIFEST", "it was short", None)])
        (tmp_path / QUARANTINE_NAME / "kept by hand").mkdir()
        world.disk.disk_state = DiskState.LOW
        world.disk.segment_counts.unreadable = 1
        changes = Changes()
        for topic in (b"one", b"two"):
            changes.into(RETAINED).put(retained_key(topic), b"damaged")
        world.disk.engine.write(world.disk.engine.written + 1, changes)
        assert world.disk.retained.get(b"one", 0) is world.disk.retained.get(b"two", 0) is None
        numbers = StorageNumbers(world.disk)

        async def look() -> None:
            numbers.refresh()
            assert "leases_broken" not in numbers.numbers, "not known yet is not none"
            assert numbers._looking is not None
            await asyncio.wait([numbers._looking])
            numbers.refresh()

        asyncio.run(look())
        assert numbers.numbers["leases_broken"] == 1
        assert numbers.labelled["lease_broken_timestamp_seconds"] == {"archive": 5.0}
        assert numbers.numbers["damage_reports"] == 2
        assert numbers.numbers["unreadable_parts"] == 3
        assert numbers.disk_state() == {"ok": 0.0, "low": 1.0, "full": 0.0}


def test_leases_that_cannot_be_read_are_not_told_and_the_rest_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    now_s = [0.0]
    with DiskWorld(tmp_path) as world:
        numbers = StorageNumbers(world.disk, lambda: now_s[0])

        async def look() -> None:
            now_s[0] += REFRESH_S
            numbers.refresh()
            assert numbers._looking is not None
            await asyncio.wait([numbers._looking])
            numbers.refresh()

        renew_lease(tmp_path, "archive", {0: 1}, 1)
        asyncio.run(look())
        assert "archive" in numbers.labelled["lease_age_seconds"]
        (tmp_path / "leases").rename(tmp_path / "aside")
        (tmp_path / "leases").write_text("")
        Quarantine(tmp_path / QUARANTINE_NAME, "one").report([Damage("repaired", "MANIFEST", "it was short", None)])
        for _time in range(2):
            asyncio.run(look())
        assert numbers.numbers["damage_reports"] == 1
        assert "leases_broken" not in numbers.numbers
        assert not [name for name in numbers.labelled if name.startswith("lease_")], "neither old ones nor none"
        assert capfd.readouterr().out.count("cannot be read: Not a directory") == 1
        (tmp_path / "leases").unlink()
        (tmp_path / "aside").rename(tmp_path / "leases")
        asyncio.run(look())
        assert "archive" in numbers.labelled["lease_age_seconds"]


def test_whatever_has_stopped_all_writing_is_told_as_poison(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        slices = SliceTimes(HistogramCounts(DURATION_BOUNDS))
        feed = ClientFeed(world.broker, ClientRowBuilder(world.broker, None), slices)
        scan = ClientScan(world.broker, feed, slices)
        state = NodeState(Settings(), world.broker)
        stats = BrokerStats(world.broker, state, scan, slices, LoopLag(), StorageNumbers(world.disk))

        async def poisoned() -> float:
            return stats.gather().numbers["poisoned"]

        assert asyncio.run(poisoned()) == 0
        world.disk.engine.fail(PermanentError("a record of an index is damaged"))
        assert asyncio.run(poisoned()) == 1


def test_what_a_session_is_owed_is_bounded_by_serials(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        numbers = StorageNumbers(world.disk)
        publish(world, *(("a", b"") for _number in range(3)))
        first = dict(world.broker.exchange.delivered)
        numbers.log.refresh()
        publish(world, *(("a", b"") for _number in range(4)))
        numbers.log.refresh()
        assert numbers.log.owed_at_most(first) == 4
        assert numbers.log.owed_at_most({}) == 7
        assert numbers.log.owed_at_most(world.broker.exchange.delivered) == 0
