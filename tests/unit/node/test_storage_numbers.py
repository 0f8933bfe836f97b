"""Numbers of what a node has on disk."""

import asyncio
from pathlib import Path

from holdfast.node.storage_numbers import REFRESH_S, StorageNumbers
from holdfast.storage.rocks.log.leases import renew_lease
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
