"""Pages of segments as Arrow record batches: each column of a page is read as one array, pages are joined.

    pages     [header | columns | topics publishers | payloads | properties] …     records/segment_pages.py
    batch     ts │ shard │ offset │ topic │ client_id │ qos │ …

Payloads are not copied row by row, and a topic is decoded once for all of its rows.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from holdfast.history.arrow.buffer_slices import PADDING, Numbers
from holdfast.history.arrow.message_batches import COLUMNS, MessageColumns, record_batch
from holdfast.model.errors import PermanentError
from holdfast.records.messages import FLAGS, QOS
from holdfast.records.page_columns import HAS_EXPIRY, HAS_PROPERTIES, HEADER_BYTES, WIDE_TIMES
from holdfast.records.segment_pages import PAGE_VERSION, SegmentPage
from holdfast.topics.filters import matching_topics

_PARTS: Final = ("payload", "properties")
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
    joined = _JoinedPages()
    for value in values:
        joined.add(SegmentPage(value), lo_us, hi_us, levels)
    return _PageColumns(b"".join([*values, PADDING]), joined).batch(shard, columns)


class _JoinedPages:
    """The columns of pages, one after the other, without the rows that are not wanted."""

    def __init__(self) -> None:
        self.at = 0
        self.names: Final[dict[str, list[bytes]]] = {"topic": [], "client_id": []}
        self.arrays: Final[dict[str, list[NDArray[Any]]]] = {}

    def add(self, page: SegmentPage, lo_us: int, hi_us: int, levels: tuple[bytes, ...]) -> None:
        value, count, topics = page.value, page.count, len(page.topics)
        shape = value[1]
        number = "<i8" if shape & WIDE_TIMES else "<u4"
        at = HEADER_BYTES

        def column(kind: str, rows: int = count) -> NDArray[Any]:
            nonlocal at
            found = np.frombuffer(value, kind, rows, at)
            at += found.nbytes
            return found

        runs = column("<u4", topics)
        publishers = column("<u2")
        flags = column("u1")
        ranks = column("<u4")
        positions = column(number).astype(np.int64) + page.first_us
        received = column(number).astype(np.int64) + page.first_received_us
        payload_lengths = column("<u4").astype(np.int64)
        nothing = np.zeros(count, np.int64)
        property_lengths = column("<u4").astype(np.int64) if shape & HAS_PROPERTIES else nothing
        expiry = column("<u4") if shape & HAS_EXPIRY else nothing
        if len(publishers) and int(publishers.max()) >= page.publisher_count:
            raise PermanentError(f"a page of a segment names a publisher that it does not have, of {count} messages")
        if ((flags > FLAGS) | (flags & QOS == QOS)).any():
            raise PermanentError("a message of a page has flags that no version wrote")
        columns: dict[str, NDArray[Any]] = {
            "flags": flags,
            "serial": ranks.astype(np.int64) + page.first_serial,
            "position": positions,
            "received": received,
            "expiry": expiry,
            "topic": np.repeat(np.arange(topics), runs) + len(self.names["topic"]),
            "client_id": publishers.astype(np.int64) + len(self.names["client_id"]),
            "payload": _starts(payload_lengths, self.at + page.payloads_at),
            "payload length": payload_lengths,
            "properties": _starts(property_lengths, self.at + page.properties_at),
            "properties length": property_lengths,
        }
        wanted = (positions >= lo_us) & (positions < hi_us)
        if levels:
            wanted &= np.repeat(np.array(matching_topics(levels, page.topics), bool), runs)
        everything = bool(wanted.all())
        for name, rows in columns.items():
            self.arrays.setdefault(name, []).append(rows if everything else rows[wanted])
        self.names["topic"] += page.topics
        self.names["client_id"] += page.publisher_names()
        self.at += len(value)


def _starts(lengths: Numbers, first: int) -> Numbers:
    found: Numbers = np.cumsum(lengths) - lengths + first
    return found


class _PageColumns(MessageColumns):
    def __init__(self, data: bytes, joined: _JoinedPages) -> None:
        arrays = {name: np.concatenate(parts) for name, parts in joined.arrays.items()}
        numbers = {name: arrays[name] for name in ("position", "serial", "received", "expiry")}
        super().__init__(np.frombuffer(data, np.uint8), arrays["flags"], numbers)
        self._names: Final = joined.names
        self._numbers_of: Final = {name: arrays[name] for name in joined.names}
        for part in _PARTS:
            self._begin[part] = arrays[part]
            self._length[part] = arrays[f"{part} length"]

    def _name_column(self, name: str) -> Any:
        try:
            names = pa.array([known.decode() for known in self._names[name]], pa.string())
        except UnicodeDecodeError as wrong:
            raise PermanentError(f"{name} of a page is not UTF-8 ({wrong.reason})") from wrong
        return names.take(pa.array(self._numbers_of[name]))
