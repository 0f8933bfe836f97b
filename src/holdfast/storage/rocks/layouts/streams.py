"""What layouts with learned streams share: the structure, and reading streams by scans or by positions of postings."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace, merge
from itertools import chain, islice
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION
from holdfast.model.message import Message
from holdfast.records.messages import stored_position, stored_topic
from holdfast.storage.rocks.engine.scan import FamilyReader, get_many, scan_items, scan_values, scan_values_back
from holdfast.storage.rocks.layouts.layout import (
    MESSAGES,
    STRUCTURE,
    Layout,
    Passed,
    Puts,
    StoredColumns,
    decode_each,
)
from holdfast.storage.rocks.layouts.postings import posting_prefix, read_counts
from holdfast.storage.rocks.layouts.topic_check import TopicCheck, only_back
from holdfast.topics.learned import LearnedTopics, TopicPlace
from holdfast.topics.learned_ids import FINGERPRINT_BITS
from holdfast.topics.learned_trie import StreamMatch

#: Messages fetched at once. The first fetch is small, because many readers want only a few.
_FIRST_FETCH: Final = 16
_LARGEST_FETCH: Final = 512


class StreamLayout(ABC):
    """The parts of a `Layout` that are about streams. `topics` is empty, or what the generation before handed on."""

    #: Every stream would be sought again.
    reopens_cheaply: bool = False

    def __init__(self, topics: LearnedTopics, hash_bits: int) -> None:
        self._topics = topics
        self._hash_bits: Final = hash_bits
        #: A writer knows the structure; a reader looks for what was learnt since.
        self._is_writer = False

    def _place(self, topic: bytes, puts: Puts) -> TopicPlace:
        """The stream of a topic that is written for the first time; what was learnt from it is put."""
        self._is_writer = True
        place = self._topics.place(topic)
        for key, value in self._topics.take_changes():
            puts.put(STRUCTURE + key, value)
        return place

    def topics_in(self, family: FamilyReader) -> LearnedTopics:
        """What was learnt about topics, up to what is stored now."""
        if not self._is_writer:
            load_structure(self._topics, family)
        return self._topics

    def prefixes_of(self, match: StreamMatch) -> list[bytes]:
        """What the keys of the postings begin with that a filter asks for."""
        return self._prefixes_of(match)

    @property
    def tells_tokens_apart(self) -> bool:
        """Whether fingerprints of tokens have all their bits, so that two of them do not meet."""
        return self._hash_bits == FINGERPRINT_BITS

    def _load_structure(self, family: FamilyReader) -> None:
        """Become the writer of what is stored."""
        self._topics = stored_structure(self._topics, family)
        self._is_writer = True

    def read(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, *, in_order: bool = True
    ) -> Iterator[bytes]:
        if not self._is_writer:
            load_structure(self._topics, family)
        lo_us = max(lo_us, 0)
        if lo_us >= hi_us:
            return iter(())
        if levels:
            matches = self._topics.streams_for(levels)
            parts = [self._read_stream(family, match, levels, lo_us, hi_us) for match in matches]
        else:
            parts = [scan_stream(family, stream, lo_us, hi_us) for stream in self._topics.stream_ids()]
        if len(parts) == 1:
            return parts[0]
        return _merged(parts) if in_order else chain.from_iterable(parts)

    def read_back(self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int) -> Iterator[Passed]:
        if not self._is_writer:
            load_structure(self._topics, family)
        lo_us = max(lo_us, 0)
        if lo_us >= hi_us:
            return iter(())
        if levels:
            matches = self._topics.streams_for(levels)
            parts = [self._read_stream_back(family, match, levels, lo_us, hi_us) for match in matches]
        else:
            streams = self._topics.stream_ids()
            parts = [only_back(scan_stream_back(family, stream, lo_us, hi_us)) for stream in streams]
        # Of each stream, too, nothing comes above a position that it has passed.
        return merge(*parts, reverse=True)

    def read_pages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[StoredColumns]:
        return self.read(family, levels, lo_us, hi_us, in_order=False)

    def read_messages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, shard: int
    ) -> Iterator[list[Message]]:
        return decode_each(self.read(family, levels, lo_us, hi_us), shard)

    @abstractmethod
    def _read_stream(
        self, family: FamilyReader, match: StreamMatch, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[bytes]:
        """What matches of one stream, in time order."""

    @abstractmethod
    def _read_stream_back(
        self, family: FamilyReader, match: StreamMatch, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[Passed]:
        """The same, the newest first."""

    def _prefixes_of(self, match: StreamMatch) -> list[bytes]:
        """The postings of the tokens that a filter asks for at varying levels."""
        return [
            posting_prefix(match.stream, level, token, self._hash_bits)
            for level, token in enumerate(match.wanted)
            if token is not None
        ]


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


def scan_stream(family: FamilyReader, stream: bytes, lo_us: int, hi_us: int) -> Iterator[bytes]:
    """The messages of a stream in [lo, hi)."""
    prefix = MESSAGES + stream
    return scan_values(family, prefix + POSITION.pack(lo_us), prefix + POSITION.pack(hi_us))


def scan_stream_back(family: FamilyReader, stream: bytes, lo_us: int, hi_us: int) -> Iterator[bytes]:
    """The same, the newest first."""
    prefix = MESSAGES + stream
    return scan_values_back(family, prefix + POSITION.pack(lo_us), prefix + POSITION.pack(hi_us))


def fetch(family: FamilyReader, stream: bytes, positions: Iterator[int], check: TopicCheck) -> Iterator[bytes]:
    """The messages at certain positions whose topic passes. One that is not there is not written yet."""
    prefix = MESSAGES + stream
    pack = POSITION.pack
    size = _FIRST_FETCH
    while keys := [prefix + pack(position) for position in islice(positions, size)]:
        for value in get_many(family, keys):
            if value is not None and check(stored_topic(value)):
                yield value
        size = min(2 * size, _LARGEST_FETCH)


def load_structure(topics: LearnedTopics, family: FamilyReader) -> None:
    """Take over the records that were stored since the last time."""
    begin = len(STRUCTURE)
    records = scan_items(family, STRUCTURE + topics.next_key(), MESSAGES)
    topics.load((key[begin:], value) for key, value in records)


def stored_structure(topics: LearnedTopics, family: FamilyReader) -> LearnedTopics:
    """What is stored, in a structure like `topics`; `topics` itself, with what it inherited, if nothing is."""
    stored = topics.fresh()
    load_structure(stored, family)
    return stored if stored.stream_count else topics


def add_counts(topics: LearnedTopics, family: FamilyReader) -> None:
    """Add the messages that each stream had up to the mark."""
    known = set(topics.stream_ids())
    for stream, messages in read_counts(family):
        if stream in known:
            topics.add_messages(stream, messages)


def keep_structure(layout: Layout, puts: FamilyChanges) -> None:
    """Store what a layout has learnt or inherited and would store with its next message."""
    topics = layout.learned()
    if topics is not None:
        for key, value in topics.take_changes():
            puts.put(STRUCTURE + key, value)
