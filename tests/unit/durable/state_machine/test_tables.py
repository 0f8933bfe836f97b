"""What a record has written so far is read by its next item, and not before it is written by anyone else."""

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.sessions.session_store import DropSession, KeepSession
from holdfast.durable.state_machine.tables import CLUSTER, META, MemoryTables, TableChanges
from holdfast.model.errors import MisuseError
from holdfast.records.session.session_record import SessionRecord

pytestmark = pytest.mark.compiled

RECORD = SessionRecord(expiry_s=1, disconnected_us=0)


def stored(*keys: bytes) -> MemoryTables:
    tables = MemoryTables()
    changes = Changes()
    for key in keys:
        changes.into(CLUSTER).put(key, key)
    tables.write(changes, [])
    return tables


def test_rows_are_read_in_front_of_the_tables() -> None:
    tables = stored(b"a", b"b")
    changes = TableChanges(tables)
    changes.put(CLUSTER, b"a", b"new")
    changes.delete(CLUSTER, b"b")
    assert (changes.get(CLUSTER, b"a"), changes.get(CLUSTER, b"b"), changes.get(META, b"a")) == (b"new", None, None)
    assert tables.get(CLUSTER, b"a") == b"a"
    tables.write(changes.changes, changes.steps)
    assert tables.rows() == {(CLUSTER, b"a"): b"new"}


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 9])
def test_a_scan_merges_what_was_written(limit: int) -> None:
    changes = TableChanges(stored(b"a", b"b", b"c", b"d", b"z"))
    changes.delete(CLUSTER, b"a")
    changes.delete(CLUSTER, b"c")
    changes.put(CLUSTER, b"bb", b"1")
    changes.put(CLUSTER, b"d", b"2")
    changes.put(META, b"b", b"3")
    expected = [(b"b", b"b"), (b"bb", b"1"), (b"d", b"2")]
    assert changes.scan(CLUSTER, b"a", b"z", limit) == (expected[:limit] if limit else expected)


def test_a_scan_sees_keys_that_came_and_went_since_the_last_one() -> None:
    tables = stored(b"a", b"c")
    assert TableChanges(tables).scan(CLUSTER, b"a", b"d", 0) == [(b"a", b"a"), (b"c", b"c")]
    changes = Changes()
    changes.into(CLUSTER).put(b"b", b"b")
    changes.into(CLUSTER).put(b"c", b"new")
    changes.into(CLUSTER).delete(b"a")
    tables.write(changes, [])
    assert tables.scan(CLUSTER, b"a", b"d", 0) == [(b"b", b"b"), (b"c", b"new")]
    assert tables.scan(CLUSTER, b"a", b"d", 1) == [(b"b", b"b")]
    assert tables.scan(CLUSTER, b"c", b"d", 1) == [(b"c", b"new")]
    assert tables.scan(CLUSTER, b"d", b"c", 0) == tables.scan(META, b"a", b"z", 0) == []


def test_sessions_are_read_as_the_steps_leave_them() -> None:
    tables = MemoryTables()
    changes = TableChanges(tables)
    changes.step(KeepSession("c", RECORD, None))
    assert (changes.session("c"), tables.session("c")) == (RECORD, None)
    changes.step(DropSession("c", RECORD))
    assert changes.session("c") is None
    assert len(changes.digested) == 6


def test_what_is_not_digested_is_written_all_the_same() -> None:
    changes = TableChanges(MemoryTables())
    changes.put(CLUSTER, b"a", b"1", digested=False)
    changes.step(KeepSession("c", RECORD, None), digested=False)
    assert changes.digested == []
    assert (len(changes.changes), len(changes.steps)) == (1, 1)


def test_a_range_is_no_change_of_a_record() -> None:
    changes = Changes()
    changes.into(CLUSTER).delete_range(b"a", b"b")
    with pytest.raises(MisuseError):
        MemoryTables().write(changes, [])
