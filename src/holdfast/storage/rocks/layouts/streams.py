"""Reading messages of learned streams: by scanning a stream, or by positions that a posting gave."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import chain, islice
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION
from holdfast.records.messages import stored_position, stored_topic
from holdfast.storage.rocks.layouts.layout import MESSAGES, STRUCTURE, Cells, Layout
from holdfast.storage.rocks.layouts.scan import get_many, scan_items, scan_values
from holdfast.storage.rocks.layouts.topic_check import TopicCheck
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_trie import StreamMatch

#: Messages fetched at once. The first fetch is small, because many readers want only a few.
_FIRST_FETCH: Final = 16
_LARGEST_FETCH: Final = 512


#: Reads what matches of one stream: its match, from, before.
ReadStream = Callable[[StreamMatch, int, int], Iterator[bytes]]


def read_streams(
    topics: LearnedTopics,
    cells: Cells,
    levels: tuple[bytes, ...],
    lo_us: int,
    hi_us: int,
    read_stream: ReadStream,
    *,
    in_order: bool,
) -> Iterator[bytes]:
    """What `Layout.read` gives, from streams that are each in time order."""
    lo_us = max(lo_us, 0)
    if lo_us >= hi_us:
        return iter(())
    if levels:
        parts = [read_stream(match, lo_us, hi_us) for match in topics.streams_for(levels)]
    else:
        parts = [scan_stream(cells, stream, lo_us, hi_us) for stream in topics.stream_ids()]
    if len(parts) == 1:
        return parts[0]
    return _merged(parts) if in_order else chain.from_iterable(parts)


def _merged(parts: list[Iterator[bytes]]) -> Iterator[bytes]:
    """Unlike `heapq.merge` it hands on that nothing has come yet, from whichever part says so."""
    heap: list[tuple[int, int, bytes]] = []
    for number, part in enumerate(parts):
        for value in part:
            if value:
                heap.append((stored_position(value), number, value))
                break
            yield value
    heapify(heap)
    while heap:
        _position_us, number, value = heap[0]
        yield value
        for value in parts[number]:
            if value:
                heapreplace(heap, (stored_position(value), number, value))
                break
            yield value
        else:
            heappop(heap)


def scan_stream(cells: Cells, stream: bytes, lo_us: int, hi_us: int) -> Iterator[bytes]:
    """The messages of a stream in [lo, hi)."""
    prefix = MESSAGES + stream
    return scan_values(cells, prefix + POSITION.pack(lo_us), prefix + POSITION.pack(hi_us))


def fetch(cells: Cells, stream: bytes, positions: Iterator[int], check: TopicCheck) -> Iterator[bytes]:
    """The messages at certain positions whose topic passes. One that is not there is not written yet."""
    prefix = MESSAGES + stream
    pack = POSITION.pack
    size = _FIRST_FETCH
    while keys := [prefix + pack(position) for position in islice(positions, size)]:
        for value in get_many(cells, keys):
            if value is not None and check(stored_topic(value)):
                yield value
        size = min(2 * size, _LARGEST_FETCH)


def load_structure(topics: LearnedTopics, cells: Cells) -> None:
    """Take over the records that were stored since the last time."""
    begin = len(STRUCTURE)
    records = scan_items(cells, STRUCTURE + topics.next_key(), MESSAGES)
    topics.load((key[begin:], value) for key, value in records)


def stored_structure(topics: LearnedTopics, cells: Cells) -> LearnedTopics:
    """What is stored, in a structure like `topics`; `topics` itself, with what it inherited, if nothing is."""
    stored = topics.fresh()
    load_structure(stored, cells)
    return stored if stored.stream_count else topics


def keep_structure(layout: Layout, puts: FamilyChanges) -> None:
    """Store what a layout has learnt or inherited and would store with its next message."""
    topics = layout.learned()
    if topics is not None:
        for key, value in topics.take_changes():
            puts.put(STRUCTURE + key, value)
