"""The tail: positions of messages that are not in posting blocks yet, held in memory.

    topic    →  Tail             the positions of its messages
    posting  →  Tail, [Tail, …]  the topics with a token (or, with bad luck, two tokens of one fingerprint) at a level

It is the index of the youngest messages, so that readers need not scan them, and what the next blocks are made of.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from holdfast.durable.tails import Tail, TailStream
from holdfast.storage.rocks.layouts.layout import MESSAGES
from holdfast.storage.rocks.layouts.postings import posting_blocks, posting_prefix
from holdfast.topics.learned import TopicPlace

#: Measured for CPython 3.11: a topic besides its name, its place in one posting, and one position.
_TOPIC_BYTES: Final = 260
_POSTING_BYTES: Final = 200
_POSITION_BYTES: Final = 8

_SLICE_POSITIONS: Final = 16_384
#: Topics of one posting looked at in one piece of work: about a millisecond.
_SLICE_TAILS: Final = 1_000


class TailIndex:
    """The tail of one cycle, from one mark to the next."""

    def __init__(self, hash_bits: int) -> None:
        self._hash_bits: Final = hash_bits
        self.tails: Final[dict[bytes, Tail]] = {}
        #: One topic stands for itself: a million lists of one would be a million objects for the garbage collector.
        self._postings: Final[dict[bytes, Tail | list[Tail]]] = {}
        #: By the prefix of their messages' keys; and the messages counted so far.
        self._streams: Final[dict[bytes, TailStream]] = {}
        self._counted: Final[dict[bytes, int]] = {}
        self._topics_bytes = 0
        #: The last position in it, once it gets no more.
        self.up_to_us = 0

    def begin(self, topic: bytes, place: TopicPlace) -> Tail:
        """A tail for a topic that has none yet."""
        stream = place.stream
        bits = self._hash_bits
        postings = tuple([posting_prefix(stream, level, token, bits) for level, token in enumerate(place.values)])
        return self._add(topic, MESSAGES + stream, postings)

    def begin_again(self, topic: bytes, before: Tail) -> Tail:
        """A tail for a topic that had one in the cycle before: nothing is looked up or hashed again."""
        return self._add(topic, before.stream.prefix, before.postings)

    def _add(self, topic: bytes, prefix: bytes, postings: tuple[bytes, ...]) -> Tail:
        stream = self._streams.get(prefix)
        if stream is None:
            stream = self._streams[prefix] = TailStream(prefix)
        tail = Tail(stream, postings)
        for posting in postings:
            known = self._postings.setdefault(posting, tail)
            if isinstance(known, list):
                known.append(tail)
            elif known is not tail:
                self._postings[posting] = [known, tail]
        self.tails[topic] = tail
        self._topics_bytes += _TOPIC_BYTES + len(topic) + _POSTING_BYTES * len(postings)
        return tail

    def messages(self) -> int:
        """How many there are."""
        return sum([stream.messages for stream in self._streams.values()])

    def size_bytes(self) -> int:
        """How much memory it takes, about."""
        return self._topics_bytes + _POSITION_BYTES * self.messages()

    def last_us(self) -> int:
        """The last position; -1 if there is none."""
        return max([stream.last_us for stream in self._streams.values()], default=-1)

    def take_counts(self) -> list[tuple[bytes, int]]:
        """Messages of each stream since the last call."""
        totals = {prefix: stream.messages for prefix, stream in self._streams.items()}
        counts = [(prefix[len(MESSAGES) :], total - self._counted.get(prefix, 0)) for prefix, total in totals.items()]
        self._counted.update(totals)
        return counts

    def positions(self, prefixes: list[bytes], lo_us: int, hi_us: int) -> list[int]:
        """Positions of [lo, hi), in order, among which are all that are in every one of some postings."""
        found: list[int] = []
        tails = min([self._tails_of(prefix) for prefix in prefixes], key=len)
        for tail in tails:
            positions = tail.positions
            found.extend(positions[bisect_left(positions, lo_us) : bisect_left(positions, hi_us)])
        if len(tails) > 1:
            found.sort()
        return found

    def _tails_of(self, prefix: bytes) -> list[Tail]:
        known = self._postings.get(prefix)
        if known is None:
            return []
        return known if isinstance(known, list) else [known]

    def entries(self) -> int:
        """Postings, each of which is a block at least."""
        return len(self._postings)

    def shrink(self, topics: int) -> bool:
        """Forget some topics, and tell whether any are left: freeing all at once would hold up the loop."""
        for entries in (self.tails, self._postings):
            for _entry in range(min(topics, len(entries))):
                entries.popitem()
        return bool(self.tails or self._postings)

    def blocks(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of all posting blocks, in small pieces of work, some of which are a `NO_BLOCK`.

        Requires: no message is added any more.
        """
        for prefix, known in self._postings.items():
            yield from posting_blocks(prefix, _merged(known) if isinstance(known, list) else iter([known.positions]))


def _merged(tails: list[Tail]) -> Iterator[list[int]]:
    """The positions of many topics in order, by slices of time: sorting a million at once would take too long.

    An empty one comes after each piece of work in between.
    """
    count = first_us = last_us = 0
    for begin in range(0, len(tails), _SLICE_TAILS):
        for tail in tails[begin : begin + _SLICE_TAILS]:
            positions = tail.positions
            count += len(positions)
            first_us = min(first_us or positions[0], positions[0])
            last_us = max(last_us, positions[-1])
        if begin + _SLICE_TAILS < len(tails):
            yield []
    # Every slice looks into every tail, so it should hold some positions for each.
    slices = count // max(_SLICE_POSITIONS, len(tails)) + 1
    step_us = (last_us - first_us) // slices + 1
    for lo_us in range(first_us, last_us + 1, step_us):
        found: list[int] = []
        for begin in range(0, len(tails), _SLICE_TAILS):
            for tail in tails[begin : begin + _SLICE_TAILS]:
                positions = tail.positions
                found.extend(positions[bisect_left(positions, lo_us) : bisect_left(positions, lo_us + step_us)])
            if begin + _SLICE_TAILS < len(tails):
                yield []
        found.sort()
        yield found
