"""A sweep through files of a lake: the messages of a filter in the order of positions, in bounded memory.

    files that may hold a match ──by their first position──▶ row groups ──matches──▶ pool ──sorted──▶ pages

Files of different patterns overlap, and so may the parts of a compacted file, which are in the order of their first
positions. Rows of a row group are in no order. So whatever may hold the next message is read before a page is given:
everything below the first position of what was not read yet is complete.

1. A sweep holds at most HELD_BYTES of matches, and a batch of rows. If there are more, it keeps the oldest, and begins
   again where these end: a lake in order is read once, one in no order more often, with the same memory.
2. No page ends between two messages of the same position.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.durable.lake_page import LakeQuestion
from holdfast.durable.log import NO_END
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.pipeline.lake.archive_table import ArchiveTable
from holdfast.pipeline.lake.lake_patterns import may_share
from holdfast.pipeline.lake.store import LakeStore
from holdfast.records.messages import encode_message
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

#: Bytes of matches that a sweep holds before it gives up the newest of them.
HELD_BYTES: Final = 8 << 20
#: A page is full with so many bytes, or messages.
PAGE_BYTES: Final = 256 << 10
PAGE_MESSAGES: Final = 1_000
#: Bytes of rows that are decoded at once, about, and the most rows of them.
_BATCH_BYTES: Final = 4 << 20
_BATCH_ROWS: Final = 8_192
_PLACE: Final = ("shard", "offset", "topic")
_COLUMNS: Final = (
    *_PLACE,
    "serial",
    "client_id",
    "qos",
    "retain",
    "payload",
    "properties",
    "received_at",
    "expires_at",
    "ts",
)
_TIMES: Final = ("received_at", "expires_at", "ts")
#: What a row takes beside its topic and payload.
_ROW_BYTES: Final = 200


class SweptPage(NamedTuple):
    """A page: stored messages with their shards, and up to where there are no others."""

    records: list[tuple[int, bytes]]
    up_to_us: int


class LakeFile(NamedTuple):
    """A file of the table that may hold what is wanted, and the positions in it."""

    first_us: int
    last_us: int
    path: str


def lake_files(lake: ArchiveTable, question: LakeQuestion) -> list[LakeFile]:
    """The files that may hold what is asked for. Positions are whole numbers: statistics have them exactly."""
    first_us = min(from_us for from_us, _before_us in question.ranges.values())
    before_us = max(before_us for _from_us, before_us in question.ranges.values())
    found: list[LakeFile] = []
    for file in lake.list_files():
        least, greatest = file.get("min.offset"), file.get("max.offset")
        one = LakeFile(0 if least is None else least, NO_END if greatest is None else greatest, unquote(file["path"]))
        overlaps = one.last_us >= first_us and one.first_us < before_us
        if overlaps and may_share(file["partition.pattern"], question.levels):
            found.append(one)
    return found


def sweep(
    store: LakeStore,
    files: Sequence[LakeFile],
    question: LakeQuestion,
    held_bytes: int = HELD_BYTES,
    look: Callable[[], None] = lambda: None,
) -> Iterator[SweptPage]:
    """The messages that are asked for, in the order of (position, shard). `look` is called before each read, and may
    raise.
    """
    end_us = max(before_us for _from_us, before_us in question.ranges.values())
    from_us = min(one[0] for one in question.ranges.values())
    while from_us < end_us:
        pool = _Pool(end_us, held_bytes)
        # By the first position; a group that is -1 stands for a file that was not opened yet.
        queue = [(file.first_us, file.path, -1) for file in files if file.last_us >= from_us]
        heapify(queue)
        while queue and queue[0][0] < pool.before_us:
            first_us, path, group = heappop(queue)
            if first_us > from_us:
                yield from pool.take(first_us)
                from_us = first_us
            look()
            with store.parquet(path) as file:
                if group < 0:
                    for number in range(file.num_row_groups):
                        least, greatest = _bounds(file.metadata.row_group(number), first_us)
                        if greatest >= from_us and least < pool.before_us:
                            heappush(queue, (max(least, first_us), path, number))
                    continue
                for batch in _matches(file, group, question, from_us, look):
                    pool.add(batch)
        yield from pool.take(pool.before_us)
        from_us = pool.before_us


class _Pool:
    """Matches that were read and not given yet."""

    def __init__(self, before_us: int, held_bytes: int) -> None:
        #: Nothing from here on is kept: it is for the next sweep.
        self.before_us = before_us
        self._most_bytes: Final = held_bytes
        self._rows: list[Any] = []
        self._held_bytes = 0

    def add(self, table: Any) -> None:
        table = table.filter(pc.less(table["offset"], self.before_us))
        if table.num_rows:
            self._rows.append(table)
            self._held_bytes += table.nbytes
            if self._held_bytes > self._most_bytes:
                self._trim()

    def _trim(self) -> None:
        """Keep the oldest, as much as half of what may be held; at least what has the oldest position."""
        rows = _sorted(self._rows)
        sizes = _sizes(rows).to_numpy().cumsum()
        offsets = rows["offset"].to_numpy()
        kept = min(int(sizes.searchsorted(self._most_bytes // 2, "right")), rows.num_rows - 1)
        # No cut between two of the same position.
        kept = int(offsets.searchsorted(offsets[kept], "left")) or int(offsets.searchsorted(offsets[0], "right"))
        if kept < rows.num_rows:
            self.before_us = int(offsets[kept])
            # A copy: a slice would keep the memory of all.
            rows = rows.take(list(range(kept)))
        self._rows = [rows]
        self._held_bytes = rows.nbytes

    def take(self, before_us: int) -> Iterator[SweptPage]:
        """Pages of everything below a position."""
        if self._rows:
            rows = _sorted(self._rows)
            count = int(rows["offset"].to_numpy().searchsorted(before_us, "left"))
            rest = rows.slice(count)
            self._rows = [rest] if rest.num_rows else []
            self._held_bytes = rest.nbytes
            yield from _pages(rows.slice(0, count))
        yield SweptPage([], before_us - 1)


def _pages(rows: Any) -> Iterator[SweptPage]:
    page: list[tuple[int, bytes]] = []
    size_bytes = 0
    last_us = -1
    for first in range(0, rows.num_rows, PAGE_MESSAGES):
        for row in rows.slice(first, PAGE_MESSAGES).to_pylist():
            if row["offset"] != last_us and (size_bytes >= PAGE_BYTES or len(page) >= PAGE_MESSAGES):
                yield SweptPage(page, last_us)
                page, size_bytes = [], 0
            last_us = row["offset"]
            record = _record(row)
            page.append((row["shard"], record))
            size_bytes += len(record)
    if page:
        yield SweptPage(page, last_us)


def _record(row: Mapping[str, Any]) -> bytes:
    """A row as the log stores it."""
    received_us = row["ts"] if row["received_at"] is None else row["received_at"]
    message = Message(
        row["topic"].encode(),
        row["payload"] or b"",
        row["qos"],
        ClientId(row["client_id"] or ""),
        received_us,
        retain=bool(row["retain"]),
        properties=row["properties"] or b"",
        expires_us=row["expires_at"] or 0,
    )
    return encode_message(message, row["offset"], row["serial"])


def _sorted(tables: Sequence[Any]) -> Any:
    return pa.concat_tables(tables).sort_by([("offset", "ascending"), ("shard", "ascending")]).combine_chunks()


def _sizes(rows: Any) -> Any:
    """About how much memory each row takes."""
    texts = pc.add(pc.binary_length(rows["topic"]), pc.fill_null(pc.binary_length(rows["payload"]), 0))
    return pc.add(pc.cast(texts, pa.int64()), _ROW_BYTES)


def _bounds(group: Any, first_us: int) -> tuple[int, int]:
    """The first and the last position of a row group, as far as they are known."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "offset":
            bounds = column.statistics
            if bounds is not None and bounds.has_min_max:
                return bounds.min, bounds.max
    return first_us, NO_END


