"""The `paged` layout: commit pages first, segments later.

    0x01 | first position u64      a commit page: the messages of one commit (`records/pages/commit_pages.py`)
    segments and their index       the messages up to the mark, sorted by topic (`segments.py`)

A commit costs one put, however many messages it has. A replay of what is not in segments yet reads every commit page of
its range, and looks at each distinct topic of a page once. Segments are made from commit pages behind the writer
(`log/segment_writer.py`); a filter finds the pages of a segment that may match by the index. Patterns of topics are
learnt from segments (`durable/segment_patterns.py`); where a message lies does not depend on them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from rocksdict import RdictIter

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.log import NO_END
from holdfast.durable.tails import POSITION, PageSink, page_weight
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.message import Message
from holdfast.records.messages import stored_position
from holdfast.records.pages.commit_pages import CommitPage, page_bounds
from holdfast.records.pages.segment_index import Directory
from holdfast.records.pages.segment_pages import PAGE_BYTES, SegmentPage
from holdfast.records.pages.segment_rows import SegmentRows
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end
from holdfast.storage.rocks.layouts.layout import MESSAGES, NOTHING_YET, Passed, StoredColumns
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED
from holdfast.storage.rocks.layouts.segments import SegmentFamily, SegmentReader, open_shard
from holdfast.storage.rocks.layouts.streams import add_counts, stored_structure
from holdfast.storage.rocks.layouts.write_through import WriteThroughLayout
from holdfast.topics.filters import matching_topics
from holdfast.topics.learned import LearnedTopics

#: Rows that are decoded at once: a reader that wants fewer keeps the others.
_ROWS: Final = 128
#: Rows without a match that are as much work as one value for which a reader hears that nothing has come yet.
_BREATH: Final = 1_000
#: Pages of a segment after which a reader may pause.
_BREATH_PAGES: Final = 2
_pack: Final = POSITION.pack


class SegmentSize(NamedTuple):
    """What makes a segment: so many messages or bytes. Or so many commits, because a filter looks at each of them."""

    messages: int = 32_768
    size_bytes: int = 4 << 20
    commits: int = 4_096

    def reached_by(self, messages: int, weight_bytes: int, commits: int) -> bool:
        return messages >= self.messages or weight_bytes >= self.size_bytes or commits >= self.commits


SEGMENT_SIZE: Final = SegmentSize()


class PagedLayout(WriteThroughLayout):
    """Has no state but what its sink counts, and what segments have taught about topics."""

    name: Final = "paged"
    reopens_cheaply = True

    def __init__(self, segments: SegmentFamily | None = None, topics: LearnedTopics | None = None) -> None:
        """`segments` is where the pages of segments are; a layout that only writes needs none. `topics` is empty, or
        what the generation before handed on.
        """
        self._sink: Final = PageSink(MESSAGES)
        self._segments: Final = segments
        self._topics = topics or LearnedTopics()

    @property
    def sink(self) -> PageSink:
        return self._sink

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        self._sink.put(topic, position_us, value, puts)

    def learned(self) -> LearnedTopics:
        return self._topics

    def segments_in(self, family: FamilyReader) -> SegmentReader:
        """The segments of a shard, for those who count. Requires: there is one."""
        return self._open_segments(family)

    def load(self, family: FamilyReader) -> None:
        sink = self._sink
        try:
            self._topics = stored_structure(self._topics, family)
            add_counts(self._topics, family)
            cursor, mark_us = open_shard(family)
            for value in commit_values(cursor, mark_us, 0, NO_END):
                if SEGMENT_SIZE.reached_by(sink.messages, sink.weight_bytes, sink.pages):
                    sink.has_uncounted = True
                    break
                count = page_bounds(value)[3]
                sink.count(1, count, page_weight(count, len(value)))
        except PermanentError:
            # Whoever reads what is damaged is told. Who makes segments looks at it soon.
            sink.has_uncounted = True

    def read(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, *, in_order: bool = True
    ) -> Iterator[bytes]:
        cursor, mark_us = open_shard(family)
        if _in_segments(mark_us, lo_us, hi_us) and not in_order:
            for page in self._matching_pages(family, levels, lo_us, hi_us):
                yield from page.records(lo_us, hi_us, levels) or (NOTHING_YET,)
        elif _in_segments(mark_us, lo_us, hi_us):
            segments = self._open_segments(family)
            for directory in segments.directories(lo_us, hi_us):
                for rows, begin, end in self._matches(segments, directory, levels, lo_us, hi_us):
                    large = rows.large_page(begin) if begin < end else -1
                    if large >= 0:
                        yield segments.page(directory, large).record(0)
                    else:
                        yield from rows.records(begin, end) or (NOTHING_YET,)
        for commit, first, end, wanted in _commit_rows(cursor, mark_us, levels, lo_us, hi_us):
            yield from commit.records(first, end, wanted) or (NOTHING_YET,)

    def read_back(self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int) -> Iterator[Passed]:
        lo_us = max(lo_us, 0)
        cursor, mark_us = open_shard(family)
        segments = self._open_segments(family) if _in_segments(mark_us, lo_us, hi_us) else None
        for value in commit_values_back(cursor, mark_us, lo_us, hi_us):
            page = CommitPage(value)
            wanted = _wanted(page, levels)
            first, end = page.row_from(lo_us), page.row_from(hi_us)
            while end > first and (wanted is None or any(wanted)):
                begin = max(first, end - _ROWS)
                yield from [(stored_position(one), one) for one in reversed(page.records(begin, end, wanted))]
                end = begin
            yield max(lo_us, page.first_us), NOTHING_YET
        if segments is None:
            return
        for directory in segments.directories_back(lo_us, hi_us):
            yield from self._matches_back(segments, directory, levels, lo_us, hi_us)
            yield max(lo_us, directory.first_us), NOTHING_YET

    def read_pages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[StoredColumns]:
        cursor, mark_us = open_shard(family)
        if _in_segments(mark_us, lo_us, hi_us):
            yield from self._matching_pages(family, levels, lo_us, hi_us)
        for value in commit_values(cursor, mark_us, lo_us, hi_us):
            yield CommitPage(value)

    def _matching_pages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[SegmentPage]:
        """The pages of segments that may hold matches. Requires: there is a segment."""
        segments = self._open_segments(family)
        for directory in segments.directories(lo_us, hi_us):
            for number in segments.matching_pages(directory, levels):
                yield segments.page(directory, number)

    def read_messages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, shard: int
    ) -> Iterator[list[Message]]:
        cursor, mark_us = open_shard(family)
        if _in_segments(mark_us, lo_us, hi_us):
            segments = self._open_segments(family)
            for directory in segments.directories(lo_us, hi_us):
                if hi_us - lo_us == 1:
                    yield self._message_at(segments, directory, levels, lo_us, shard)
                    continue
                for rows, begin, end in self._matches(segments, directory, levels, lo_us, hi_us):
                    large = rows.large_page(begin) if begin < end else -1
                    if large >= 0:
                        yield [segments.page(directory, large).message(0, shard)]
                    else:
                        yield rows.messages(begin, end, shard)
        for commit, first, end, wanted in _commit_rows(cursor, mark_us, levels, lo_us, hi_us):
            yield commit.messages(first, end, shard, wanted)

    def _open_segments(self, family: FamilyReader) -> SegmentReader:
        if self._segments is None:
            raise MisuseError("this layout was made for writing; it does not know where segments are")
        return SegmentReader(family, self._segments.open())

    def _message_at(
        self,
        segments: SegmentReader,
        directory: Directory,
        levels: tuple[bytes, ...],
        position_us: int,
        shard: int,
    ) -> list[Message]:
        """The message of a segment at a position, if it matches."""
        assert self._segments is not None
        known = self._segments.rows
        place = (self._segments.name, directory.number)
        page_map = known.maps.get(place)
        if page_map is None:
            page_map = known.maps.put(place, segments.page_map(directory))
        number = page_map.page_at(position_us - directory.first_us)
        if number < 0:
            return []
        page = known.pages.get((*place, number))
        if page is None:
            page = segments.page(directory, number)
            if len(page.value) <= 2 * PAGE_BYTES:
                known.pages.put((*place, number), page)
        row = page.row_at(position_us)
        if row < 0:
            raise PermanentError(f"page {number} of the segment from {directory.first_us} on lacks {position_us}")
        message = page.message(row, shard)
        return [message] if not levels or matching_topics(levels, [message.topic])[0] else []

    def _matches(
        self,
        segments: SegmentReader,
        directory: Directory,
        levels: tuple[bytes, ...],
        lo_us: int,
        hi_us: int,
    ) -> Iterator[tuple[SegmentRows, int, int]]:
        """Matches [begin, end) of a segment in the order of time, a few at a time: either one large message, or none.
        No matches at all while pages are looked through.
        """
        rows = self._known_rows(directory, levels)
        if rows is None:
            rows = SegmentRows()
            for _pause in self._fill(rows, segments, directory, levels):
                yield rows, 0, 0
        begin, last = rows.first_from(lo_us), rows.first_from(hi_us)
        while begin < last:
            end = rows.end_of(begin, min(begin + _ROWS, last))
            yield rows, begin, end
            begin = end

    def _matches_back(
        self,
        segments: SegmentReader,
        directory: Directory,
        levels: tuple[bytes, ...],
        lo_us: int,
        hi_us: int,
    ) -> Iterator[Passed]:
        """The matches of a segment, the newest first."""
        rows = self._known_rows(directory, levels)
        if rows is None:
            rows = SegmentRows()
            for _pause in self._fill(rows, segments, directory, levels):
                yield min(hi_us, directory.last_us + 1), NOTHING_YET
        first, end = rows.first_from(lo_us), rows.first_from(hi_us)
        while end > first:
            begin = rows.begin_of(max(first, end - _ROWS), end)
            if begin == end:
                begin = end - 1
                found = [segments.page(directory, rows.large_page(begin)).record(0)]
            else:
                found = rows.records(begin, end)
            yield from [(stored_position(one), one) for one in reversed(found)]
            end = begin

    def _known_rows(self, directory: Directory, levels: tuple[bytes, ...]) -> SegmentRows | None:
        """The matches of a segment, if they were read lately."""
        assert self._segments is not None
        return self._segments.rows.get((self._segments.name, directory.number, levels))

    def _fill(
        self, rows: SegmentRows, segments: SegmentReader, directory: Directory, levels: tuple[bytes, ...]
    ) -> Iterator[bool]:
        """Take the matches of a segment, and pause now and then. They are complete, and in order, at the end."""
        assert self._segments is not None
        pages = segments.matching_pages(directory, levels)
        if not pages:
            yield True
            return
        for count, number in enumerate(pages):
            rows.add(number, segments.page(directory, number), levels)
            if count % _BREATH_PAGES == _BREATH_PAGES - 1:
                yield True
        rows.sort(directory.serials)
        self._segments.rows.put((self._segments.name, directory.number, levels), rows)


def _in_segments(mark_us: int, lo_us: int, hi_us: int) -> bool:
    """Whether a part of [lo, hi) is in segments."""
    return lo_us < hi_us and mark_us != NOTHING_INDEXED and lo_us <= mark_us


def _wanted(page: CommitPage, levels: tuple[bytes, ...]) -> list[bool] | None:
    """Which topics of a page match, by number; None if all do."""
    return matching_topics(levels, page.topics) if levels else None


def _commit_rows(
    cursor: RdictIter, mark_us: int, levels: tuple[bytes, ...], lo_us: int, hi_us: int
) -> Iterator[tuple[CommitPage, int, int, list[bool] | None]]:
    """Rows [first, end) of commit pages, a few at a time, and which of the page's topics match."""
    for value in commit_values(cursor, mark_us, lo_us, hi_us):
        page = CommitPage(value)
        wanted = _wanted(page, levels)
        first, end = page.row_from(lo_us), page.row_from(hi_us)
        if wanted is not None and not any(wanted):
            # Its reader pauses after as much work as with other layouts.
            for _stretch in range(1 + (end - first) // _BREATH):
                yield page, end, end, wanted
            continue
        for begin in range(first, max(end, first + 1), _ROWS):
            yield page, begin, min(begin + _ROWS, end), wanted


def commit_values(cursor: RdictIter, mark_us: int, lo_us: int, hi_us: int) -> Iterator[bytes]:
    """The commit pages above the mark with messages of [lo, hi), in order; the first one may end before `lo`."""
    if max(lo_us, mark_us + 1) >= hi_us:
        return
    hi = MESSAGES + _pack(hi_us)
    # The page that `lo` lies in begins before it. Behind the mark one begins, and what lies before was deleted: RocksDB
    # would step back through all of it.
    if lo_us > mark_us + 1:
        cursor.seek_for_prev(MESSAGES + _pack(lo_us))
    if lo_us <= mark_us + 1 or not cursor.valid() or cursor.key()[:1] != MESSAGES:
        check_end(cursor)
        cursor.seek(MESSAGES + _pack(max(lo_us, mark_us + 1)))
    while cursor.valid() and cursor.key() < hi:
        yield bytes(cursor.value())
        cursor.next()
    check_end(cursor)


def commit_values_back(cursor: RdictIter, mark_us: int, lo_us: int, hi_us: int) -> Iterator[bytes]:
    """The same, the newest first; the last one may end before `lo`."""
    if max(lo_us, mark_us + 1) >= hi_us:
        return
    # What lies before the mark was deleted: RocksDB would step back through all of it.
    cursor.seek(MESSAGES + _pack(mark_us + 1))
    if not cursor.valid() or cursor.key()[:1] != MESSAGES:
        check_end(cursor)
        return
    first = bytes(cursor.key())
    lo = MESSAGES + _pack(lo_us)
    cursor.seek_for_prev(MESSAGES + _pack(hi_us - 1))
    while cursor.valid() and cursor.key() >= first:
        key = cursor.key()
        yield bytes(cursor.value())
        if key <= max(first, lo):
            return
        cursor.prev()
    check_end(cursor)


def count_commit_topics(family: FamilyReader) -> Counter[bytes]:
    """How many messages of each topic are not in segments yet."""
    found: Counter[bytes] = Counter()
    cursor, mark_us = open_shard(family)
    for value in commit_values(cursor, mark_us, 0, NO_END):
        page = CommitPage(value)
        found.update([message.topic for message in page.messages(0, page.count, 0)])
    return found
