"""Pages of segments as Arrow record batches: each column of a page is read as one array, pages are joined.

    pages     [header | columns | topics publishers | payloads | properties] …     records/segment_pages.py
    batch     ts │ shard │ offset │ topic │ client_id │ qos │ …

Only what the wanted columns need is read. Payloads are not copied row by row, and topics come as they lie in the pages:
their bytes behind each other, and their lengths.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from holdfast.history.arrow.buffer_slices import PADDING, Bytes, Numbers
from holdfast.history.arrow.message_batches import COLUMNS, MessageColumns, record_batch
from holdfast.model.errors import PermanentError
from holdfast.records.messages import FLAGS, QOS
from holdfast.records.page_columns import HEADER_BYTES
from holdfast.records.segment_pages import PAGE_VERSION, SegmentPage

#: Pages, or messages, that are decoded at once.
_GROUP_BYTES: Final = 4 << 20


def stored_batches(
    values: Iterator[bytes],
    shard: int,
    lo_us: int,
    hi_us: int,
    levels: tuple[bytes, ...],
    columns: Sequence[str],
    rows: int,
) -> Iterator[Any]:
    """Batches of at most so many rows, of what `Layout.read_pages` finds: pages of segments, and message records."""
    for is_page, alike in groupby(values, key=_is_page):
        for some in _some(alike, _GROUP_BYTES, rows):
            if is_page:
                batch = page_batch(some, shard, lo_us, hi_us, levels, columns)
                yield from (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))
            else:
                yield record_batch(some, shard, columns)


def _is_page(value: bytes) -> bool:
    return value[0] == PAGE_VERSION


def _some(values: Iterator[bytes], max_bytes: int, max_count: int) -> Iterator[list[bytes]]:
    """Values in lists of at most so many, and of about so many bytes."""
    taken: list[bytes] = []
    size_bytes = 0
    for value in values:
        taken.append(value)
        size_bytes += len(value)
        if size_bytes >= max_bytes or len(taken) >= max_count:
            yield taken
            taken, size_bytes = [], 0
    if taken:
        yield taken


def page_batch(
    values: Sequence[bytes],
    shard: int,
    lo_us: int,
    hi_us: int,
    levels: tuple[bytes, ...] = (),
    columns: Sequence[str] = COLUMNS,
) -> Any:
    """A pyarrow.RecordBatch of the messages of [lo, hi) in some pages; if there are `levels`, only what they match."""
    return _PageColumns([SegmentPage(value) for value in values], lo_us, hi_us, levels).batch(shard, columns)


class _PageColumns(MessageColumns):
    """The columns of pages, one after the other, without the rows that are not wanted."""

    def __init__(self, pages: list[SegmentPage], lo_us: int, hi_us: int, levels: tuple[bytes, ...]) -> None:
        self._pages: Final = pages
        #: Of each page.
        self._counts: Final = np.array([page.count for page in pages])
        #: Which rows are wanted; None if all are.
        self._wanted: NDArray[np.bool_] | None = None
        flags: NDArray[np.uint8] = self._joined([page.flags_at for page in pages], "u1")
        if ((flags > FLAGS) | (flags & QOS == QOS)).any():
            raise PermanentError("a message of a page has flags that no version wrote")
        positions = self._number("position")
        wanted = (positions >= lo_us) & (positions < hi_us)
        if levels:
            wanted &= np.concatenate([_matching_rows(page, levels) for page in pages])
        if not wanted.all():
            self._wanted = wanted
        super().__init__(self._shown(flags))

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

    def _number(self, name: str) -> Numbers:
        pages = self._pages
        if name == "expiry":
            return self._shown(self._joined([page.expiry_at for page in pages], "<u4"))
        if name == "position":
            after = self._joined([page.positions_at for page in pages], "<u4", "<i8")
            firsts = [page.first_us for page in pages]
        elif name == "received":
            after = self._joined([page.received_at for page in pages], "<u4", "<i8")
            firsts = [page.first_received_us for page in pages]
        else:
            after = self._joined([page.ranks_at for page in pages], "<u4")
            firsts = [page.first_serial for page in pages]
        # A serial may be larger than an int64 if it is damaged; then it is negative here, and refused.
        first = np.array(firsts, np.uint64).astype(np.int64) if name == "serial" else np.array(firsts)
        return self._shown(after.astype(np.int64) + np.repeat(first, self._counts))

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
            runs = [np.frombuffer(page.value, "<u4", page.topic_count, HEADER_BYTES) for page in pages]
            numbers = np.repeat(np.arange(sum([page.topic_count for page in pages])), np.concatenate(runs))
        else:
            places = [(page.publisher_lengths_at, page.publisher_count, page.publisher_names_at) for page in pages]
            counts = np.array([page.publisher_count for page in pages])
            numbers = self._joined([page.publishers_at for page in pages], "<u2").astype(np.int64)
            if (numbers >= np.repeat(counts, self._counts)).any():
                raise PermanentError("a page of a segment names a publisher that it does not have")
            numbers += np.repeat(np.cumsum(counts) - counts, self._counts)
        return _names(pages, places, name).take(pa.array(self._shown(numbers)))


def _names(pages: list[SegmentPage], places: list[tuple[int, int, int]], what: str) -> Any:
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


def _matching_rows(page: SegmentPage, levels: tuple[bytes, ...]) -> NDArray[np.bool_]:
    """Which rows of a page match a filter."""
    found = np.zeros(page.count, bool)
    runs = page.matching_rows(levels)
    for begin in range(0, len(runs), 2):
        found[runs[begin] : runs[begin + 1]] = True
    return found
