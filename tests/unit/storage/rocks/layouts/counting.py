"""FamilyReader that count what a read does to them: positions are a fair measure of cost where times are not."""

from typing import Any

from rocksdict import Rdict, RdictIter, ReadOptions


class CountingCursor:
    """A cursor that counts its moves."""

    def __init__(self, cursor: RdictIter, cells: "CountingFamily") -> None:
        self._cursor = cursor
        self._cells = cells

    def seek(self, key: bytes) -> None:
        self._cells.moves += 1
        self._cursor.seek(key)

    def seek_for_prev(self, key: bytes) -> None:
        self._cells.moves += 1
        self._cursor.seek_for_prev(key)

    def next(self) -> None:
        self._cells.moves += 1
        self._cursor.next()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class CountingFamily:
    """A column family, and how many moves and single gets its readers made."""

    def __init__(self, cells: Rdict) -> None:
        self._cells = cells
        self.moves = 0
        self.gets = 0

    def get(self, key: Any) -> Any:
        self.gets += len(key) if isinstance(key, list) else 1
        return self._cells.get(key)

    def iter(self, read_opt: ReadOptions | None = None) -> Any:
        return CountingCursor(self._cells.iter(read_opt), self)
