"""The `indexed` layout, for comparison in the bench: learned streams with one index key per message and varying level.

    0x00 | number u32                                       a stream's pattern
    0x01 | stream 8 | position 8                            a message
    0x02 | stream 8 | level u8 | fingerprint 8 | position 8   it has that token there; no value

Everything is written with the message, so there is no tail and no mark; each message pays for it.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION, Sink
from holdfast.storage.rocks.layouts.layout import MESSAGES, STRUCTURE, Cells, Puts
from holdfast.storage.rocks.layouts.postings import candidates, posting_prefix, read_posting
from holdfast.storage.rocks.layouts.streams import fetch, load_structure, read_streams, scan_stream, stored_structure
from holdfast.storage.rocks.layouts.topic_check import filter_check, only, token_check
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_ids import FINGERPRINT_BITS
from holdfast.topics.learned_trie import StreamMatch

_pack: Final = POSITION.pack
_MAX_CACHED: Final = 200_000


class IndexedLayout:
    """See the module."""

    name: Final = "indexed"

    def __init__(self, topics: LearnedTopics, hash_bits: int = FINGERPRINT_BITS) -> None:
        self._topics = topics
        self._hash_bits: Final = hash_bits
        #: By topic: what its keys begin with, the message's first; and its stream.
        self._prefixes: Final[dict[bytes, tuple[bytes, list[bytes], bytes]]] = {}
        self._is_writer = False

    @property
    def sink(self) -> Sink:
        return Sink(self.put)

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        found = self._prefixes.get(topic)
        if found is None:
            found = self._begin(topic, puts)
        prefix, postings, stream = found
        position = _pack(position_us)
        puts.put(prefix + position, value)
        for posting in postings:
            puts.put(posting + position, b"")
        self._topics.add_messages(stream, 1)

    def _begin(self, topic: bytes, puts: Puts) -> tuple[bytes, list[bytes], bytes]:
        self._is_writer = True
        place = self._topics.place(topic)
        for key, value in self._topics.take_changes():
            puts.put(STRUCTURE + key, value)
        stream = place.stream
        postings = [posting_prefix(stream, level, token, self._hash_bits) for level, token in enumerate(place.values)]
        if len(self._prefixes) >= _MAX_CACHED:
            self._prefixes.clear()
        found = self._prefixes[topic] = (MESSAGES + stream, postings, stream)
        return found

    def read(
        self,
        cells: Cells,
        levels: tuple[bytes, ...],
        lo_us: int,
        hi_us: int,
        *,
        in_order: bool = True,
    ) -> Iterator[bytes]:
        if not self._is_writer:
            load_structure(self._topics, cells)

        def read_stream(match: StreamMatch, lo_us: int, hi_us: int) -> Iterator[bytes]:
            return self._read_stream(cells, match, levels, lo_us, hi_us)

        return read_streams(self._topics, cells, levels, lo_us, hi_us, read_stream, in_order=in_order)

    def _read_stream(
        self, cells: Cells, match: StreamMatch, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[bytes]:
        stream = match.stream
        # An index key reads like a posting block of one position.
        postings = [
            read_posting(cells, posting_prefix(stream, level, token, self._hash_bits), lo_us, hi_us)
            for level, token in enumerate(match.wanted)
            if token is not None
        ]
        check = filter_check(levels) if match.whole_topics else token_check(match)
        if postings:
            return fetch(cells, stream, candidates(postings), check)
        values = scan_stream(cells, stream, lo_us, hi_us)
        return only(values, check) if match.whole_topics else values

    def write_behind(self, puts: Puts, limit: int) -> int:  # noqa: ARG002 (the contract's)
        return 0

    def keep_up(self, cells: Cells, puts: Puts) -> None:
        pass

    def settle(self, cells: Cells) -> None:
        pass

    def finish(self) -> None:
        pass

    def load(self, cells: Cells) -> None:
        self._topics = stored_structure(self._topics, cells)
        self._is_writer = True

    def learned(self) -> LearnedTopics:
        return self._topics
