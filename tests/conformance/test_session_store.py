"""The session store: every implementation does what the model in memory does, also after it was opened again."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import (
    KeepIncoming,
    KeepProgress,
    KeepSession,
    MemorySessions,
    SessionStep,
    SessionStore,
    StoredSession,
)
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.model.owed import place_of
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.sessions.session_store import RocksSessions
from tests.conformance.session_steps import step_lists

CLIENTS = ["a", "ab", "a\0b", "a/b", "ü", "x" * 300]


def not_found(_shard: int, _levels: tuple[bytes, ...], _position_us: int) -> Message | None:
    return None


class OnRocks:
    """Sessions on a real RocksDB, one commit for each list of steps."""

    def __init__(self, folder: Path) -> None:
        self.engine = Engine.open(folder, reserve_bytes=0)
        if SESSIONS not in self.engine.families():
            self.engine.create_family(SESSIONS)
        self.store = RocksSessions(self.engine, not_found, lambda _topic, _newest: None)

    def apply(self, steps: list[SessionStep]) -> None:
        batch = Batch(self.engine.written + 1)
        batch.steps.extend(steps)
        changes = Changes()
        self.store.add(batch, changes)
        self.engine.write(batch.number, changes)


#: How far each session was said to have come in each shard, at the most.
Passed = dict[tuple[str, int], int]


def passed_by(steps: list[SessionStep]) -> Passed:
    passed: Passed = {}
    for step in steps:
        if isinstance(step, KeepProgress):
            for shard, sent_us in step.sent.items():
                place = (step.client_id, shard)
                passed[place] = max(sent_us, passed.get(place, 0))
    return passed


def shown(client_id: str, stored: StoredSession | None, passed: Passed) -> object:
    """Without done markers that a progress has passed: a store may keep them, as they change nothing."""
    if stored is None:
        return None
    progress = stored.progress
    done = [place for place in stored.done if place[1] > passed.get((client_id, place[0]), 0)]
    return (
        stored.record,
        sorted(stored.subscriptions.items()),
        [
            (i, place_of(owed), owed.message, owed.retain, owed.identifiers, owed.group)
            for i, owed in stored.inflight.items()
        ],
        sorted(stored.released),
        sorted(stored.incoming),
        sorted(done),
        stored.replays,
        stored.retained,
        stored.group,
        stored.members,
        stored.assignments,
        progress and (progress.sent, progress.unacknowledged, progress.last_packet_id),
    )


def in_parts(store: SessionStore, client_id: str) -> StoredSession | None:
    """A session that is loaded two records at a time."""
    stored = store.load(client_id, 2)
    while stored is not None and stored.load_on is not None:
        stored.load_on(2)
    return stored


def same(one: SessionStore, other: SessionStore, passed: Passed) -> None:
    assert one.count() == other.count()
    for client_id in CLIENTS:
        whole = shown(client_id, one.load(client_id), passed)
        assert whole == shown(client_id, other.load(client_id), passed)
        assert whole == shown(client_id, in_parts(one, client_id), passed)
        assert whole == shown(client_id, in_parts(other, client_id), passed)
    for before_us in (0, 30_000_000, 2**62):
        assert sorted(one.expiring(before_us, 10)) == sorted(other.expiring(before_us, 10))
    assert sorted(one.connected("", 10)) == sorted(other.connected("", 10))
    assert one.with_external_queue("", 10) == other.with_external_queue("", 10)
    assert one.with_external_queue("a\0b", 2) == other.with_external_queue("a\0b", 2)
    assert one.waiting_wills(0, "", 10) == other.waiting_wills(0, "", 10)


@pytest.mark.slow
@settings(max_examples=15)
@given(step_lists)
def test_rocks_does_what_memory_does(steps: list[SessionStep]) -> None:
    model = MemorySessions()
    with TemporaryDirectory() as folder:
        stored = OnRocks(Path(folder))
        for at in range(0, len(steps), 7):
            model.apply(steps[at : at + 7])
            stored.apply(steps[at : at + 7])
        same(stored.store, model, passed_by(steps))
        stored.engine.close()
        again = OnRocks(Path(folder))
        same(again.store, model, passed_by(steps))
        again.engine.close()


def test_records_without_their_session_are_reported(tmp_path: Path) -> None:
    """A damaged store is never taken for an empty one."""
    stored = OnRocks(tmp_path)
    record = SessionRecord(expiry_s=5, disconnected_us=0)
    stored.apply([KeepIncoming("c", 7)])
    with pytest.raises(PermanentError, match="no session"):
        stored.store.load("c")
    stored.apply([KeepSession("c", record, None)])
    assert stored.store.load("c") is not None
    stored.engine.close()


def test_ends_are_listed_soonest_first(tmp_path: Path) -> None:
    stored = OnRocks(tmp_path)
    for name, left_us in (("late", 20_000_000), ("soon", 10_000_000)):
        record = SessionRecord(expiry_s=60, disconnected_us=left_us)
        stored.apply([KeepSession(name, record, None)])
    assert stored.store.expiring(2**62, 10) == ["soon", "late"]
    assert stored.store.expiring(2**62, 1) == ["soon"]
    stored.engine.close()
