"""The `learned` layout: one stream per learned pattern, in pure time order; the default.

    0x00 | number u32                     a stream's pattern, in the order of learning
    0x01 | stream 8 | position 8          a message                                17 bytes
    0x02 | …                              posting blocks                           see postings.py
    0x03                                  the mark: indexed up to here, and counts

A commit pays one put per message. Filters with a token at a varying level are answered by postings, which gather in
memory (tail.py) and are written behind in cycles:

      indexed blocks            frozen: being written       live
    ───────────────────┤mark├──────────────────────────┤├────────────▶ time

1. Blocks are complete up to the mark in `family`. Memory holds the postings of everything after it.
2. The mark of a cycle is put after its blocks, and the frozen tail is kept until the mark is seen in `family`.
3. After a crash what lies behind the mark is read once, to make the tail again.

4. Index entries are written behind at leisure (`write_behind`). When topics come faster than that, they go along with
   the messages that bring new ones (`keep_up`), twice as fast as those fill the next tail. So memory holds two tails at
   most, each of `cycle_bytes`, whatever is published.

A reader that is not the writer, in another process say, has no tail: it scans what lies behind the mark.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION, Tail, TailSink
from holdfast.records.messages import stored_topic
from holdfast.storage.rocks.engine.scan import FamilyReader, scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, Passed, Puts
from holdfast.storage.rocks.layouts.postings import (
    candidates,
    encode_mark,
    read_mark,
    read_posting,
    read_posting_back,
)
from holdfast.storage.rocks.layouts.streams import StreamLayout, add_counts, fetch, scan_stream, scan_stream_back
from holdfast.storage.rocks.layouts.tail import TailIndex
from holdfast.storage.rocks.layouts.topic_check import filter_check, only, only_back, token_check
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_ids import FINGERPRINT_BITS
from holdfast.topics.learned_trie import StreamMatch

#: A cycle begins after so many messages: the more of a topic's positions share a block, the less each costs to write …
DEFAULT_CYCLE_MESSAGES: Final = 1_000_000
#: … or when the tail takes so much memory: with many topics it is the topics that count.
DEFAULT_CYCLE_BYTES: Final = 64 << 20

#: Of blocks at once, besides the caller's limit: a few large blocks are as much work as many small ones.
_SLICE_BYTES: Final = 64 << 10
#: As much work as so many bytes is a piece that gives no block.
_NO_BLOCKS: Final = 4
#: Slices that go with one commit at most.
_SLICES_OF_A_COMMIT: Final = 4
#: Forgotten at once: 100,000 take 16 ms.
_SLICE_TOPICS: Final = 2_000

_LAST: Final = 2**64 - 1
_pack: Final = POSITION.pack


class LearnedLayout(StreamLayout):
    """Streams of learned patterns, and postings that are gathered in memory and written behind."""

    name: Final = "learned"

    def __init__(
        self,
        topics: LearnedTopics,
        cycle_messages: int = DEFAULT_CYCLE_MESSAGES,
        cycle_bytes: int = DEFAULT_CYCLE_BYTES,
        hash_bits: int = FINGERPRINT_BITS,
    ) -> None:
        super().__init__(topics, hash_bits)
        self._cycle_messages: Final = cycle_messages
        self._cycle_bytes: Final = cycle_bytes
        self._live = TailIndex(hash_bits)
        self.sink: Final = TailSink(self._begin)
        self.sink.tails = self._live.tails
        self._frozen: TailIndex | None = None
        self._writing_behind: Iterator[tuple[bytes, bytes]] = iter(())
        #: Settled: on its way out of memory.
        self._spent: TailIndex | None = None
        self._finishing = False

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        self.sink.put(topic, position_us, value, puts)

    def _begin(self, topic: bytes, puts: FamilyChanges) -> Tail:
        before = None if self._frozen is None else self._frozen.tails.get(topic)
        if before is not None:
            return self._live.begin_again(topic, before)
        return self._live.begin(topic, self._place(topic, puts))

    def _read_stream(
        self, family: FamilyReader, match: StreamMatch, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[bytes]:
        stream = match.stream
        prefixes = self._prefixes_of(match)
        if not prefixes:
            values = scan_stream(family, stream, lo_us, hi_us)
            return only(values, filter_check(levels)) if match.whole_topics else values
        check = filter_check(levels) if match.whole_topics else token_check(match)
        tail_us = read_mark(family) + 1
        postings = [read_posting(family, prefix, lo_us, min(hi_us, tail_us)) for prefix in prefixes]
        indexed = fetch(family, stream, candidates(postings), check)
        if hi_us <= tail_us:
            return indexed
        lo_us = max(lo_us, tail_us)
        if not self._is_writer:
            return chain(indexed, only(scan_stream(family, stream, lo_us, hi_us), check))
        # Copied now: the tail may be frozen and let go before the reader comes to it.
        youngest = self._live.positions(prefixes, lo_us, hi_us)
        if self._frozen is not None:
            youngest = self._frozen.positions(prefixes, lo_us, hi_us) + youngest
        return chain(indexed, fetch(family, stream, iter(youngest), check))

    def _read_stream_back(
        self, family: FamilyReader, match: StreamMatch, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[Passed]:
        stream = match.stream
        prefixes = self._prefixes_of(match)
        if not prefixes:
            values = scan_stream_back(family, stream, lo_us, hi_us)
            return only_back(values, filter_check(levels) if match.whole_topics else None)
        check = filter_check(levels) if match.whole_topics else token_check(match)
        tail_us = read_mark(family) + 1
        postings = [read_posting_back(family, prefix, lo_us, min(hi_us, tail_us)) for prefix in prefixes]
        indexed = only_back(fetch(family, stream, candidates(postings, newest_first=True), check))
        if hi_us <= tail_us:
            return indexed
        lo_us = max(lo_us, tail_us)
        if not self._is_writer:
            return chain(only_back(scan_stream_back(family, stream, lo_us, hi_us), check), indexed)
        youngest = self._live.positions(prefixes, lo_us, hi_us)
        if self._frozen is not None:
            youngest = self._frozen.positions(prefixes, lo_us, hi_us) + youngest
        return chain(only_back(fetch(family, stream, reversed(youngest), check)), indexed)

    def keep_up(self, family: FamilyReader, puts: Puts) -> None:
        """Write entries behind with a commit that brought new topics, as many as keep memory bounded.

        Costs: a few entries for each new topic, nothing as long as the tail is far from its bound.
        """
        new_topics = self.sink.new_topics
        self.sink.new_topics = 0
        if new_topics == 0 or (self._frozen is None and self._spent is None and not self._is_due()):
            return
        self.settle(family)
        if self._spent is not None:
            self._shrink(4 * new_topics)
        topics = max(1, len(self.sink.tails if self._frozen is None else self._frozen.tails))
        entries = (self._live if self._frozen is None else self._frozen).entries()
        room = 2 * new_topics * (entries // topics + 1)
        for _slice in range(_SLICES_OF_A_COMMIT):
            done = self.write_behind(puts, room)
            room -= done
            if done == 0 or room <= 0:
                return

    def topics_in_memory(self) -> int:
        """Topics in its tails, whichever state they are in."""
        return sum([len(tail.tails) for tail in (self._live, self._frozen, self._spent) if tail is not None])

    def _shrink(self, topics: int) -> None:
        if self._spent is not None and not self._spent.shrink(topics):
            self._spent = None

    def write_behind(self, puts: Puts, limit: int) -> int:
        self._shrink(_SLICE_TOPICS)
        if self._frozen is None:
            if not self._is_due():
                return 0
            self._freeze()
        count = 0
        work_bytes = 0
        for key, value in islice(self._writing_behind, limit):
            count += 1
            if key:
                puts.put(key, value)
                work_bytes += len(value)
            else:
                work_bytes += _SLICE_BYTES // _NO_BLOCKS
            if work_bytes >= _SLICE_BYTES:
                break
        return count

    def _is_due(self) -> bool:
        if not self._live.tails:
            return False
        return (
            self._finishing
            or self._live.messages() >= self._cycle_messages
            or self._live.size_bytes() >= self._cycle_bytes
        )

    def _freeze(self) -> None:
        self._count()
        counts = [(stream, self._topics.messages(stream)) for stream in self._topics.stream_ids()]
        frozen = self._live
        frozen.up_to_us = frozen.last_us()
        self._frozen = frozen
        self._writing_behind = chain(frozen.blocks(), [encode_mark(frozen.up_to_us, counts)])
        self._live = TailIndex(self._hash_bits)
        self.sink.tails = self._live.tails

    def settle(self, family: FamilyReader) -> None:
        if self._frozen is not None and read_mark(family) >= self._frozen.up_to_us:
            self._spent, self._frozen = self._frozen, None
            self._writing_behind = iter(())

    def finish(self) -> None:
        self._finishing = True

    def load(self, family: FamilyReader) -> None:
        self._load_structure(family)
        mark_us = read_mark(family)
        add_counts(self._topics, family)
        for stream in self._topics.stream_ids():
            self._load_tail(family, MESSAGES + stream, mark_us + 1)

    def _load_tail(self, family: FamilyReader, prefix: bytes, lo_us: int) -> None:
        for key, value in scan_items(family, prefix + _pack(lo_us), prefix + _pack(_LAST)):
            topic = stored_topic(value)
            tail = self._live.tails.get(topic)
            if tail is None:
                tail = self._live.begin(topic, self._topics.place(topic))
            (position_us,) = POSITION.unpack(key[-8:])
            tail.append(position_us)

    def _count(self) -> None:
        for stream, messages in self._live.take_counts():
            self._topics.add_messages(stream, messages)

    def learned(self) -> LearnedTopics:
        self._count()
        return self._topics
