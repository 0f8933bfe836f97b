"""Reading keys in order, without mistaking damage for the end.

A cursor that meets a damaged block becomes invalid, just as at the end. So its status is asked at every end, and an
error of the driver becomes one of ours.
"""

from collections.abc import Iterator
from typing import Any, Protocol, cast

from rocksdict import RdictIter, ReadOptions

from holdfast.model.errors import PermanentError


class FamilyReader(Protocol):
    """What is stored: a column family of rocksdict in raw mode, also of a secondary or a read-only database."""

    def get(self, key: Any) -> Any:
        """The value of a key or None; for a list of keys, a list of those."""
        ...

    def iter(self, read_opt: ReadOptions | None = None) -> RdictIter: ...


def open_cursor(family: FamilyReader, hi: bytes) -> RdictIter:
    """A cursor over the keys below `hi`; it stands nowhere yet.

    Requires: the caller holds on to `hi` as long as to the cursor. RocksDB gets a pointer into it, and rocksdict 0.3.29
    does not keep it alive: without it a cursor ends anywhere. And there is no lower bound, because rocksdict sets the
    upper one instead; a caller that steps back checks where it got to.
    """
    options = ReadOptions()
    options.set_iterate_upper_bound(hi)
    return family.iter(options)


def check_end(cursor: RdictIter) -> None:
    """Raise PermanentError unless the cursor ended because there is nothing more."""
    try:
        cursor.status()
    except Exception as error:
        raise PermanentError(f"stored messages cannot be read on: {error}") from error


def scan_values(family: FamilyReader, lo: bytes, hi: bytes) -> Iterator[bytes]:
    """The values of the keys of [lo, hi)."""
    if lo >= hi:
        return
    cursor = open_cursor(family, hi)
    valid, value, step = cursor.valid, cursor.value, cursor.next
    cursor.seek(lo)
    while valid():
        yield value()
        step()
    check_end(cursor)


def scan_values_back(family: FamilyReader, lo: bytes, hi: bytes) -> Iterator[bytes]:
    """The values of the keys of [lo, hi), the last key first."""
    if lo >= hi:
        return
    cursor = open_cursor(family, hi)
    valid, key, value, step = cursor.valid, cursor.key, cursor.value, cursor.prev
    cursor.seek_to_last()  # below `hi`
    while valid() and key() >= lo:
        yield value()
        step()
    check_end(cursor)


def scan_items(family: FamilyReader, lo: bytes, hi: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys of [lo, hi) and their values."""
    if lo >= hi:
        return
    cursor = open_cursor(family, hi)
    valid, key, value, step = cursor.valid, cursor.key, cursor.value, cursor.next
    cursor.seek(lo)
    while valid():
        yield key(), value()
        step()
    check_end(cursor)


def get_many(family: FamilyReader, keys: list[bytes]) -> list[bytes | None]:
    """The values of many keys, None where there is none."""
    try:
        return cast("list[bytes | None]", family.get(keys))
    except Exception as error:
        raise PermanentError(f"stored messages cannot be read: {error}") from error


def get_one(family: FamilyReader, key: bytes) -> bytes | None:
    try:
        return cast("bytes | None", family.get(key))
    except Exception as error:
        raise PermanentError(f"a stored record cannot be read: {error}") from error
