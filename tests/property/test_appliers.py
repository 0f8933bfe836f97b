"""Appliers of one vnode on two nodes, over the histories that the state machine is tested with.

One node applies every record at once, on dictionaries. The other one is on RocksDB, gets entries late and in pieces of
any size, and is killed and started again between them. At every sequence that it stops at, its digest and what can be
read from its tables are those that the first node had there.

A4: records are repeated in the log at any distance. A13: the node is killed between any two records and slices.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from holdfast.cluster.vnodes.applier import VnodeApplier
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.machine import applied_row
from holdfast.model.clock import ManualClock
from holdfast.records.cluster.rows import AppliedRow
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from tests.property.test_state_machine import CLUSTER_ID, VnodeMachine
from tests.unit.cluster.node_world import Listener, settle

#: About ten seconds. HOLDFAST_CLUSTER_EXAMPLES for a longer run.
EXAMPLES = int(os.environ.get("HOLDFAST_CLUSTER_EXAMPLES", "150"))


class ApplierMachine(VnodeMachine):
    #: One database for all runs, each with a vnode of its own: opening takes longer than a run.
    engine: Engine
    vnodes = 0

    def __init__(self) -> None:
        type(self).vnodes += 1
        self.vnode = self.vnodes
        self.clock = ManualClock(0)
        self.ordered = MemoryOrderedLog(self.clock)
        self.ordered.hold_reads = True
        self.told: list[int] = []
        #: What the first node had at each sequence.
        self.rows_at: list[AppliedRow] = []
        self.state_at: list[dict[str, Any]] = []
        super().__init__()

    def append(self, record: bytes, stamp_skew: int) -> None:
        super().append(record, stamp_skew)
        self.ordered.stamp_offset_us = self.now_us + stamp_skew
        self.ordered.append(record, lambda _result: None)
        self.rows_at.append(applied_row(self.plain))
        self.state_at.append(self.readable(self.plain))

    def readable(self, tables: Any) -> dict[str, Any]:
        state = self.state(tables)
        # Whether there is a leader is looked up in the model, which is of now.
        state.pop("leader")
        return state

    @rule(pieces=st.lists(st.integers(1, 4), min_size=1, max_size=3))
    def apply_late(self, pieces: list[int]) -> None:
        """The second node starts, gets some entries, and is killed."""
        store = RocksVnode(self.engine, self.vnode)
        before = applied_row(store).sequence
        listener = Listener()
        asyncio.run(self.follow(VnodeApplier(self.ordered, CLUSTER_ID, store, listener), pieces))
        after = applied_row(store).sequence
        assert listener.stops == []
        assert listener.sequences() == list(range(before + 1, after + 1))
        for entry, outcome in listener.told:
            assert outcome.digest == self.rows_at[entry.sequence - 1].digest
        if after:
            # A killed process leaves what it has written.
            again = RocksVnode(self.engine, self.vnode)
            assert applied_row(again) == self.rows_at[after - 1]
            assert self.readable(again) == self.state_at[after - 1]

    async def follow(self, applier: VnodeApplier, pieces: list[int]) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(applier.run())
            await settle()
            for piece in pieces:
                for reading in self.ordered.readings():
                    self.ordered.deliver(reading, piece)
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def teardown(self) -> None:
        self.apply_late([1000])
        assert applied_row(RocksVnode(self.engine, self.vnode)) == self.rows_at[-1]


def test_a_node_that_is_late_and_killed_comes_to_the_same_after_every_record(tmp_path: Path) -> None:
    ApplierMachine.engine = Engine.open(tmp_path, reserve_bytes=0)
    try:
        run_state_machine_as_test(
            ApplierMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None)
        )
    finally:
        ApplierMachine.engine.close()
