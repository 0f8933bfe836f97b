"""A node of a cluster loses the end of its write-ahead log, and reads again what was in it.

The applier waits for no sync. So its database is cut behind every batch, and within batches, and opened again; what is
missing is read from the ordered log. Then it equals a node that was never killed: rows, sessions, messages and digest.

A13: killed at any step of a border, a drop, a slice. A16: no incoming packet id and no number without its message.
"""

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.cluster.vnodes.applier import VnodeApplier
from holdfast.durable.changes import Changes
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.sessions.session_store import KeepSession
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.outcome import Outcome, PublishedMessage
from holdfast.durable.state_machine.step_items import step_item
from holdfast.durable.state_machine.tables import META, MemoryTables, StateStore
from holdfast.model.clock import ManualClock
from holdfast.records.cluster.items import Border, Claim, Closed, DropGeneration, Item, Lead, Release
from holdfast.records.cluster.record import SessionEntry, revision_of
from holdfast.records.meta_keys import number_key
from holdfast.records.session.numbers import decode_number
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.wal_scan import wal_files
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from tests.conformance.state_stores import rows, sessions_of
from tests.conformance.test_session_store import shown
from tests.unit.cluster.node_world import Listener, founded_log, record, settle
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, a_will, message

CLIENTS = [f"c{number}" for number in range(6)]
VNODE = 2
LOG = "log-00000-00000001"


class Payloads:
    """Stores the payload of each message by its serial, in the batch of its record."""

    def add(self, published: Sequence[PublishedMessage], rows: Changes, changes: Changes) -> None:
        for found in published:
            changes.into(LOG).put(found.serial.to_bytes(8, "big"), found.message.payload)

    def make_ready(self) -> None:
        return

    def refused(self) -> None:
        return

    def written(self) -> None:
        return


class History:
    """Records of a log with claims, sessions, numbered QoS 2 messages, wills, generations and a closed node."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = founded_log(self.clock)
        self.sequence = 1
        self.numbers = {1: 0, 2: 0}
        sessions: list[SessionEntry] = []
        for index, client in enumerate(CLIENTS):
            self.write(1, Claim(client, 1, (index + 1, 1, 1), 0))
            sessions.append(SessionEntry(client, revision_of(self.sequence, 0)))
            stored = SessionRecord(expiry_s=100, disconnected_us=0, will=a_will(5) if index % 2 else None)
            self.write(1, step_item(KeepSession(client, stored, None), index), sessions=sessions)
        for number in range(1, 9):
            items = [
                message(b"t", b"%d-%d" % (place, number), qos=2, packet_id=number, number=number, session=place)
                for place in range(3)
            ]
            self.write(1, *items, message(b"r", b"kept", retain=True, session=3), sessions=sessions)
        self.write(2, Lead())
        self.write(2, Border("default", 2, "learned", {}))
        self.write(1, message(payload=b"behind the border"), sessions=sessions)
        self.write(2, DropGeneration("default", 1))
        self.log.append(self.last, lambda _result: None)
        self.sequence += 1
        self.write(1, Release(CLIENTS[5], 1, goodbye=False))
        self.write(2, Closed(1, 2))
        self.write(1, message(payload=b"too late"), sessions=sessions)
        self.write(2, Claim(CLIENTS[0], 7, (99, 2, 1), 0))

    def write(self, node: int, *items: Item, sessions: list[SessionEntry] | None = None) -> None:
        self.clock.advance(1_000_000)
        self.numbers[node] += 1
        self.last = record(node, self.numbers[node], *items, sessions=sessions, time_us=self.clock.wall_us())
        self.log.append(self.last, lambda _result: None)
        self.sequence += 1


@pytest.fixture(scope="module")
def history() -> History:
    return History()


class WalSizes(Listener):
    """Notes how long the WAL is behind each record."""

    def __init__(self, wal: Path) -> None:
        super().__init__()
        self.wal = wal
        self.sizes = [wal.stat().st_size]

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        super().applied(entry, outcome)
        self.sizes.append(self.wal.stat().st_size)


def apply_all(log: MemoryOrderedLog, store: StateStore, listener: Listener | None = None) -> Listener:
    listener = listener or Listener()

    async def follow() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(VnodeApplier(log, CLUSTER_ID, store, listener).run())
            await settle()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(follow())
    assert listener.stops == []
    return listener


def open_engine(folder: Path) -> Engine:
    engine = Engine.open(folder, reserve_bytes=0)
    if LOG not in engine.families():
        engine.create_family(LOG)
    return engine


def contents(store: StateStore) -> object:
    """Rows, sessions and digest."""
    sessions = {client: shown(client, sessions_of(store).load(client), {}) for client in CLIENTS}
    return rows(store), sessions, applied_row(store)


def stored_messages(engine: Engine) -> list[bytes]:
    return [value for _key, value in engine.family(LOG).items()]


def check_whole(store: RocksVnode, engine: Engine) -> None:
    """A16: of every message there is all or nothing."""
    payloads = stored_messages(engine)
    for place in range(3):
        loaded = store.sessions.load(CLIENTS[place])
        incoming = set() if loaded is None else loaded.incoming
        value = store.get(META, number_key(CLIENTS[place]))
        last = 0 if value is None else decode_number(value).number
        mine = [payload for payload in payloads if payload.startswith(b"%d-" % place)]
        assert mine == [b"%d-%d" % (place, number) for number in range(1, last + 1)]
        assert incoming in (set(range(1, last + 1)), set()), "empty: the session has ended"


@pytest.mark.slow
def test_a_node_that_lost_the_end_of_its_wal_reads_it_again(tmp_path: Path, history: History) -> None:
    """A13, A16: the WAL is cut behind every record, and within the batch of every record, as by a power loss."""
    plain = MemoryTables()
    apply_all(history.log, plain)
    engine = open_engine(tmp_path / "whole")
    store = RocksVnode(engine, VNODE, Payloads())
    sizes = WalSizes(wal_files(engine.path)[-1])
    apply_all(history.log, store, sizes)
    assert contents(store) == contents(plain)
    whole_messages = stored_messages(engine)
    assert whole_messages == [found.message.payload for found in plain.messages]
    # Copied while it is open: what a killed process leaves.
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    engine.close()
    reached: list[int] = []
    for cut in sorted({*sizes.sizes, *[size - 1 for size in sizes.sizes[1:]]}):
        folder = tmp_path / f"cut-{cut}"
        shutil.copytree(tmp_path / "killed", folder)
        os.truncate(folder / "rocks" / sizes.wal.name, cut)
        engine = open_engine(folder)
        try:
            assert engine.damage == []
            store = RocksVnode(engine, VNODE, Payloads())
            reached.append(applied_row(store).sequence)
            check_whole(store, engine)
            listener = apply_all(history.log, store)
            assert listener.sequences() == list(range(reached[-1] + 1, history.sequence + 1))
            assert contents(store) == contents(plain)
            assert stored_messages(engine) == whole_messages
        finally:
            engine.close()
        shutil.rmtree(folder)
    assert reached == sorted(reached)
    assert set(reached) == set(range(history.sequence + 1))
