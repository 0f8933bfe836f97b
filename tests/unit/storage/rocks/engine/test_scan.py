"""Scans: whole, exact, and loud about damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.engine.scan import scan_items, scan_values
from holdfast.storage.rocks.layouts.build import make_layout
from tests.unit.storage.rocks.layouts.store import END_US, Log, Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("rocks"))
    yield store
    store.close()


def numbered(store: Store, count: int) -> str:
    family = store.new_family()
    changes = Changes()
    for i in range(count):
        changes.into(family).put(b"k%06d" % i, b"%d" % i)
    store.write(changes)
    return family


def test_a_scan_ends_at_its_bound_whatever_happens_to_memory(store: Store) -> None:
    """The bound is a pointer into Python's memory; if it were let go, other bytes would stand there soon."""
    cells = store.cells(numbered(store, 1_000))
    for _round in range(50):
        values = scan_values(cells, b"k%06d" % 500, b"k%06d" % 600)
        items = scan_items(cells, b"k%06d" % 500, b"k%06d" % 600)
        found = []
        rubbish: list[bytes] = []
        for value, (key, _same) in zip(values, items, strict=True):
            rubbish.append(b"a" + key[1:])
            rubbish.append(b"z" + key[1:])
            found.append(value)
        assert found == [b"%d" % i for i in range(500, 600)]


def test_an_empty_range_is_empty(store: Store) -> None:
    cells = store.cells(numbered(store, 10))
    assert list(scan_values(cells, b"k000005", b"k000005")) == []
    assert list(scan_items(cells, b"k000007", b"k000003")) == []


@pytest.mark.parametrize("name", ["timeline", "learned", "bitmask"])
def test_a_damaged_block_is_an_error_and_not_the_end(tmp_path: Path, name: str) -> None:
    """A short read would look like a log without those messages."""
    store = Store(tmp_path / "rocks")
    log = Log(store, make_layout(name, {}))
    for _commit in range(20):
        log.put(*[b"plant/%d" % (i % 9) for i in range(500)])
    log.cells.flush()
    store.reopen()
    whole = log.read("#")
    assert len(whole) == 10_000
    store.close()
    tables = sorted((tmp_path / "rocks").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(tables[-1].read_bytes())
    content[len(content) // 2] ^= 0xFF
    tables[-1].write_bytes(content)
    store = Store(tmp_path / "rocks", log.family)
    levels = (b"#",)
    with pytest.raises(PermanentError, match="cannot be read"):
        list(make_layout(name, {}).read(store.cells(log.family), levels, 0, END_US))
    store.close()
