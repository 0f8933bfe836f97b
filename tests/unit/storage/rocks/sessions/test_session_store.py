"""Sessions on RocksDB: what their steps leave behind in the database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import Rdict, RdictIter, ReadOptions

from holdfast.durable.changes import Changes, Operation, RangeEnd
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import (
    DropIncoming,
    DropInflight,
    DropSession,
    KeepIncoming,
    KeepInflight,
    KeepSession,
    KeepSubscription,
    ReleaseInflight,
    SessionStep,
    keep_progress,
)
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.session.progress import Progress
from holdfast.records.session.session_keys import client_prefix
from holdfast.records.session.session_record import SessionRecord
from holdfast.records.session.sessions import InflightRecord, encode_inflight
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.sessions.session_store import MAX_POINT_DELETES, MAX_RANGE_TOMBSTONES, RocksSessions
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord

ONLINE = SessionRecord(expiry_s=60, disconnected_us=0)


class Disk:
    """A session store whose writes can be held back, as on a stalled or full disk."""

    def __init__(self, folder: Path) -> None:
        self.engine = Engine.open(folder, reserve_bytes=0)
        self.held: list[tuple[int, Changes]] = []
        self.hold = False
        self.number = self.engine.written
        self.store = RocksSessions(
            self.engine, lambda *_place: None, lambda *_place: None, is_written=lambda: not self.held
        )

    def apply(self, *steps: SessionStep) -> list[Operation]:
        self.number += 1
        batch = Batch(self.number)
        batch.steps.extend(steps)
        changes = Changes()
        self.store.add(batch, changes)
        self.held.append((self.number, changes))
        if not self.hold:
            self.write()
        return changes.into(SESSIONS).operations

    def write(self) -> None:
        for number, changes in self.held:
            self.engine.write(number, changes)
        self.held.clear()

    def stored_keys(self) -> list[bytes]:
        """Of sessions, without those of lists."""
        return [key for key, _value in scan_items(self.engine.family(SESSIONS), b"\x01", b"\x02")]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    opened = Disk(tmp_path)
    yield opened
    opened.engine.close()


def ranges(operations: list[Operation]) -> int:
    return sum(isinstance(value, RangeEnd) for _key, value in operations)


def subscriptions(client_id: str, count: int) -> list[SessionStep]:
    filters = [parse_filter(b"a/%d" % number) for number in range(count)]
    return [KeepSubscription(client_id, SubscriptionRecord(filter, 1, False, False, 0, 0, 0)) for filter in filters]


def test_saved_progress_writes_no_range_tombstone_and_leaves_no_done_marker(disk: Disk) -> None:
    disk.apply(KeepSession("c", ONLINE, None), keep_progress("c", Progress({0: 0, 1: 0}, [], 0)))
    keys = len(disk.stored_keys())
    for now in range(1, 50):
        operations = disk.apply(
            DropInflight("c", now, 0, now * 10), DropInflight("c", now, 1, now * 10 + 5), DropInflight("c", 0, 0, 0)
        )
        operations += disk.apply(keep_progress("c", Progress({0: now * 10, 1: now * 10 - 5}, [], 0)))
        assert not ranges(operations)
        stored = disk.store.load("c")
        assert stored is not None
        assert stored.done == {(1, now * 10 + 5)}
    assert len(disk.stored_keys()) == keys + 1


def owed(position_us: int) -> Owed:
    message = Message(b"t", b"payload", 2, ClientId("p"), 0)
    message.shard, message.position_us = 0, position_us
    return Owed(message, 2)


def test_qos_2_messages_one_after_the_other_use_the_same_keys(disk: Disk) -> None:
    """The scan that loads a session at CONNECT visits as many keys as there were messages at once, not in all."""
    disk.apply(KeepSession("c", ONLINE, None))
    touched: set[bytes] = set()
    for number in range(1, 300):
        for step in (
            KeepInflight("c", number, owed(number), number),
            KeepIncoming("c", number + 7),
            ReleaseInflight("c", number),
            DropInflight("c", number, 0, number),
            DropIncoming("c", number + 7),
        ):
            touched.update(key for key, _value in disk.apply(step))
        touched.update(key for key, _value in disk.apply(keep_progress("c", Progress({0: number}, [], 0))))
    assert len(touched) == 4  # the progress, and three slots
    stored = disk.store.load("c")
    assert stored is not None
    assert not stored.done
    assert not stored.inflight
    assert not stored.incoming


def test_records_of_earlier_versions_are_loaded_and_finished(tmp_path: Path) -> None:
    """Before there were slots, QoS 2 records had keys made of packet ids and positions."""
    disk = Disk(tmp_path)
    disk.apply(KeepSession("c", ONLINE, None), keep_progress("c", Progress({0: 5}, [], 0)))
    prefix = client_prefix("c")
    changes = Changes()
    earlier = changes.into(SESSIONS)
    stored_whole = owed(0)  # with its message, because it has no place in the log
    earlier.put(prefix + b"\x02\x00\x07", encode_inflight(InflightRecord(stored_whole, 1)))
    earlier.put(prefix + b"\x02\x00\x08", encode_inflight(InflightRecord(stored_whole, 2)))
    earlier.put(prefix + b"\x03\x00\x07", b"")
    earlier.put(prefix + b"\x04\x01\x00", b"")
    earlier.put(prefix + b"\x06\x00\x00" + (9).to_bytes(8, "big"), b"")
    disk.engine.write(disk.number + 1, changes)
    disk.engine.close()

    again = Disk(tmp_path)
    stored = again.store.load("c")
    assert stored is not None
    assert list(stored.inflight) == [7, 8]
    assert (stored.released, stored.incoming, stored.done) == ({7}, {256}, {(0, 9)})
    again.apply(ReleaseInflight("c", 8), KeepIncoming("c", 256), KeepInflight("c", 9, stored_whole, 3))
    again.apply(DropInflight("c", 7, 0, 0), DropInflight("c", 8, 0, 12), DropIncoming("c", 256))
    stored = again.store.load("c")
    assert stored is not None
    assert list(stored.inflight) == [9]
    assert (stored.released, stored.incoming, stored.done) == (set(), set(), {(0, 9), (0, 12)})
    again.apply(DropInflight("c", 9, 0, 0), keep_progress("c", Progress({0: 12}, [], 0)))
    kinds = [key[len(prefix)] for key in again.stored_keys()]
    assert kinds == [0x00, 0x05]
    again.engine.close()


def test_an_offline_session_holds_no_slots_in_memory_and_goes_on_with_those_on_disk(disk: Disk) -> None:
    offline = SessionRecord(expiry_s=60, disconnected_us=1_000_000)
    disk.apply(KeepSession("c", ONLINE, None), KeepInflight("c", 1, owed(0), 1), KeepInflight("c", 2, owed(0), 2))
    disk.apply(KeepSession("c", offline, ONLINE), DropInflight("c", 1, 0, 30))
    disk.apply(KeepSession("other", ONLINE, None))
    assert disk.store.slots_in_memory() == 0
    disk.apply(KeepInflight("c", 3, owed(0), 3))
    stored = disk.store.load("c")
    assert stored is not None
    assert list(stored.inflight) == [2, 3]
    assert stored.done == {(0, 30)}


def test_slots_of_sessions_that_are_offline_are_forgotten_however_they_were_learned_of(disk: Disk) -> None:
    """Sessions with an external queue are loaded at the start without a connection; others leave with a full batch."""
    offline = SessionRecord(expiry_s=60, disconnected_us=1_000_000)
    disk.apply(KeepSession("loaded", offline, None), KeepIncoming("loaded", 1))
    disk.apply(KeepSession("other", ONLINE, None))
    assert disk.store.load("loaded") is not None
    disk.apply(KeepSession("leaving", ONLINE, None))
    disk.apply(KeepSession("leaving", offline, ONLINE), KeepIncoming("leaving", 1))
    disk.apply(KeepSession("other", ONLINE, ONLINE))
    assert disk.store.slots_in_memory() == 0


def test_done_markers_of_an_earlier_run_are_deleted_when_they_are_passed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.apply(KeepSession("c", ONLINE, None), DropInflight("c", 1, 0, 10), DropInflight("c", 2, 0, 20))
    disk.engine.close()
    again = Disk(tmp_path)
    stored = again.store.load("c")
    assert stored is not None
    assert stored.done == {(0, 10), (0, 20)}
    again.apply(keep_progress("c", Progress({0: 15}, [], 0)))
    stored = again.store.load("c")
    assert stored is not None
    assert stored.done == {(0, 20)}
    again.engine.close()


def test_the_end_of_a_session_deletes_its_keys_one_by_one(disk: Disk) -> None:
    for _life in range(3):
        disk.apply(KeepSession("c", ONLINE, None), *subscriptions("c", 20))
        operations = disk.apply(*subscriptions("c", 25), DropSession("c", ONLINE))
        assert not ranges(operations)
        assert disk.stored_keys() == []
        assert disk.store.load("c") is None


def test_a_session_that_ends_and_begins_in_one_commit_keeps_what_follows_its_end(disk: Disk) -> None:
    disk.apply(KeepSession("c", ONLINE, None), *subscriptions("c", 3))
    disk.apply(*subscriptions("c", 5), DropSession("c", ONLINE), KeepSession("c", ONLINE, None), *subscriptions("c", 1))
    stored = disk.store.load("c")
    assert stored is not None
    assert list(stored.subscriptions) == [b"a/0"]


def test_a_session_whose_last_commit_is_not_written_yet_ends_whole(disk: Disk) -> None:
    disk.hold = True
    disk.apply(KeepSession("c", ONLINE, None), *subscriptions("c", 3))
    disk.apply(DropSession("c", ONLINE))
    disk.write()
    assert disk.store.load("c") is None
    assert disk.store.count() == 0


class CountingFamily:
    """The sessions on a disk, with the flushes that were asked for."""

    def __init__(self, family: Rdict) -> None:
        self._family = family
        self.flushes = 0

    def flush(self, *, wait: bool) -> None:
        self.flushes += 1
        self._family.flush(wait=wait)

    def __getattr__(self, name: str) -> object:
        return getattr(self._family, name)


def test_range_tombstones_of_large_sessions_are_flushed_in_bounded_numbers(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = subscriptions("c", MAX_POINT_DELETES + 1)
    family = CountingFamily(disk.engine.family(SESSIONS))
    monkeypatch.setattr(disk.engine, "family", lambda _name: family)
    written = 0
    for _life in range(2 * MAX_RANGE_TOMBSTONES):
        disk.apply(KeepSession("c", ONLINE, None), *many)
        written += ranges(disk.apply(DropSession("c", ONLINE)))
        assert disk.store.load("c") is None
        assert family.flushes == written // MAX_RANGE_TOMBSTONES
    assert written == 2 * MAX_RANGE_TOMBSTONES


class FailingFamily:
    """The sessions on a disk that fails: a damaged table, no room for another one."""

    def __init__(self, family: Rdict) -> None:
        self._family = family

    def iter(self, _options: ReadOptions) -> RdictIter:
        raise PermanentError("stored messages cannot be read on: Corruption: block checksum mismatch")

    def flush(self, *, wait: bool) -> None:
        raise OSError(f"IO error: No space left on device: {wait}")

    def __getattr__(self, name: str) -> object:
        return getattr(self._family, name)


def test_a_disk_that_fails_does_not_keep_a_session_from_its_end(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages of others are in the same commit."""
    disk.apply(KeepSession("c", ONLINE, None), *subscriptions("c", 3))
    family = disk.engine.family(SESSIONS)
    with monkeypatch.context() as failing:
        failing.setattr(disk.engine, "family", lambda _name: FailingFamily(family))
        for _life in range(MAX_RANGE_TOMBSTONES + 1):
            assert ranges(disk.apply(DropSession("c", ONLINE), KeepSession("c", ONLINE, None))) == 1
    disk.apply(DropSession("c", ONLINE))
    assert disk.stored_keys() == []


def test_the_look_for_ended_sessions_begins_behind_those_that_were_removed(disk: Disk) -> None:
    ends = [SessionRecord(expiry_s=1, disconnected_us=second * 1_000_000) for second in range(1, 9)]
    for number, record in enumerate(ends):
        disk.apply(KeepSession(f"c{number}", record, None))
    assert disk.store.expiring(5_500_000, 2) == ["c0", "c1"]
    disk.apply(DropSession("c0", ends[0]), DropSession("c1", ends[1]))
    assert disk.store.expiring(5_500_000, 10) == ["c2", "c3"]
    assert disk.store.expiring(1_000_000, 10) == []
    disk.apply(KeepSession("early", ends[0], None))
    assert disk.store.expiring(5_500_000, 10) == ["early", "c2", "c3"]


def test_an_end_that_is_not_written_yet_is_not_passed_over(disk: Disk) -> None:
    disk.hold = True
    disk.apply(KeepSession("c", SessionRecord(expiry_s=1, disconnected_us=1_000_000), None))
    assert disk.store.expiring(9_000_000, 10) == []
    disk.write()
    assert disk.store.expiring(9_000_000, 10) == ["c"]
