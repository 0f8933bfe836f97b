"""What is remembered of a table is what the last batch has left in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.tables import CLUSTER, META
from holdfast.model.errors import TransientError
from holdfast.records.cluster.rows import closed_key, encode_closed
from holdfast.records.meta_keys import generation_key, generations_of
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode

MANY = 3000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine.open(tmp_path, reserve_bytes=0)
    yield engine
    engine.close()


def rows(family: str, *operations: tuple[bytes, bytes | None]) -> Changes:
    changes = Changes()
    for key, value in operations:
        if value is None:
            changes.into(family).delete(key)
        else:
            changes.into(family).put(key, value)
    return changes


@pytest.mark.parametrize("family", [CLUSTER, META])
def test_a_row_is_read_as_it_was_written_last(engine: Engine, family: str) -> None:
    store = RocksVnode(engine, 1)
    assert store.get(family, b"\x09a") is None
    store.write(rows(family, (b"\x09a", b"1")), [])
    assert store.get(family, b"\x09a") == b"1"
    store.write(rows(family, (b"\x09a", b"2"), (b"\x09b", b"3"), (b"\x09a", b"4")), [])
    assert (store.get(family, b"\x09a"), store.get(family, b"\x09b")) == (b"4", b"3")
    store.write(rows(family, (b"\x09a", None)), [])
    assert store.get(family, b"\x09a") is None
    assert RocksVnode(engine, 1).get(family, b"\x09b") == b"3"


def test_more_rows_than_are_remembered_are_read_as_they_are(engine: Engine) -> None:
    """Some are forgotten, asked for again and changed in between."""
    store = RocksVnode(engine, 1)
    keys = [b"\x09%d" % number for number in range(MANY)]
    store.write(rows(CLUSTER, *[(key, b"1") for key in keys]), [])
    assert all(store.get(CLUSTER, key) == b"1" for key in keys)
    store.write(rows(CLUSTER, *[(key, b"2") for key in keys[::7]]), [])
    found = [store.get(CLUSTER, key) for key in keys]
    assert found == [b"1" if number % 7 else b"2" for number in range(MANY)]


def test_an_epoch_that_is_closed_is_closed_for_the_next_record(engine: Engine) -> None:
    """A6: that it was open is remembered, and must not outlive the row that closes it."""
    store = RocksVnode(engine, 1)
    assert closed_at(store, 2, 5) == OPEN
    store.write(rows(CLUSTER, (closed_key(2, 6), encode_closed(77))), [])
    assert closed_at(store, 2, 5) == 77
    assert closed_at(store, 2, 6) == OPEN


def test_a_range_of_generations_follows_what_is_written(engine: Engine) -> None:
    store = RocksVnode(engine, 1)
    key = generation_key("default", 1)
    for value in (None, b"1", b"2", None):
        if value is not None or store.get(META, key) is not None:
            store.write(rows(META, (key, value)), [])
        expected = [] if value is None else [(key, value)]
        assert store.scan(META, *generations_of("default"), 0) == expected


def test_what_could_not_be_written_is_not_read(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RocksVnode(engine, 1)
    store.write(rows(CLUSTER, (b"\x01", b"before")), [])
    assert store.get(CLUSTER, b"\x01") == b"before"
    with monkeypatch.context() as full:
        full.setattr(engine, "_reserve_bytes", 2**62)
        with pytest.raises(TransientError):
            store.write(rows(CLUSTER, (b"\x01", b"after")), [])
        assert store.get(CLUSTER, b"\x01") == b"before"
    store.retry()
    assert store.get(CLUSTER, b"\x01") == b"after"
