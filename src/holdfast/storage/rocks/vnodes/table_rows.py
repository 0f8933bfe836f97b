"""A table of a vnode with the rows that were read lately: every record is decided by the same few.

    every record        applied, clock, writer, holders, settings; the head of a shard
    its sessions        their registrations
    small ranges        closed epochs of a node, generations of a zone

1. What is remembered is what the last batch that was written has left: `wrote` follows every batch, and `forget`
   follows one that failed. So other code may write the table only before it is opened.
2. It takes bounded memory, however many rows there are.
"""

from itertools import islice
from typing import Final

from holdfast.durable.changes import FamilyChanges, RangeEnd
from holdfast.storage.rocks.engine.family_slice import FamilySlice

#: Rows that are remembered are between so many and twice as many: a megabyte.
_ROWS: Final = 1024
#: Ranges that are remembered; they have few rows each.
_RANGES: Final = 64


class TableRows:
    """The rows of one table. Ranges whose keys begin with `few` are small, and remembered as a whole."""

    def __init__(self, table: FamilySlice, few: bytes) -> None:
        self.table: Final = table
        self._few: Final = few
        #: What was asked for lately, and before that. None for a row that is not there.
        self._young: dict[bytes, bytes | None] = {}
        self._old: dict[bytes, bytes | None] = {}
        self._ranges: Final[dict[tuple[bytes, bytes, int], list[tuple[bytes, bytes]]]] = {}

    def get(self, key: bytes) -> bytes | None:
        young = self._young
        if key in young:
            return young[key]
        value = self._old[key] if key in self._old else self.table.get(key)
        if len(young) >= _ROWS:
            self._old = young
            self._young = young = {}
        young[key] = value
        return value

    def scan(self, lo: bytes, hi: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The first rows of [lo, hi), at most `limit`; 0 for all. The list is not the caller's."""
        if not lo.startswith(self._few):
            return list(islice(self.table.items(lo, hi), limit or None))
        found = self._ranges.get((lo, hi, limit))
        if found is None:
            found = list(islice(self.table.items(lo, hi), limit or None))
            if len(self._ranges) >= _RANGES:
                self._ranges.clear()
            self._ranges[lo, hi, limit] = found
        return found

    def wrote(self, changes: FamilyChanges) -> None:
        """These changes are written."""
        young, old = self._young, self._old
        for key, value in changes.operations:
            if isinstance(value, RangeEnd):
                self.forget()
                return
            if key in young:
                young[key] = value
            else:
                old.pop(key, None)
            if self._ranges and key.startswith(self._few):
                self._ranges.clear()

    def forget(self) -> None:
        """Read everything from the disk again."""
        self._young = {}
        self._old = {}
        self._ranges.clear()
