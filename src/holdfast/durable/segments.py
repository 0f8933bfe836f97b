"""Builds segments: commit pages in, pages sorted by topic out, with what leads to them.

commit pages, by time ─▶ messages by topic ─▶ pages (`segment_pages.py`) ─▶ index, map (`segment_index.py`)
"""

from typing import Final

from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.records.commit_pages import CommitPage
from holdfast.records.segment_index import MAX_PAGES, UNINDEXED_PAGES, Directory, TokenPages, encode_map
from holdfast.records.segment_page_writer import SegmentPageWriter
from holdfast.records.segment_pages import PAGE_VERSION, SegmentPage

#: What pages of segments begin with.
_SEGMENT_PAGE: Final = bytes([PAGE_VERSION])
#: Of pages that are read or written at once: more would hold up the loop.
SLICE_BYTES: Final = 384 << 10


class Segment:
    """A segment as it is built. Its directory has number 0 until it is stored."""

    def __init__(
        self, directory: Directory, pages: list[bytes], page_map: bytes, index: list[tuple[int, int, bytes]]
    ) -> None:
        self.directory: Final = directory
        self.pages: Final = pages
        self.map: Final = page_map
        #: Level, bucket and entries.
        self.index: Final = index

    def slices(self) -> list[tuple[int, list[bytes]]]:
        """Its pages, as many at a time as are written in one batch, with the number of the first."""
        found: list[tuple[int, list[bytes]]] = []
        begin = size_bytes = 0
        for number, page in enumerate(self.pages):
            if number > begin and size_bytes + len(page) > SLICE_BYTES:
                found.append((begin, self.pages[begin:number]))
                begin, size_bytes = number, 0
            size_bytes += len(page)
        found.append((begin, self.pages[begin:]))
        return found


def build_segment(values: list[bytes]) -> Segment:
    """The segment of some commit pages, or of the pages of smaller segments. PermanentError if one of them is damaged.

    Requires: at least one page, in the order of time, and serials that span less than 32 bits.
    """
    by_serial = _messages(values)
    first_serial = by_serial[0][0]
    messages: list[Message] = []
    ranks: list[int] = []
    by_topic: dict[bytes, list[int]] = {}
    for serial, message in by_serial:
        rows = by_topic.get(message.topic)
        if rows is None:
            rows = by_topic[message.topic] = []
        rows.append(len(messages))
        messages.append(message)
        ranks.append(serial - first_serial)
    writer = SegmentPageWriter(messages, ranks, first_serial)
    tokens = TokenPages()
    for topic in sorted(by_topic):
        first_page = writer.add(topic, by_topic[topic])
        tokens.add(topic, first_page, writer.page)
    writer.end_page()
    if len(writer.pages) > MAX_PAGES:
        raise MisuseError(f"a segment of {len(messages)} messages has {len(writer.pages)} pages, more than {MAX_PAGES}")
    index = tokens.entries() if len(writer.pages) > UNINDEXED_PAGES else []
    positions = [message.position_us for message in messages]
    page_map = encode_map(positions, ranks, writer.page_of, len(writer.pages))
    directory = Directory(
        positions[0],
        0,
        len(messages),
        len(writer.pages),
        first_serial,
        ranks[-1] + 1,
        positions[-1],
        tokens.counts(),
    )
    return Segment(directory, writer.pages, page_map, index)


def _messages(values: list[bytes]) -> list[tuple[int, Message]]:
    """The messages of pages with their serials, in their order."""
    found: list[tuple[int, Message]] = []
    in_order = True
    for value in values:
        if value[:1] == _SEGMENT_PAGE:
            in_order = False
            page = SegmentPage(value)
            page.prepare()
            found.extend([(page.first_serial + page.rank(row), page.message(row, 0)) for row in range(page.count)])
        else:
            commit = CommitPage(value)
            serial = commit.first_serial
            for message in commit.messages(0, commit.count, 0):
                found.append((serial, message))
                serial += 1
    if not in_order:
        found.sort(key=_serial)
    return found


def _serial(entry: tuple[int, Message]) -> int:
    return entry[0]
