"""The messages of a part as record batches, counted and without what was erased: whole columns at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyarrow.compute import min_max  # type: ignore[import-untyped]

from holdfast.durable.erasures import Erasures
from holdfast.history.arrow.message_batches import record_batch
from holdfast.history.arrow.page_batches import stored_batches
from holdfast.history.reader.erasure_filter import ERASABLE, without_erased
from holdfast.history.reader.record_replay import SERIAL, RecordReplay, SerialCount
from holdfast.history.reader.view import Part
from holdfast.storage.rocks.layouts.layout import StoredColumns


class StoredPart(NamedTuple):
    """A part as it lies in the log: in order as a replay, else as pages and messages in any order."""

    part: Part
    #: Empty if all messages are asked for.
    levels: tuple[bytes, ...]
    #: One of the two.
    in_order: RecordReplay | None
    pages: Iterator[StoredColumns]


def part_batches(stored: StoredPart, columns: Sequence[str], rows: int, erasures: Erasures) -> Iterator[Any]:
    """PermanentError if messages are missing, which is known if all are asked for."""
    part, levels, _replay, _pages = stored
    erased = erasures.may_hide(part.shard, part.lo_us)
    own = [*(() if levels else (SERIAL,)), *(ERASABLE if erased else ())]
    wanted = list(dict.fromkeys([*columns, *own]))
    count = SerialCount(part)
    for batch in _batches(stored, wanted, rows):
        if not levels:
            bounds = min_max(batch.column(SERIAL))
            count.add(batch.num_rows, bounds["min"].as_py(), bounds["max"].as_py())
        if erased:
            batch = without_erased(batch, part.shard, erasures)
        if batch.num_rows:
            yield batch.select(columns)
    if not levels:
        count.check()


def _batches(stored: StoredPart, columns: Sequence[str], rows: int) -> Iterator[Any]:
    part, levels, replay, pages = stored
    if replay is None:
        yield from stored_batches(pages, part.shard, part.lo_us, part.hi_us, levels, columns, rows)
        return
    while not (page := replay.next(rows)).at_end:
        yield record_batch(page.messages, part.shard, columns)
