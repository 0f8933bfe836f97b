"""A shard: its durable head moves with receipts, never before."""

import pytest

from holdfast.durable.positions import ShardClock
from holdfast.durable.ring import Ring
from holdfast.durable.shard import Shard

pytestmark = pytest.mark.compiled


def test_the_head_moves_when_the_commit_has_its_receipt() -> None:
    shard = Shard(0, ShardClock(100, 10**18), position_us=100, serial=5, commits=0, ring=Ring(1 << 20, 0))
    assert (shard.head_us, shard.head_serial, shard.awaiting()) == (100, 5, False)

    ends = []
    for mark in (1, 2):
        ends.append(shard.clock.next(0))
        shard.serial += 1
        shard.wrote(mark)
    assert shard.position_us == ends[-1]
    assert (shard.head_us, shard.head_serial) == (100, 5)
    assert shard.awaiting()

    shard.receipt(1)
    assert (shard.head_us, shard.head_serial, shard.awaiting()) == (ends[0], 6, True)
    shard.receipt(2)
    assert (shard.head_us, shard.head_serial, shard.awaiting()) == (ends[1], 7, False)
    assert shard.commits == 2
