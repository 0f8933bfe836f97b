"""What one commit will write: an ordered list of puts and deletes for each column family.

RocksDB's own batch is used up by a write, even by one that fails. So the contents live here until the receipt,
and a batch is built from them as often as a write has to be tried again.
"""

from collections.abc import ItemsView, Mapping
from typing import Final

from rocksdict import ColumnFamily, WriteBatch

from holdfast.model.errors import MisuseError


class RangeEnd:
    """In the place of a value: delete from the key up to, not including, `key`."""

    __slots__ = ("key",)

    def __init__(self, key: bytes) -> None:
        self.key: Final = key


#: A put has a value, a delete has None, a range has its end.
Operation = tuple[bytes, bytes | RangeEnd | None]


class FamilyChanges:
    """The changes of one column family, in the order in which they take effect."""

    __slots__ = ("operations", "size_bytes")

    def __init__(self) -> None:
        self.operations: Final[list[Operation]] = []
        self.size_bytes = 0

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append((key, value))
        self.size_bytes += len(key) + len(value)

    def delete(self, key: bytes) -> None:
        self.operations.append((key, None))
        self.size_bytes += len(key)

    def delete_range(self, lo: bytes, hi: bytes) -> None:
        """Deletes every key of [lo, hi)."""
        self.operations.append((lo, RangeEnd(hi)))
        self.size_bytes += len(lo) + len(hi)


class Changes:
    """All changes of one commit. They are written together or not at all."""

    __slots__ = ("_families",)

    def __init__(self) -> None:
        self._families: Final[dict[str, FamilyChanges]] = {}

    def into(self, family: str) -> FamilyChanges:
        changes = self._families.get(family)
        if changes is None:
            changes = self._families[family] = FamilyChanges()
        return changes

    def families(self) -> ItemsView[str, FamilyChanges]:
        return self._families.items()

    def as_batch(self, handles: Mapping[str, ColumnFamily]) -> WriteBatch:
        """A new batch of RocksDB with all of it. One write uses it up."""
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        for name, family in self._families.items():
            handle = handles.get(name)
            if handle is None:
                raise MisuseError(f"changes for column family {name!r}, which does not exist")
            for key, value in family.operations:
                if value.__class__ is bytes:
                    put(key, value, handle)
                elif isinstance(value, RangeEnd):
                    batch.delete_range(key, value.key, handle)
                else:
                    batch.delete(key, handle)
        return batch

    def __len__(self) -> int:
        return sum(len(changes.operations) for changes in self._families.values())

    @property
    def size_bytes(self) -> int:
        """Keys and values, without RocksDB's own bytes around them."""
        return sum(changes.size_bytes for changes in self._families.values())
