"""Reading keys in order, without mistaking damage for the end.

A cursor that meets a damaged block becomes invalid, just as at the end. So its status is asked at every end, and an
error of the driver becomes one of ours.
"""

from collections.abc import Iterator
from typing import cast

from rocksdict import RdictIter, ReadOptions

from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.layouts.layout import Cells


def open_cursor(cells: Cells, hi: bytes) -> RdictIter:
    """A cursor over the keys below `hi`; it stands nowhere yet.

    Requires: the caller holds on to `hi` as long as to the cursor. RocksDB gets a pointer into it, and rocksdict 0.3.29
    does not keep it alive: without it a cursor ends anywhere. And there is no lower bound, because rocksdict sets the
    upper one instead; whoever steps back looks where it got to.
    """
    options = ReadOptions()
    options.set_iterate_upper_bound(hi)
    return cells.iter(options)


def check_end(cursor: RdictIter) -> None:
    """Raise PermanentError unless the cursor ended because there is nothing more."""
    try:
        cursor.status()
    except Exception as error:
        raise PermanentError(f"stored messages cannot be read on: {error}") from error


def scan_values(cells: Cells, lo: bytes, hi: bytes) -> Iterator[bytes]:
    """The values of the keys of [lo, hi)."""
    if lo >= hi:
        return
    cursor = open_cursor(cells, hi)
    valid, value, step = cursor.valid, cursor.value, cursor.next
    cursor.seek(lo)
    while valid():
        yield value()
        step()
    check_end(cursor)


def scan_items(cells: Cells, lo: bytes, hi: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys of [lo, hi) and their values."""
    if lo >= hi:
        return
    cursor = open_cursor(cells, hi)
    valid, key, value, step = cursor.valid, cursor.key, cursor.value, cursor.next
    cursor.seek(lo)
    while valid():
        yield key(), value()
        step()
    check_end(cursor)


def get_many(cells: Cells, keys: list[bytes]) -> list[bytes | None]:
    """The values of many keys, None where there is none."""
    try:
        return cast("list[bytes | None]", cells.get(keys))
    except Exception as error:
        raise PermanentError(f"stored messages cannot be read: {error}") from error


def get_one(cells: Cells, key: bytes) -> bytes | None:
    try:
        return cast("bytes | None", cells.get(key))
    except Exception as error:
        raise PermanentError(f"a stored record cannot be read: {error}") from error
