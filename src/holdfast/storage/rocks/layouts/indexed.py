"""The `indexed` layout, for comparison in the bench: learned streams with one index key per message and varying level.

    0x00 | number u32                                       a stream's pattern
    0x01 | stream 8 | position 8                            a message
    0x02 | stream 8 | level u8 | fingerprint 8 | position 8   it has that token there; no value

Everything is written with the message, so there is no tail and no mark; each message pays for it.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.storage.rocks.layouts.layout import MESSAGES, Passed, Puts
from holdfast.storage.rocks.layouts.postings import candidates, posting_prefix, read_posting, read_posting_back
from holdfast.storage.rocks.layouts.streams import StreamLayout, fetch, scan_stream, scan_stream_back
from holdfast.storage.rocks.layouts.topic_check import filter_check, only, only_back, token_check
from holdfast.storage.rocks.layouts.write_through import WriteThroughLayout
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_ids import FINGERPRINT_BITS
from holdfast.topics.learned_trie import StreamMatch

_pack: Final = POSITION.pack
_MAX_CACHED: Final = 200_000


class IndexedLayout(StreamLayout, WriteThroughLayout):
    """Streams of learned patterns, with an index key for each message and varying level."""

    name: Final = "indexed"

    def __init__(self, topics: LearnedTopics, hash_bits: int = FINGERPRINT_BITS) -> None:
        super().__init__(topics, hash_bits)
        #: By topic: what its keys begin with, the message's first; and its stream.
        self._prefixes: Final[dict[bytes, tuple[bytes, list[bytes], bytes]]] = {}

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
        place = self._place(topic, puts)
        stream = place.stream
        postings = [posting_prefix(stream, level, token, self._hash_bits) for level, token in enumerate(place.values)]
        if len(self._prefixes) >= _MAX_CACHED:
            self._prefixes.clear()
        found = self._prefixes[topic] = (MESSAGES + stream, postings, stream)
        return found

    def _read_stream(
        self, family: FamilyReader, match: StreamMatch, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[bytes]:
        stream = match.stream
        # An index key reads like a posting block of one position.
        postings = [read_posting(family, prefix, lo_us, hi_us) for prefix in self._prefixes_of(match)]
        check = filter_check(levels) if match.whole_topics else token_check(match)
        if postings:
            return fetch(family, stream, candidates(postings), check)
        values = scan_stream(family, stream, lo_us, hi_us)
        return only(values, check) if match.whole_topics else values

    def _read_stream_back(
        self, family: FamilyReader, match: StreamMatch, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[Passed]:
        stream = match.stream
        postings = [read_posting_back(family, prefix, lo_us, hi_us) for prefix in self._prefixes_of(match)]
        check = filter_check(levels) if match.whole_topics else token_check(match)
        if postings:
            return only_back(fetch(family, stream, candidates(postings, newest_first=True), check))
        return only_back(scan_stream_back(family, stream, lo_us, hi_us), check if match.whole_topics else None)

    def load(self, family: FamilyReader) -> None:
        self._load_structure(family)

    def learned(self) -> LearnedTopics:
        return self._topics
