"""The tail: positions of messages that are not in posting blocks yet, held in memory.

    topic    →  Tail         the positions of its messages
    posting  →  [Tail, …]    the topics with a token (or, with bad luck, two tokens of one fingerprint) at a level

It is the index of the youngest messages, so that readers need not scan them, and what the next blocks are made of.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from holdfast.durable.tails import Tail
from holdfast.storage.rocks.layouts.layout import MESSAGES
from holdfast.storage.rocks.layouts.postings import posting_blocks, posting_prefix
from holdfast.topics.learned import Place

#: Measured for CPython 3.11, with a topic of 40 bytes and one varying level.
TOPIC_BYTES: Final = 500
POSITION_BYTES: Final = 8

_SLICE_POSITIONS: Final = 16_384


class TailIndex:
    """The tail of one cycle, from one mark to the next."""

    def __init__(self, hash_bits: int) -> None:
        self._hash_bits: Final = hash_bits
        self.tails: Final[dict[bytes, Tail]] = {}
        self._postings: Final[dict[bytes, list[Tail]]] = {}
        #: The prefixes of messages' keys, each as one object for all topics; and the messages counted so far.
        self._streams: Final[dict[bytes, bytes]] = {}
        self._counted: Final[dict[bytes, int]] = {}
        #: The last position in it, once it gets no more.
        self.up_to_us = 0

    def begin(self, topic: bytes, place: Place) -> Tail:
        """A tail for a topic that has none yet."""
        stream = place.stream
        bits = self._hash_bits
        postings = tuple([posting_prefix(stream, level, token, bits) for level, token in enumerate(place.values)])
        return self._add(topic, MESSAGES + stream, postings)

    def begin_again(self, topic: bytes, before: Tail) -> Tail:
        """A tail for a topic that had one in the cycle before: nothing is looked up or hashed again."""
        return self._add(topic, before.prefix, before.postings)

    def _add(self, topic: bytes, prefix: bytes, postings: tuple[bytes, ...]) -> Tail:
        tail = Tail(self._streams.setdefault(prefix, prefix), postings)
        for posting in postings:
            self._postings.setdefault(posting, []).append(tail)
        self.tails[topic] = tail
        return tail

    def messages(self) -> int:
        """How many there are. Counted when somebody asks: appending runs once per message."""
        return sum([len(tail.positions) for tail in self.tails.values()])

    def last_us(self) -> int:
        """The last position; -1 if there is none."""
        return max([tail.positions[-1] for tail in self.tails.values() if tail.positions], default=-1)

    def take_counts(self) -> list[tuple[bytes, int]]:
        """Messages of each stream since the last call."""
        totals: dict[bytes, int] = {}
        for tail in self.tails.values():
            totals[tail.prefix] = totals.get(tail.prefix, 0) + len(tail.positions)
        counts = [(prefix[len(MESSAGES) :], total - self._counted.get(prefix, 0)) for prefix, total in totals.items()]
        self._counted.update(totals)
        return counts

    def positions(self, prefixes: list[bytes], lo_us: int, hi_us: int) -> list[int]:
        """Positions of [lo, hi), in order, among which are all that are in every one of some postings."""
        found: list[int] = []
        tails: list[Tail] = min([self._postings.get(prefix, []) for prefix in prefixes], key=len)
        for tail in tails:
            positions = tail.positions
            found.extend(positions[bisect_left(positions, lo_us) : bisect_left(positions, hi_us)])
        if len(tails) > 1:
            found.sort()
        return found

    def shrink(self, topics: int) -> bool:
        """Forget some topics, and tell whether any are left: freeing all at once would hold up the loop."""
        for entries in (self.tails, self._postings):
            for _entry in range(min(topics, len(entries))):
                entries.popitem()
        return bool(self.tails or self._postings)

    def blocks(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of all posting blocks, in small pieces of work. Requires: no message is added any more."""
        for prefix, tails in self._postings.items():
            yield from posting_blocks(prefix, iter([tails[0].positions]) if len(tails) == 1 else _merged(tails))


def _merged(tails: list[Tail]) -> Iterator[list[int]]:
    """The positions of many topics in order, by slices of time: sorting a million at once would take too long."""
    count = sum([len(tail.positions) for tail in tails])
    first_us = min([tail.positions[0] for tail in tails])
    last_us = max([tail.positions[-1] for tail in tails])
    # Every slice looks into every tail, so it should hold some positions for each.
    slices = count // max(_SLICE_POSITIONS, len(tails)) + 1
    step_us = (last_us - first_us) // slices + 1
    for lo_us in range(first_us, last_us + 1, step_us):
        found: list[int] = []
        for tail in tails:
            positions = tail.positions
            found.extend(positions[bisect_left(positions, lo_us) : bisect_left(positions, lo_us + step_us)])
        found.sort()
        yield found
