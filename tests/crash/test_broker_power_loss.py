"""The broker on a disk whose power is cut (L20): what was not synced is gone, and nobody was told of it."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.broker_run import crash
from tests.crash.disks import FragileDisk

RUNS = max(3, int(os.environ.get("HOLDFAST_CRASH_RUNS", "30")) // 6)
SEED = int(os.environ.get("HOLDFAST_CRASH_SEED", "1"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 15 * RUNS)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FragileDisk]:
    disk = FragileDisk(tmp_path)
    yield disk
    disk.close()


def test_what_was_acknowledged_survives_a_power_loss(disk: FragileDisk, tmp_path: Path) -> None:
    """L20, M6, Q1, Q2, Q9: also between the two hops of QoS 2, and for what subscribers were sent."""

    async def lose_power(broker: BrokerProcess) -> None:
        disk.cut_power()
        # A sync that fails ends it by itself, now and then before this does.
        await broker.kill(dead_or_alive=True)
        disk.restart()

    run = asyncio.run(crash(tmp_path, SEED, RUNS, end=lose_power, data=disk.folder / "data"))
    assert run.verdict() == [], f"seed {SEED}, {run.summary()}"
    assert run.ledger.acknowledged > 10, run.summary()
