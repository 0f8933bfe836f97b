"""Faults that are planted in the database of a broker that does not run, behind its back."""

import shutil
from collections.abc import Callable
from pathlib import Path

from holdfast.durable.changes import Changes
from holdfast.durable.tails import POSITION
from holdfast.history.reader.reader import HistoryReader
from holdfast.records.messages import decode_message, encode_message
from holdfast.records.pages.commit_pages import CommitPage, encode_page
from holdfast.records.retained import retained_key
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from holdfast.storage.rocks.layouts.postings import posting_prefix

#: Key and value of a message.
Cell = tuple[bytes, bytes]


class Hand:
    """A copy of a data folder that can be changed; changes count when it is closed."""

    def __init__(self, folder: Path, copy: Path) -> None:
        shutil.copytree(folder, copy)
        self.folder = copy
        #: Of generations with a key for each message, and of those with commit pages.
        self.families: list[str] = []
        self.paged_families: list[str] = []
        with HistoryReader.open(copy) as reader:
            for zone in reader.zones():
                for record in reader.generations(zone.name):
                    found = self.paged_families if record.layout == "paged" else self.families
                    found += [record.family(shard) for shard in record.shards]
        self._engine = Engine.open(copy, reserve_bytes=0)
        self._changes = Changes()

    def cells(self, family: str) -> list[Cell]:
        """Messages of a shard's generation, in the order of their serials."""
        found = list(scan_items(self._engine.family(family), MESSAGES, POSTINGS))
        return sorted(found, key=lambda cell: decode_message(cell[1]).serial)

    def find(self, right: Callable[[str, list[Cell]], bool]) -> tuple[str, list[Cell]]:
        return next((family, cells) for family in self.families if right(family, cells := self.cells(family)))

    def find_pages(self, right: Callable[[list[Cell]], bool]) -> tuple[str, list[Cell]]:
        """Commit pages of several messages each, of one shard's generation."""
        return next((family, pages) for family in self.paged_families if right(pages := self._pages(family)))

    def _pages(self, family: str) -> list[Cell]:
        found = scan_items(self._engine.family(family), MESSAGES, POSTINGS)
        return [page for page in found if CommitPage(page[1]).count > 1]

    def cut_page(self, family: str, page: Cell) -> int:
        """A commit page loses its last message; the serial of that message."""
        found = CommitPage(page[1])
        kept = found.messages(0, found.count - 1, 0)
        self._changes.into(family).put(page[0], encode_page(kept, found.first_serial))
        return found.first_serial + found.count - 1

    def repeat_serial_of_page(self, family: str, page: Cell) -> int:
        """The first message of a commit page is there twice, under one serial; that serial."""
        found = CommitPage(page[1])
        [first] = found.messages(0, 1, 0)
        # At a position that is free: the pages of two commits are not that close.
        first.position_us -= 1
        self._changes.into(family).put(
            MESSAGES + POSITION.pack(first.position_us), encode_page([first], found.first_serial)
        )
        return found.first_serial

    def remove(self, family: str, cell: Cell) -> None:
        self._changes.into(family).delete(cell[0])

    def swap(self, family: str, one: Cell, other: Cell) -> None:
        """Each lies where the other one should."""
        self._changes.into(family).put(one[0], other[1])
        self._changes.into(family).put(other[0], one[1])

    def repeat_serial(self, family: str, cell: Cell, of: Cell) -> None:
        """A message gets the serial of another one."""
        stored = decode_message(cell[1])
        serial = decode_message(of[1]).serial
        self._changes.into(family).put(cell[0], encode_message(stored.message, stored.position_us, serial))

    def forget_postings(self, family: str, token: bytes) -> int:
        """The index forgets where a token is; how many entries that were."""
        gone = 0
        for key, _value in scan_items(self._engine.family(family), POSTINGS, b"\x03"):
            if any(key.startswith(posting_prefix(key[1:9], level, token)) for level in range(4)):
                self._changes.into(family).delete(key)
                gone += 1
        return gone

    def forget_retained(self, topic: str) -> None:
        self._changes.into("retained").delete(retained_key(topic.encode()))

    def close(self) -> None:
        self._engine.write(self._engine.written + 1, self._changes)
        self._engine.close()
