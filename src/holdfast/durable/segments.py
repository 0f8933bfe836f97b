"""Builds segments: commit pages in, pages sorted by topic out, with what leads to them.

commit pages, by time ─▶ messages by topic ─▶ pages (`segment_pages.py`) ─▶ index, map (`segment_index.py`)
"""

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.records.pages.segment_index import MAX_PAGES, UNINDEXED_PAGES, Directory, TokenPages, encode_map
from holdfast.records.pages.segment_page_writer import SegmentPageWriter
from holdfast.records.pages.segment_pages import PAGE_VERSION, SegmentPage

#: What pages of segments begin with.
_SEGMENT_PAGE: Final = bytes([PAGE_VERSION])
#: Of pages that are read or written at once: more would hold up the loop.
SLICE_BYTES: Final = 384 << 10


class Segment:
    """A segment as it is built. Its directory has number 0 until it is stored."""

    def __init__(
        self,
        directory: Directory,
        pages: list[bytes],
        page_map: bytes,
        index: list[tuple[int, int, bytes]],
        topics: list[bytes],
        ends: list[int],
    ) -> None:
        self.directory: Final = directory
        self.pages: Final = pages
        self.map: Final = page_map
        #: Level, bucket and entries.
        self.index: Final = index
        #: Ascending, and how many messages there are up to the end of each.
        self._topics: Final = topics
        self._ends: Final = ends

    def messages_by_topic(self) -> dict[bytes, int]:
        """How many messages each topic has."""
        begins = [0, *self._ends[:-1]]
        return {topic: end - begin for topic, begin, end in zip(self._topics, begins, self._ends, strict=True)}

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
    messages, serials = _messages(values)
    first_serial = serials[0]
    ranks = vec[i64]([serial - first_serial for serial in serials])
    topics, ends, order = _by_topic(messages)
    writer = SegmentPageWriter(messages, ranks, order, first_serial)
    tokens = TokenPages()
    for number, topic in enumerate(topics):
        first_page = writer.add(topic, ends[number])
        tokens.add(topic, first_page, writer.page)
    writer.end_page()
    if len(writer.pages) > MAX_PAGES:
        raise MisuseError(f"a segment of {len(messages)} messages has {len(writer.pages)} pages, more than {MAX_PAGES}")
    index = tokens.entries() if len(writer.pages) > UNINDEXED_PAGES else []
    first, last = messages[0], messages[-1]
    directory = Directory(
        first.position_us,
        0,
        len(messages),
        len(writer.pages),
        first_serial,
        serials[-1] - first_serial + 1,
        last.position_us,
        tokens.counts(),
    )
    page_map = encode_map(messages, ranks, writer.page_of, len(writer.pages))
    return Segment(directory, writer.pages, page_map, index, topics, ends)


def _by_topic(messages: list[Message]) -> tuple[list[bytes], list[int], vec[i64]]:
    """The topics of messages in their order, where the rows of each end in the order by topic, and that order: the rows
    of a topic are in the order of time.
    """
    numbers: dict[bytes, int] = {}
    topic_of = vec[i64](capacity=len(messages))
    counts: list[int] = []
    last = b""
    number = -1
    for message in messages:
        topic = message.topic
        if topic is not last:
            number = numbers.get(topic, -1)
            if number < 0:
                number = numbers[topic] = len(counts)
                counts.append(0)
            last = topic
        topic_of = append(topic_of, i64(number))
        counts[number] += 1
    topics = sorted(numbers)
    #: Where the next row of each topic goes.
    places = vec[i64]([0] * len(counts))
    ends: list[int] = []
    end = 0
    for topic in topics:
        number = numbers[topic]
        places[number] = end
        end += counts[number]
        ends.append(end)
    order = vec[i64]([0] * len(messages))
    for row in range(len(topic_of)):
        one = topic_of[row]
        order[places[one]] = row
        places[one] += 1
    return topics, ends, order


def _messages(values: list[bytes]) -> tuple[list[Message], list[int]]:
    """The messages of pages with their serials, in their order."""
    messages: list[Message] = []
    serials: list[int] = []
    in_order = True
    for value in values:
        if value[:1] == _SEGMENT_PAGE:
            in_order = False
            page = SegmentPage(value)
            page.prepare()
            messages.extend([page.message(row, 0) for row in range(page.count)])
            serials.extend([page.first_serial + page.rank(row) for row in range(page.count)])
        else:
            commit = CommitPage(value)
            messages.extend(commit.messages(0, commit.count, 0))
            serials.extend(range(commit.first_serial, commit.first_serial + commit.count))
    if not in_order:
        rows = sorted(range(len(serials)), key=serials.__getitem__)
        return [messages[row] for row in rows], [serials[row] for row in rows]
    return messages, serials
