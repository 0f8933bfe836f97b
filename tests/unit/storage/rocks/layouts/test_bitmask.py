"""The layout `bitmask`: epochs, and reads that jump over what cannot match."""

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.layouts.build import make_layout
from tests.unit.storage.rocks.layouts.counting import CountingFamily
from tests.unit.storage.rocks.layouts.store import END_US, Log, Store


def test_an_epoch_ends_by_count_and_by_time() -> None:
    """L8: both bound what a reader takes at once."""
    layout = make_layout("bitmask", {"epoch_messages": 3})
    changes = Changes()
    for position_us in (10, 11, 12, 13, 13 + 2**32 - 1, 13 + 2**32):
        layout.put(b"a", position_us, b"", changes.into("log"))
    epochs = [int.from_bytes(key[1:9], "big") for key, _value in changes.into("log").operations]
    assert epochs == [10, 10, 10, 13, 13, 13 + 2**32]


def test_reading_jumps_over_what_cannot_match(store: Store) -> None:
    """L8: one device of many, in moves of the cursor."""
    log = Log(store, make_layout("bitmask", {}))
    log.put(*[b"plant/%d/temp" % (i % 500) for i in range(3_000)])
    cells = CountingFamily(log.cells)
    found = list(filter(None, log.layout.read(cells, (b"plant", b"77", b"temp"), 0, END_US)))
    assert len(found) == 6
    assert cells.moves < 50


def test_an_open_begins_a_new_epoch(store: Store) -> None:
    """L10: nothing has to be counted, and no key is used twice."""
    log = Log(store, make_layout("bitmask", {}))
    log.put(b"a", b"b", b"a")
    log.layout = make_layout("bitmask", {})
    log.layout.load(log.cells)
    log.put(b"a", b"b")
    assert log.read("#") == [1, 2, 3, 4, 5]
    assert log.read("a", 2) == [3, 4]
