"""Pages as Arrow record batches: each column of a page is read as one array, pages are joined.

    pages     [header | columns | topics publishers | payloads | properties] …     records/pages/segment_pages.py
    batch     ts │ shard │ offset │ topic │ client_id │ qos │ …                    records/pages/commit_pages.py

Only what the wanted columns need is read. Payloads are not copied row by row, and topics come as they lie in the pages:
their bytes behind each other, and their lengths.

Pages of segments and commit pages differ in three columns: which topic a row has, its position, and its serial.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from holdfast.history.arrow.buffer_slices import PADDING, Bytes, Numbers
from holdfast.history.arrow.message_batches import COLUMNS, MessageColumns, record_batch
from holdfast.model.errors import PermanentError
from holdfast.records.messages import EXPIRES, FLAGS, QOS
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.records.pages.page_columns import HEADER_BYTES
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.storage.rocks.layouts.layout import StoredColumns
from holdfast.topics.filters import matching_topics

#: Pages, or messages, that are decoded at once.
_GROUP_BYTES: Final = 4 << 20

_Page = SegmentPage | CommitPage


def stored_batches(
    values: Iterator[StoredColumns],
    shard: int,
    lo_us: int,
    hi_us: int,
    levels: tuple[bytes, ...],
    columns: Sequence[str],
    rows: int,
) -> Iterator[Any]:
    """Batches of at most so many rows, of what `Layout.read_pages` finds."""
    for kind, alike in groupby(values, key=type):
        for some in _some(alike, _GROUP_BYTES, rows):
            if kind is bytes:
                yield record_batch([value for value in some if isinstance(value, bytes)], shard, columns)
            else:
                pages = [page for page in some if not isinstance(page, bytes)]
                batch = page_batch(pages, shard, lo_us, hi_us, levels, columns)
                yield from (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))


def _some(values: Iterator[StoredColumns], max_bytes: int, max_count: int) -> Iterator[list[StoredColumns]]:
    """Values in lists of at most so many, and of about so many bytes."""
    taken: list[StoredColumns] = []
    size_bytes = 0
    for value in values:
        taken.append(value)
        size_bytes += len(value if isinstance(value, bytes) else value.value)
        if size_bytes >= max_bytes or len(taken) >= max_count:
            yield taken
            taken, size_bytes = [], 0
    if taken:
        yield taken


def page_batch(
    pages: Sequence[_Page],
    shard: int,
    lo_us: int,
    hi_us: int,
    levels: tuple[bytes, ...] = (),
    columns: Sequence[str] = COLUMNS,
) -> Any:
    """A pyarrow.RecordBatch of the messages of [lo, hi) in some pages of one kind; if there are `levels`, only what
    they match.
    """
    segment = [page for page in pages if isinstance(page, SegmentPage)]
    found: _PageColumns
    if segment:
        found = _SegmentColumns(segment, lo_us, hi_us, levels)
    else:
        found = _CommitColumns([page for page in pages if isinstance(page, CommitPage)], lo_us, hi_us, levels)
    return found.batch(shard, columns)


class _PageColumns(MessageColumns):
    """The columns of pages, one after the other, without the rows that are not wanted."""

    def __init__(self, pages: Sequence[_Page], lo_us: int, hi_us: int, levels: tuple[bytes, ...]) -> None:
        self._pages: Final = pages
        #: Of each page.
        self._counts: Final = np.array([page.count for page in pages])
        #: Which rows are wanted; None if all are.
        self._wanted: NDArray[np.bool_] | None = None
        flags: NDArray[np.uint8] = self._joined([page.flags_at for page in pages], "u1")
        if ((flags > FLAGS) | (flags & QOS == QOS)).any():
            raise PermanentError("a message of a page has flags that no version wrote")
        positions = self._positions()
        if positions.min() < lo_us or positions.max() >= hi_us:
            self._wanted = (positions >= lo_us) & (positions < hi_us)
        if levels:
            matching = self._matching_rows(levels)
            self._wanted = matching if self._wanted is None else self._wanted & matching
        self._all_positions: Final = positions
        super().__init__(self._shown(flags))

    @abstractmethod
    def _positions(self) -> Numbers:
        """Of all rows, wanted or not."""

    @abstractmethod
    def _all_serials(self) -> Numbers:
        """Of all rows. One that is larger than an int64 is damaged: it is negative here, and refused."""

    @abstractmethod
    def _topic_numbers(self) -> Numbers:
        """For each row the number of its topic among those of all pages."""

    @abstractmethod
    def _matching_rows(self, levels: tuple[bytes, ...]) -> NDArray[np.bool_]:
        """Which rows match a filter."""

    def _shown(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows if self._wanted is None else rows[self._wanted]

    def _joined(self, places: list[int], kind: str, wide_kind: str = "") -> NDArray[Any]:
        """A column that begins at these places in the pages, 0 if a page has none; of all rows, wanted or not."""
        return np.concatenate(
            [
                np.frombuffer(page.value, wide_kind if wide_kind and page.wide else kind, page.count, at)
                if at
                else np.zeros(page.count, kind)
                for page, at in zip(self._pages, places, strict=True)
            ]
        )

    def _behind(self, after: NDArray[Any], firsts: Numbers) -> Numbers:
        """Numbers that count from the first one of their page."""
        return after.astype(np.int64) + np.repeat(firsts, self._counts)

    def _numbers_of(self, places: list[int], counts: NDArray[np.int64], what: str) -> Numbers:
        """A column of numbers of names, as numbers among those of all pages."""
        numbers: Numbers = self._joined(places, "<u2").astype(np.int64)
        if (numbers >= np.repeat(counts, self._counts)).any():
            raise PermanentError(f"a page names a {what} that it does not have")
        return numbers + np.repeat(np.cumsum(counts) - counts, self._counts)

    def _number(self, name: str) -> Numbers:
        pages = self._pages
        if name == "position":
            return self._shown(self._all_positions)
        if name == "serial":
            return self._shown(self._all_serials())
        if name == "received":
            after = self._joined([page.received_at for page in pages], "<u4", "<i8")
            return self._shown(self._behind(after, np.array([page.first_received_us for page in pages])))
        self._check_expiry()
        return self._shown(self._joined([page.expiry_at for page in pages], "<u4"))

    def _check_expiry(self) -> None:
        for page in self._pages:
            flags = np.frombuffer(page.value, "u1", page.count, page.flags_at)
            if not page.expiry_at and (flags & EXPIRES).any():
                raise PermanentError("a message of a page expires, and the page has no column for that")

    def _data(self) -> Bytes:
        return np.frombuffer(b"".join([*[page.value for page in self._pages], PADDING]), np.uint8)

    def _slices(self, part: str) -> tuple[Numbers, Numbers]:
        pages = self._pages
        if part == "payload":
            firsts, lengths_at = [page.payloads_at for page in pages], [page.payload_lengths_at for page in pages]
        else:
            firsts, lengths_at = [page.properties_at for page in pages], [page.property_lengths_at for page in pages]
        lengths = self._joined(lengths_at, "<u4").astype(np.int64)
        sizes = np.array([len(page.value) for page in pages])
        # Where the first part of each page begins, less all parts before it.
        ends = np.cumsum(lengths)
        before = np.concatenate([[0], ends])[np.cumsum(self._counts) - self._counts]
        shift = np.array(firsts) + np.cumsum(sizes) - sizes - before
        return self._shown(ends - lengths + np.repeat(shift, self._counts)), self._shown(lengths)

    def _name_column(self, name: str) -> Any:
        pages = self._pages
        if name == "topic":
            places = [(page.topic_lengths_at, page.topic_count, page.topic_names_at) for page in pages]
            numbers = self._topic_numbers()
        else:
            places = [(page.publisher_lengths_at, page.publisher_count, page.publisher_names_at) for page in pages]
            counts = np.array([page.publisher_count for page in pages])
            numbers = self._numbers_of([page.publishers_at for page in pages], counts, "publisher")
        return _names(pages, places, name).take(pa.array(self._shown(numbers)))


class _SegmentColumns(_PageColumns):
    """Pages of segments: rows are sorted by topic, and have their positions and ranks beside them."""

    def __init__(self, pages: Sequence[SegmentPage], lo_us: int, hi_us: int, levels: tuple[bytes, ...]) -> None:
        self._segment_pages: Final = pages
        super().__init__(pages, lo_us, hi_us, levels)

    def _positions(self) -> Numbers:
        after = self._joined([page.positions_at for page in self._pages], "<u4", "<i8")
        return self._behind(after, np.array([page.first_us for page in self._pages]))

    def _all_serials(self) -> Numbers:
        ranks = self._joined([page.ranks_at for page in self._segment_pages], "<u4")
        return self._behind(ranks, _signed([page.first_serial for page in self._pages]))

    def _topic_numbers(self) -> Numbers:
        runs = [np.frombuffer(page.value, "<u4", page.topic_count, HEADER_BYTES) for page in self._pages]
        return np.repeat(np.arange(sum([page.topic_count for page in self._pages])), np.concatenate(runs))

    def _matching_rows(self, levels: tuple[bytes, ...]) -> NDArray[np.bool_]:
        found = np.zeros(int(self._counts.sum()), bool)
        before = 0
        for page in self._segment_pages:
            runs = page.matching_rows(levels)
            for begin, end in zip(runs[0::2], runs[1::2], strict=True):
                found[before + begin : before + end] = True
            before += page.count
        return found


class _CommitColumns(_PageColumns):
    """Commit pages: rows are in the order of arrival, and have the numbers of their topics beside them."""

    def __init__(self, pages: Sequence[CommitPage], lo_us: int, hi_us: int, levels: tuple[bytes, ...]) -> None:
        self._commits: Final = pages
        super().__init__(pages, lo_us, hi_us, levels)

    def _positions(self) -> Numbers:
        found = self._behind(self._rows(), np.array([page.first_us for page in self._pages]))
        before = 0
        for page in self._commits:
            if page.positions_at:
                given = np.frombuffer(page.value, "<i8", page.count, page.positions_at)
                found[before : before + page.count] = given
            before += page.count
        return found

    def _all_serials(self) -> Numbers:
        return self._behind(self._rows(), _signed([page.first_serial for page in self._pages]))

    def _rows(self) -> Numbers:
        """The number of each row in its page."""
        ends = np.cumsum(self._counts)
        found: Numbers = np.arange(int(ends[-1])) - np.repeat(ends - self._counts, self._counts)
        return found

    def _topic_numbers(self) -> Numbers:
        counts = np.array([page.topic_count for page in self._pages])
        return self._numbers_of([HEADER_BYTES] * len(self._pages), counts, "topic")

    def _matching_rows(self, levels: tuple[bytes, ...]) -> NDArray[np.bool_]:
        matching = [match for page in self._commits for match in matching_topics(levels, page.topics)]
        found: NDArray[np.bool_] = np.array(matching)[self._topic_numbers()]
        return found


def _signed(serials: list[int]) -> Numbers:
    return np.array(serials, np.uint64).astype(np.int64)


def _names(pages: Sequence[_Page], places: list[tuple[int, int, int]], what: str) -> Any:
    """The names of all pages as one array of strings. A place is where lengths begin, their number, and where the names
    begin, which lie behind each other.
    """
    parts = [
        np.frombuffer(page.value, "<u2", count, lengths_at)
        for page, (lengths_at, count, _names_at) in zip(pages, places, strict=True)
    ]
    lengths = np.concatenate(parts)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    content = b"".join(
        [
            page.value[names_at : names_at + int(part.sum())]
            for page, part, (_lengths_at, _count, names_at) in zip(pages, parts, places, strict=True)
        ]
    )
    found = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(content)])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as wrong:
        raise PermanentError(f"{what} of a page is not UTF-8: {wrong}") from wrong
    return found
