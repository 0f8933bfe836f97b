"""The tables of a vnode: every implementation does what the dictionaries do, also after it was opened again."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.durable.changes import Changes
from holdfast.durable.sessions.session_store import DropSession, KeepIncoming, KeepSession, SessionStep
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.tables import CLUSTER, META, RETAINED, MemoryTables, StateStore
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.session.session_record import SessionRecord
from tests.conformance.session_steps import step_lists
from tests.conformance.state_stores import BACKENDS, Opener, rocks, rows, sessions_of
from tests.conformance.test_session_store import passed_by, same

RECORD = SessionRecord(expiry_s=60, disconnected_us=0)
#: Vnodes whose numbers begin with bytes that are tags elsewhere, or are the last ones there can be.
VNODES = [0, 1, 3, 0x0100, 0x0101, 0xFFFF]


@pytest.fixture(params=BACKENDS)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return BACKENDS[request.param](tmp_path)


def put(store: StateStore, family: str, key: bytes, value: bytes | None) -> None:
    changes = Changes()
    if value is None:
        changes.into(family).delete(key)
    else:
        changes.into(family).put(key, value)
    store.write(changes, [])


def test_a_row_is_what_was_written_last(opener: Opener) -> None:
    changes = Changes()
    for value in (b"1", b"2"):
        changes.into(CLUSTER).put(b"\x01", value)
    changes.into(CLUSTER).put(b"\x02", b"x")
    changes.into(CLUSTER).delete(b"\x02")
    changes.into(CLUSTER).delete(b"\x03")
    changes.into(CLUSTER).put(b"\x03", b"")
    with opener(5) as store:
        store.write(changes, [])
    with opener(5) as store:
        assert store.get(CLUSTER, b"\x01") == b"2"
        assert store.get(CLUSTER, b"\x02") is None
        assert store.get(CLUSTER, b"\x03") == b""
        put(store, CLUSTER, b"\x01", None)
    with opener(5) as store:
        assert store.get(CLUSTER, b"\x01") is None


def test_tables_with_the_same_keys_do_not_mix(opener: Opener) -> None:
    with opener(5) as store:
        for number, family in enumerate((CLUSTER, META, RETAINED)):
            put(store, family, b"\x01\x00", bytes((number,)))
    with opener(5) as store:
        assert rows(store) == {
            CLUSTER: [(b"\x01\x00", b"\x00")],
            META: [(b"\x01\x00", b"\x01")],
            RETAINED: [(b"\x01\x00", b"\x02")],
        }


def test_a_scan_gives_the_first_rows_of_a_range_in_order(opener: Opener) -> None:
    keys = [b"\x09", b"\x09a", b"\x09a\x00", b"\x09b", b"\x09\xff", b"\x0a"]
    with opener(5) as store:
        for key in reversed(keys):
            put(store, META, key, key)
    with opener(5) as store:
        assert [key for key, _value in store.scan(META, b"\x09", b"\x0a", 0)] == keys[:-1]
        assert store.scan(META, b"\x09a", b"\x09b", 0) == [(b"\x09a", b"\x09a"), (b"\x09a\x00", b"\x09a\x00")]
        assert [key for key, _value in store.scan(META, b"\x09a\x00", b"\xff" * 9, 2)] == [b"\x09a\x00", b"\x09b"]
        assert store.scan(META, b"\x0b", b"\x0a", 0) == []
        assert store.scan(CLUSTER, b"", b"\xff" * 9, 0) == []


def test_a_session_is_read_without_what_it_has(opener: Opener) -> None:
    with opener(5) as store:
        assert store.session("a") is None
        store.write(Changes(), [KeepSession("a", RECORD, None), KeepIncoming("a", 7)])
    with opener(5) as store:
        assert store.session("a") == RECORD
        loaded = sessions_of(store).load("a")
        assert loaded is not None
        assert loaded.incoming == {7}
        store.write(Changes(), [DropSession("a", RECORD), KeepSession("a", RECORD, None)])
    with opener(5) as store:
        loaded = sessions_of(store).load("a")
        assert loaded is not None
        assert loaded.incoming == set(), "what was there before it ended is gone"


def test_vnodes_do_not_see_each_other(opener: Opener) -> None:
    for vnode in VNODES:
        with opener(vnode) as store:
            put(store, CLUSTER, b"\x01", b"%d" % vnode)
            record = SessionRecord(expiry_s=vnode, disconnected_us=1)
            store.write(Changes(), [KeepSession("a", record, None), KeepSession(f"of {vnode}", record, None)])
    with opener(VNODES[0]) as store:
        store.write(Changes(), [DropSession("a", SessionRecord(expiry_s=VNODES[0], disconnected_us=1))])
    for vnode in VNODES[1:]:
        with opener(vnode) as store:
            assert rows(store) == {CLUSTER: [(b"\x01", b"%d" % vnode)], META: [], RETAINED: []}
            sessions = sessions_of(store)
            assert sessions.count() == 2
            assert sorted(sessions.expiring(2**62, 9)) == ["a", f"of {vnode}"]


def test_only_messages_with_a_serial_are_stored() -> None:
    tables = MemoryTables()
    message = Message(b"t", b"x", 0, ClientId("p"), 1)
    published = [PublishedMessage(index, message, serial, 0, is_will=False) for index, serial in enumerate((0, 1))]
    tables.write(Changes(), [], published)
    assert [message.serial for message in tables.messages] == [1]


_keys = st.binary(min_size=1, max_size=3)
_rows = st.tuples(st.sampled_from([CLUSTER, META, RETAINED]), _keys, st.none() | st.binary(max_size=2))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(_rows, max_size=6), max_size=5), st.lists(step_lists, max_size=1), _keys, _keys)
def test_rocks_reads_what_dictionaries_read(
    batches: list[list[tuple[str, bytes, bytes | None]]], stepped: list[list[SessionStep]], lo: bytes, hi: bytes
) -> None:
    model = MemoryTables()
    with TemporaryDirectory() as folder:
        opener = rocks(Path(folder))
        with opener(2) as store:
            for batch in batches:
                changes = Changes()
                for family, key, value in batch:
                    into = changes.into(family)
                    into.delete(key) if value is None else into.put(key, value)
                for tables in (model, store):
                    tables.write(changes, [])
            for steps in stepped:
                for tables in (model, store):
                    tables.write(Changes(), steps)
        with opener(2) as store:
            assert rows(store) == rows(model)
            for family in (CLUSTER, META, RETAINED):
                for limit in (0, 1, 3):
                    assert store.scan(family, lo, hi, limit) == model.scan(family, lo, hi, limit)
            for steps in stepped:
                same(sessions_of(store), model.sessions, passed_by(steps))
