"""The `paged` layout: the messages of each commit are one value, a commit page (`records/commit_pages.py`).

    0x01 | first position      9 bytes

A commit costs one put, however many messages it has. A replay reads every page of its range, and looks at each distinct
topic of a page once.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION, PageSink
from holdfast.model.message import Message
from holdfast.records.commit_pages import CommitPage
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end, open_cursor
from holdfast.storage.rocks.layouts.layout import MESSAGES, NOTHING_YET
from holdfast.storage.rocks.layouts.topic_check import filter_check
from holdfast.storage.rocks.layouts.write_through import WriteThroughLayout

#: Rows that are decoded at once: a reader that wants fewer keeps the others.
_ROWS: Final = 128
#: Rows without a match that are as much work as one value for which a reader hears that nothing has come yet.
_BREATH: Final = 1_000
_pack: Final = POSITION.pack


class PagedLayout(WriteThroughLayout):
    """Has no state."""

    name: Final = "paged"
    reopens_cheaply = True

    def __init__(self) -> None:
        self._sink: Final = PageSink(MESSAGES)

    @property
    def sink(self) -> PageSink:
        return self._sink

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        self._sink.put(topic, position_us, value, puts)

    def read(
        self,
        family: FamilyReader,
        levels: tuple[bytes, ...],
        lo_us: int,
        hi_us: int,
        *,
        in_order: bool = True,  # noqa: ARG002 (the contract's)
    ) -> Iterator[bytes]:
        for page, first, end, wanted in self._rows(family, levels, lo_us, hi_us):
            yield from page.records(first, end, wanted) or (NOTHING_YET,)

    def read_messages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, shard: int
    ) -> Iterator[list[Message]]:
        for page, first, end, wanted in self._rows(family, levels, lo_us, hi_us):
            yield page.messages(first, end, shard, wanted)

    def _rows(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[tuple[CommitPage, int, int, list[bool] | None]]:
        """Rows [first, end) of pages, a few at a time, and which of the page's topics match."""
        check = filter_check(levels)
        for page in read_pages(family, lo_us, hi_us):
            wanted = [check(topic) for topic in page.topics] if levels else None
            first, end = page.row_from(lo_us), page.row_from(hi_us)
            if wanted is not None and not any(wanted):
                # Its reader pauses after as much work as with other layouts.
                for _stretch in range(1 + (end - first) // _BREATH):
                    yield page, end, end, wanted
                continue
            for begin in range(first, max(end, first + 1), _ROWS):
                yield page, begin, min(begin + _ROWS, end), wanted


def read_pages(family: FamilyReader, lo_us: int, hi_us: int) -> Iterator[CommitPage]:
    """The pages with messages of [lo, hi), in order; the first one may end before `lo`."""
    lo_us = max(lo_us, 0)
    if lo_us >= hi_us:
        return
    # Held on to as long as the cursor, see `open_cursor`.
    hi = MESSAGES + _pack(hi_us)
    cursor = open_cursor(family, hi)
    # The page that `lo` lies in begins before it.
    cursor.seek_for_prev(MESSAGES + _pack(lo_us))
    if not cursor.valid() or cursor.key()[:1] != MESSAGES:
        check_end(cursor)
        cursor.seek(MESSAGES + _pack(lo_us))
    while cursor.valid():
        yield CommitPage(cursor.value())
        cursor.next()
    check_end(cursor)