def _matches(file: Any, group: int, question: LakeQuestion, from_us: int, look: Callable[[], None]) -> Iterator[Any]:
    """The rows of a row group that are asked for, some at a time."""
    there = file.schema_arrow.names
    about = file.metadata.row_group(group)
    rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * about.num_rows // max(1, about.total_byte_size)))
    chosen = _Chosen(question, from_us)
    # Most filters match few rows: payloads are read if any does.
    places = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=list(_PLACE))
    if not any(chosen.of(batch) is not None for batch in _looking(places, look)):
        return
    names = [name for name in _COLUMNS if name in there]
    for batch in _looking(file.iter_batches(rows, row_groups=[group], columns=names), look):
        mask = chosen.of(batch)
        if mask is None:
            continue
        table = pa.Table.from_batches([batch]).filter(mask)
        columns = {}
        for name in _COLUMNS:
            # A file that is older than a column has none.
            column = table[name] if name in names else pa.nulls(table.num_rows)
            columns[name] = _plain(name, column)
        yield pa.table(columns)


def _looking(batches: Iterator[Any], look: Callable[[], None]) -> Iterator[Any]:
    for batch in batches:
        look()
        yield batch


def _plain(name: str, column: Any) -> Any:
    """Of one type in all files, and without dictionaries."""
    if name in _TIMES:
        if pa.types.is_timestamp(column.type):
            column = pc.cast(column, pa.timestamp("us", tz=column.type.tz))
        return pc.cast(column, pa.int64())
    kinds = {"topic": pa.string(), "client_id": pa.string(), "payload": pa.binary(), "properties": pa.binary()}
    kinds |= {"retain": pa.bool_()}
    return pc.cast(column, kinds.get(name, pa.int64()))


class _Chosen:
    """Which rows are asked for."""

    def __init__(self, question: LakeQuestion, from_us: int) -> None:
        self._levels: Final = question.levels
        self._ranges: Final = {
            shard: (max(one[0], from_us), one[1]) for shard, one in question.ranges.items() if one[1] > from_us
        }
        self._known: Final[dict[str, bool]] = {}

    def of(self, batch: Any) -> Any:
        """A mask; None if no row is."""
        shards, offsets = batch.column("shard"), batch.column("offset")
        mask = None
        for shard, (first_us, before_us) in self._ranges.items():
            inside = pc.and_(pc.greater_equal(offsets, first_us), pc.less(offsets, before_us))
            inside = pc.and_(pc.equal(shards, shard), inside)
            mask = inside if mask is None else pc.or_(mask, inside)
        if mask is None or not pc.any(mask).as_py():
            return None
        encoded = pc.cast(batch.column("topic"), pa.string()).dictionary_encode()
        matching = pa.array([self._is_wanted(topic) for topic in encoded.dictionary.to_pylist()], pa.bool_())
        mask = pc.and_(mask, matching.take(encoded.indices))
        return mask if pc.any(mask).as_py() else None

    def _is_wanted(self, topic: str) -> bool:
        known = self._known.get(topic)
        if known is None:
            raw = topic.encode()
            known = self._known[topic] = levels_match(self._levels, raw.split(SEPARATOR), dollar=is_dollar(raw))
        return known
