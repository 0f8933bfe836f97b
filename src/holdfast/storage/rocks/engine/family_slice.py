"""The keys of a column family that begin with a prefix, shown without it.

Several owners can share one family, each with a prefix of fixed length: none sees a key of another one. The slice asks
for the family at every call, because the engine may open its database again (`Engine.on_reopened`).
"""

from collections.abc import Iterator
from typing import Final

from holdfast.durable.changes import FamilyChanges, RangeEnd
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.engine.scan import FamilyReader, get_one, scan_items


class FamilySlice:
    """An empty prefix is the whole family."""

    def __init__(self, contents: ColumnFamilies, name: str, prefix: bytes = b"") -> None:
        self._contents: Final = contents
        self._name: Final = name
        self.prefix: Final = prefix

    def family(self) -> FamilyReader:
        """The whole family, for readers that seek: its keys have the prefix."""
        return self._contents.family(self._name)

    def get(self, key: bytes) -> bytes | None:
        return get_one(self._contents.family(self._name), self.prefix + key)

    def items(self, lo: bytes, hi: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The keys of [lo, hi) and their values, in order."""
        family, prefix = self._contents.family(self._name), self.prefix
        if not prefix:
            return scan_items(family, lo, hi)
        start = len(prefix)
        return ((key[start:], value) for key, value in scan_items(family, prefix + lo, prefix + hi))

    def flush(self) -> None:
        """Turn the family's memory into a table, in the background."""
        self._contents.family(self._name).flush(wait=False)

    def add(self, changes: FamilyChanges, puts: FamilyChanges) -> None:
        """Put changes of this slice into those of its family, in their order."""
        prefix, operations = self.prefix, puts.operations
        for key, value in changes.operations:
            end = RangeEnd(prefix + value.key) if isinstance(value, RangeEnd) else value
            operations.append((prefix + key, end))
