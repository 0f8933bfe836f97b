"""What one commit will write: an ordered list of puts and deletes for each column family.

RocksDB's own batch is used up by a write, even by one that fails. So the contents live here until the receipt,
and a batch is built from them as often as a write has to be tried again.
"""

from collections.abc import ItemsView
from typing import Final


class RangeEnd:
    """In the place of a value: delete from the key up to, not including, `key`."""

    def __init__(self, key: bytes) -> None:
        self.key: Final = key


#: A put has a value, a delete has None, a range has its end.
Operation = tuple[bytes, bytes | RangeEnd | None]


class FamilyChanges:
    """The changes of one column family, in the order in which they take effect."""

    def __init__(self) -> None:
        self.operations: Final[list[Operation]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append((key, value))

    def delete(self, key: bytes) -> None:
        self.operations.append((key, None))

    def delete_range(self, lo: bytes, hi: bytes) -> None:
        """Deletes every key of [lo, hi)."""
        self.operations.append((lo, RangeEnd(hi)))

    @property
    def size_bytes(self) -> int:
        """Keys and values. Counted on demand: a put runs once per message."""
        total = 0
        for key, value in self.operations:
            total += len(key)
            if isinstance(value, RangeEnd):
                total += len(value.key)
            elif value is not None:
                total += len(value)
        return total


class Changes:
    """All changes of one commit. They are written together or not at all."""

    def __init__(self) -> None:
        self._families: Final[dict[str, FamilyChanges]] = {}

    def into(self, family: str) -> FamilyChanges:
        changes = self._families.get(family)
        if changes is None:
            changes = self._families[family] = FamilyChanges()
        return changes

    def families(self) -> ItemsView[str, FamilyChanges]:
        return self._families.items()

    def __len__(self) -> int:
        return sum(len(changes.operations) for changes in self._families.values())

    @property
    def size_bytes(self) -> int:
        """Keys and values, without RocksDB's own bytes around them."""
        return sum(changes.size_bytes for changes in self._families.values())
