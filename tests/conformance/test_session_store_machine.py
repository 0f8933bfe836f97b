"""Sessions on RocksDB against the model in memory, over writes that are held back, restarts, crashes and ends.

Batches are made in one order and written later, as on a stalled disk. What is loaded is always what was written last.
"""

import copy
import os
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import (
    DropIncoming,
    DropInflight,
    DropSession,
    KeepIncoming,
    KeepInflight,
    KeepProgress,
    KeepSession,
    MemorySessions,
    ReleaseInflight,
    SessionStep,
    keep_progress,
)
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import QUEUE_SHARD, Owed
from holdfast.records.fields import key_u16, key_u64
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.records.session.progress import Progress
from holdfast.records.session.session_keys import DONE, INFLIGHT, SLOT, client_prefix, slot_key
from holdfast.records.session.session_record import SessionRecord
from holdfast.records.session.sessions import decode_slot
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.sessions.session_store import RocksSessions
from tests.conformance.test_session_store import Passed, shown

#: About three seconds. HOLDFAST_SESSION_EXAMPLES for a longer run.
EXAMPLES = int(os.environ.get("HOLDFAST_SESSION_EXAMPLES", "150"))
LOG_SHARD = 0
CLIENTS = ["a", "ab", f"{GROUP_PREFIX}$share/g/a"]
packet_ids = st.integers(1, 5)
shards = st.sampled_from([LOG_SHARD, QUEUE_SHARD])
positions = st.integers(1, 8)
#: What happens to a session within a batch: a kind of step, and what it needs.
intentions = st.one_of(
    st.tuples(st.sampled_from(["online", "offline", "end"])),
    st.tuples(st.sampled_from([KeepInflight, ReleaseInflight, KeepIncoming, DropIncoming]), packet_ids),
    st.tuples(st.just(DropInflight), packet_ids, shards, positions | st.just(0)),
    st.tuples(st.just(KeepProgress), shards, positions),
)


class SessionStoreMachine(RuleBasedStateMachine):
    """Held-back writes, restarts, crashes, sessions that leave, return and end, records of earlier versions."""

    #: One database for all runs: opening takes longer than a run.
    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Changes] = []
        #: As the steps made so far leave it, and as the last written ones did.
        self.model = MemorySessions()
        self.written = MemorySessions()
        self.order = self.now_s = 0
        changes = Changes()
        for key, _value in scan_items(self.engine.family(SESSIONS), b"", b"\xff"):
            changes.into(SESSIONS).delete(key)
        self.engine.write(self.engine.written + 1, changes)
        self.open()

    def open(self) -> None:
        self.held = []
        self.store = RocksSessions(
            self.engine, lambda *_place: None, lambda *_place: None, is_written=lambda: not self.held
        )

    def step(self, client_id: str, intention: tuple[Any, ...], model: MemorySessions) -> SessionStep | None:
        before = model.record(client_id)
        kind, *rest = intention
        if kind in ("online", "offline"):
            self.now_s += kind == "offline"
            left_us = self.now_s * 1_000_000 if kind == "offline" else 0
            return KeepSession(client_id, SessionRecord(expiry_s=2, disconnected_us=left_us), before)
        if before is None:
            return None
        if kind == "end":
            return DropSession(client_id, before)
        if kind is KeepInflight:
            self.order += 1
            message = Message(b"t", b"%d" % self.order, 2, ClientId("p"), 0)
            return KeepInflight(client_id, rest[0], Owed(message, 2), self.order)
        if kind is KeepProgress:
            shard, position = rest
            stored = model.load(client_id)
            assert stored is not None
            sent = {} if stored.progress is None else dict(stored.progress.sent)
            # The places of a queue outside the log begin again when its store has lost it.
            sent[shard] = position if shard == QUEUE_SHARD else max(position, sent.get(shard, 0))
            return keep_progress(client_id, Progress(sent, [], 0))
        made: SessionStep = kind(client_id, *rest)
        return made

    @rule(batch=st.lists(st.tuples(st.sampled_from(CLIENTS), intentions), min_size=1, max_size=8), hold=st.booleans())
    def commit(self, batch: list[tuple[str, tuple[Any, ...]]], hold: bool) -> None:
        made = Batch(self.engine.written + 1)
        for client_id, intention in batch:
            step = self.step(client_id, intention, self.model)
            if step is not None:
                made.steps.append(step)
                self.model.apply([step])
        changes = Changes()
        self.store.add(made, changes)
        self.held.append(changes)
        if not hold:
            self.write()

    @rule()
    def write(self) -> None:
        for changes in self.held:
            self.engine.write(self.engine.written + 1, changes)
        self.held.clear()
        self.written = copy.deepcopy(self.model)

    @rule(earlier=st.booleans())
    def restart(self, earlier: bool) -> None:
        """What is not written is lost; `earlier`: an earlier version has written what there is."""
        if earlier:
            self.write_as_before()
        self.model = copy.deepcopy(self.written)
        self.open()

    def write_as_before(self) -> None:
        """QoS 2 records under keys made of packet ids and positions."""
        changes = Changes()
        puts = changes.into(SESSIONS)
        for client_id in CLIENTS:
            prefix = client_prefix(client_id)
            for key, value in scan_items(self.engine.family(SESSIONS), slot_key(client_id, 0), prefix + b"\x0a"):
                assert key[len(prefix)] == SLOT
                slot = decode_slot(value)
                puts.delete(key)
                if slot.kind == DONE:
                    puts.put(prefix + b"\x06" + key_u16(slot.place[0]) + key_u64(slot.place[1]), b"")
                else:
                    rest = value[4:] if slot.kind == INFLIGHT else b""
                    puts.put(prefix + bytes((slot.kind,)) + key_u16(slot.packet_id), rest)
        self.engine.write(self.engine.written + 1, changes)

    @rule(client_id=st.sampled_from(CLIENTS))
    def load(self, client_id: str) -> None:
        stored, expected = self.store.load(client_id), self.written.load(client_id)
        passed: Passed = {}
        if stored is not None and stored.progress is not None:
            # Progress in the log never goes back, so a marker that it has passed may stay until the next load.
            passed[client_id, LOG_SHARD] = stored.progress.sent.get(LOG_SHARD, 0)
        assert shown(client_id, stored, passed) == shown(client_id, expected, passed)

    @rule(before_s=st.integers(0, 20), limit=st.integers(1, 3))
    def expiring(self, before_s: int, limit: int) -> None:
        assert self.store.expiring(before_s * 1_000_000, limit) == self.written.expiring(before_s * 1_000_000, limit)

    @rule()
    def everything(self) -> None:
        self.write()
        for client_id in CLIENTS:
            self.load(client_id)
        self.expiring(2**40, 10)
        assert self.store.count() == self.model.count()

    @invariant()
    def slots_are_given_once(self) -> None:
        for slots in self.store._slots.values():
            slots.check_invariants()


def test_sessions_on_rocks_do_what_those_in_memory_do(tmp_path: Path) -> None:
    SessionStoreMachine.engine = Engine.open(tmp_path, reserve_bytes=0)
    try:
        run_state_machine_as_test(
            SessionStoreMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None)
        )
    finally:
        SessionStoreMachine.engine.close()
