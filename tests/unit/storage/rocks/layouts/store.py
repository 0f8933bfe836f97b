"""A real RocksDB for tests of layouts: commits, reopening, and a column family per question."""

from pathlib import Path

from rocksdict import AccessType, Options, Rdict, WriteBatch

from holdfast.durable.changes import Changes
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import encode_message, stored_position
from holdfast.storage.rocks.layouts.layout import Layout

END_US = 2**63 - 1


def record(topic: bytes, position_us: int, payload: bytes = b"", serial: int = 0) -> bytes:
    """An encoded message."""
    message = Message(topic, payload, 1, ClientId("pump"), position_us)
    return encode_message(message, position_us, serial or position_us + 1)


class Store:
    """One database in a folder."""

    def __init__(self, folder: Path, *families: str) -> None:
        self._folder = folder
        self._families: set[str] = set(families)
        self._spare: list[str] = []
        self._number = 0
        self._open()

    def _open(self) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        families = {name: Options(raw_mode=True) for name in self._families}
        self._database = Rdict(str(self._folder), options, families or None)
        self._cells = {name: self._database.get_column_family(name) for name in self._families}

    def new_family(self) -> str:
        """The name of a column family that is empty."""
        if self._spare:
            return self._spare.pop()
        self._number += 1
        name = f"family-{self._number}"
        self._cells[name] = self._database.create_column_family(name, Options(raw_mode=True))
        self._families.add(name)
        return name

    def drop(self, family: str) -> None:
        """Emptied and used again: making one costs a sync."""
        self._cells[family].delete_range(b"", b"\xff")
        self._spare.append(family)

    def cells(self, family: str) -> Rdict:
        return self._cells[family]

    def write(self, changes: Changes) -> None:
        """Commit. Written, not synced: it survives `reopen`, not a power loss."""
        batch = WriteBatch(raw_mode=True)
        for family, wanted in changes.families():
            handle = self._database.get_column_family_handle(family)
            for key, value in wanted.operations:
                assert isinstance(value, bytes)
                batch.put(key, value, handle)
        self._database.write(batch)

    def reopen(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        for cells in self._cells.values():
            cells.close()
        self._cells = {}
        self._database.close()

    def secondary(self, folder: Path, family: str) -> tuple[Rdict, Rdict]:
        """The database and a family of it as another process sees them; catches up when told to."""
        access = AccessType.secondary(str(folder))
        families = {name: Options(raw_mode=True) for name in self._families}
        database = Rdict(str(self._folder), Options(raw_mode=True), families, access)
        return database, database.get_column_family(family)


class Log:
    """A layout on a family of a store: what the broker would do with them, one commit per call."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self.store = store
        self.layout = layout
        self.family = store.new_family()
        self.last_us = 0
        self.serial = 0

    @property
    def cells(self) -> Rdict:
        return self.store.cells(self.family)

    def put(self, *topics: bytes, step_us: int = 1) -> None:
        """Commit messages, each `step_us` after the one before."""
        changes = Changes()
        messages: list[Message] = []
        for topic in topics:
            self.last_us += step_us
            messages.append(Message(topic, b"", 1, ClientId("pump"), self.last_us))
            messages[-1].position_us = self.last_us
        self.layout.sink.put_commit(messages, self.serial + 1, changes.into(self.family))
        self.serial += len(messages)
        self.store.write(changes)

    def write_behind(self, limit: int = 500) -> int:
        changes = Changes()
        count = self.layout.write_behind(changes.into(self.family), limit)
        self.store.write(changes)
        return count

    def write_whole_index(self) -> None:
        """Write behind until there is nothing left, and let go of it."""
        self.layout.finish()
        while self.write_behind():
            pass
        self.layout.settle(self.cells)

    def read(self, text: str, lo_us: int = 0, hi_us: int = END_US) -> list[int]:
        """The positions that a filter gives, in the order in which they came."""
        levels = tuple(text.encode().split(b"/"))
        return [stored_position(value) for value in self.layout.read(self.cells, levels, lo_us, hi_us) if value]
