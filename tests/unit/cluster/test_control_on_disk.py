"""The control log's tables in RocksDB: beside those of vnodes, and there again after a restart."""

import asyncio
from contextlib import suppress
from pathlib import Path

from holdfast.cluster.vnodes.applier import VnodeApplier
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.control import ControlMachine, all_members, founded_row, last_beat
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.clock import ManualClock
from holdfast.records.cluster.control import Beat, Join
from holdfast.records.cluster.control_rows import CONTROL_VNODE
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from tests.unit.cluster.node_world import Listener, settle
from tests.unit.durable.state_machine.control_log import FOUND, control_record, id_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID


async def follow(log: MemoryOrderedLog, store: RocksVnode | MemoryTables) -> None:
    machine = ControlMachine(CLUSTER_ID, store)
    task = asyncio.create_task(VnodeApplier(log, CLUSTER_ID, store, Listener(), machine=machine).run())
    await settle()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_members_are_there_again_after_a_restart_and_equal_those_of_another_node(tmp_path: Path) -> None:
    log = MemoryOrderedLog(ManualClock())
    records = [
        control_record(0, 0, 0, FOUND),
        control_record(1, 0, 0, Join("n1", id_of(1), id_of(7), 1)),
        control_record(1, 2, 1, Beat(connections=3)),
    ]
    for record in records:
        log.append(record, lambda _result: None)
    engine = Engine.open(tmp_path, reserve_bytes=0)
    try:
        asyncio.run(follow(log, RocksVnode(engine, CONTROL_VNODE)))
        log.append(control_record(1, 2, 2, Beat(connections=4)), lambda _result: None)
        asyncio.run(follow(log, RocksVnode(engine, CONTROL_VNODE)))
        again, plain = RocksVnode(engine, CONTROL_VNODE), MemoryTables()
        asyncio.run(follow(log, plain))
        assert applied_row(again) == applied_row(plain)
        assert applied_row(again).sequence == 4
        assert all_members(again) == all_members(plain)
        beat, founded = last_beat(again, 1), founded_row(again)
        assert beat is not None
        assert founded is not None
        assert (beat.beat.connections, founded.cluster_id) == (4, CLUSTER_ID)
        assert applied_row(RocksVnode(engine, 0)).sequence == 0
    finally:
        engine.close()
