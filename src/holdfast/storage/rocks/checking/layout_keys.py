"""Checks that each message is under the key that its layout gives it, and in the postings that lead to it.

Postings are compared by sums: each entry of a posting has a number, and so has each token of a message at a varying
level. Per stream both must add up to the same, or some message cannot be found (or something is found that is gone).
"""

from collections.abc import Iterator
from typing import Final, Protocol

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.records.messages import decode_message
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.records.pages.segment_index import decode_directory
from holdfast.storage.rocks.layouts.build import make_layout
from holdfast.storage.rocks.layouts.layout import MARKS, POSTINGS, STRUCTURE
from holdfast.storage.rocks.layouts.postings import block_positions, posting_prefix
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_ids import FINGERPRINT_BITS, FINGERPRINT_BYTES

_STREAM_END: Final = 1 + FINGERPRINT_BYTES
_PREFIX_BYTES: Final = _STREAM_END + 1 + FINGERPRINT_BYTES
_POSITION_BYTES: Final = 8
_HEAD_BYTES: Final = 9
#: Of a key in the index of segments.
_INDEX_BYTES: Final = 11
#: No epoch is full: where the epochs of a bitmask end is told by the keys themselves.
_ENDLESS: Final = 1 << 40
#: The mark of a layout whose postings are written with the messages.
_EVERYTHING_US: Final = 2**63 - 1


class SliceKeys(Protocol):
    """The keys of one slice. Keys come in their order; a PermanentError says what is wrong with one."""

    def messages(self, key: bytes, value: bytes) -> int:
        """Check what lies under a key of messages; how many there are."""
        ...

    def other(self, key: bytes, value: bytes) -> None: ...

    def problems(self) -> Iterator[str]:
        """What is only known at the end."""
        ...


class PageKeys:
    """Of the layout `paged`: patterns, commit pages, and what leads to segments. Segments have their own check."""

    def __init__(self, mark_us: int) -> None:
        self._next_record = 0
        self._mark_us: Final = mark_us
        #: First positions of segments, by their index and by their directories.
        self._indexed: Final[set[bytes]] = set()
        self._known: Final[set[bytes]] = set()

    def messages(self, key: bytes, value: bytes) -> int:
        page = CommitPage(value)
        if key[1:] != POSITION.pack(page.first_us):
            raise PermanentError(f"a commit page from position {page.first_us} on lies under a key of another")
        if page.first_us <= self._mark_us:
            raise PermanentError(f"a commit page is below the mark, {self._mark_us}: segments have its messages too")
        return len(page.messages(0, page.count, 0))

    def other(self, key: bytes, value: bytes) -> None:
        if key[:1] == STRUCTURE:
            self._next_record = check_record(key[1:], self._next_record)
        elif key[:1] == POSTINGS and len(key) == _INDEX_BYTES:
            self._indexed.add(key[-_POSITION_BYTES:])
        elif key[:1] == MARKS and len(key) == 1 + _POSITION_BYTES:
            decode_directory(int.from_bytes(key[1:], "big"), value)
            self._known.add(key[1:])
        elif key != MARKS:
            raise PermanentError("the layout has no such keys")

    def problems(self) -> Iterator[str]:
        for segment in sorted(self._indexed - self._known):
            yield f"there is an index of a segment from {int.from_bytes(segment, 'big')} on, and no such segment"


class PlainKeys:
    """Of layouts without a structure: the layout itself is asked for the key."""

    def __init__(self, record: Generation) -> None:
        parameters = {name: value for name, value in record.parameters.items() if not isinstance(value, str)}
        self._has_epochs: Final = record.layout != "timeline"
        if self._has_epochs:
            parameters["epoch_messages"] = _ENDLESS
        self._record: Final = record
        self._parameters: Final = parameters
        self._layout = make_layout(record.layout, parameters)
        self._epoch = b""

    def messages(self, key: bytes, value: bytes) -> int:
        stored = decode_message(value)
        topic, position_us = stored.message.topic, stored.position_us
        if self._has_epochs and key[:_HEAD_BYTES] != self._epoch:
            self._epoch = key[:_HEAD_BYTES]
            self._layout = make_layout(self._record.layout, self._parameters)
            self._layout.put(topic, int.from_bytes(key[1:_HEAD_BYTES], "big"), b"", FamilyChanges())
        puts = FamilyChanges()
        self._layout.put(topic, position_us, b"", puts)
        right = puts.operations[-1][0]
        if right != key:
            raise PermanentError(f"a message on {topic!r} lies under another key than {right.hex()}")
        return 1

    def other(self, key: bytes, value: bytes) -> None:  # noqa: ARG002 (the contract's)
        raise PermanentError("the layout has no such keys")

    def problems(self) -> Iterator[str]:
        return iter(())


class LearnedKeys:
    """Of layouts with learned streams and postings."""

    def __init__(self, topics: LearnedTopics, hash_bits: int, mark_us: int) -> None:
        """`topics` is the structure, empty; up to `mark_us` every message has its postings."""
        self._topics: Final = topics
        self._hash_bits: Final = hash_bits
        self._mark_us: Final = mark_us
        self._next_record = 0
        self._last_us = -1
        #: By stream: entries and their sum, as messages have it and as postings have it.
        self._wanted: Final[dict[bytes, list[int]]] = {}
        self._found: Final[dict[bytes, list[int]]] = {}
        self._prefix = b""
        self._block_end_us = -1

    def messages(self, key: bytes, value: bytes) -> int:
        stored = decode_message(value)
        topic, position_us = stored.message.topic, stored.position_us
        if len(key) != _STREAM_END + _POSITION_BYTES or key[_STREAM_END:] != POSITION.pack(position_us):
            raise PermanentError(f"a message of position {position_us} lies under a key of another")
        self._last_us = max(self._last_us, position_us)
        place = self._topics.place(topic)
        if self._topics.take_changes():
            raise PermanentError(f"topic {topic!r} is not in the learned structure")
        stream = key[1:_STREAM_END]
        if place.stream != stream:
            raise PermanentError(f"a message on {topic!r} is in stream {stream.hex()}, not in {place.stream.hex()}")
        if position_us <= self._mark_us:
            for level, token in enumerate(place.values):
                _add(self._wanted, stream, posting_prefix(stream, level, token, self._hash_bits), position_us)
        return 1

    def other(self, key: bytes, value: bytes) -> None:
        if key[:1] == STRUCTURE:
            self._structure(key[1:], value)
        elif key[:1] == POSTINGS and len(key) == _PREFIX_BYTES + _POSITION_BYTES:
            self._block(key, value)
        elif key != MARKS:
            raise PermanentError("the layout has no such keys")

    def _structure(self, key: bytes, value: bytes) -> None:
        self._next_record = check_record(key, self._next_record)
        self._topics.load([(key, value)])

    def _block(self, key: bytes, value: bytes) -> None:
        positions = block_positions(key, value)
        prefix = key[:_PREFIX_BYTES]
        if prefix != self._prefix:
            self._prefix = prefix
            self._block_end_us = -1
        # What begins behind the mark was cut short by a crash, is not read, and will be written again.
        if positions[0] > self._mark_us:
            return
        if positions[0] <= self._block_end_us or sorted(set(positions)) != positions:
            raise PermanentError(f"a posting block from {positions[0]} on overlaps the one before or is not in order")
        self._block_end_us = positions[-1]
        stream = key[1:_STREAM_END]
        for position_us in positions:
            if position_us <= self._mark_us:
                _add(self._found, stream, prefix, position_us)

    def problems(self) -> Iterator[str]:
        nothing = [0, 0]
        for stream in sorted({*self._wanted, *self._found}):
            wanted, found = self._wanted.get(stream, nothing), self._found.get(stream, nothing)
            if wanted != found:
                yield (
                    f"stream {stream.hex()} has {wanted[0]} tokens at varying levels up to the mark, and {found[0]} "
                    f"entries in its postings{'' if wanted[0] != found[0] else ', which are not the same'}: "
                    "filters with such a token miss messages"
                )
        if self._mark_us < _EVERYTHING_US and self._mark_us > self._last_us:
            yield f"the postings are marked complete up to {self._mark_us}, and the last message is at {self._last_us}"


def check_record(key: bytes, expected: int) -> int:
    """Check that a record of the learned structure follows the one before; the number that comes next."""
    number = int.from_bytes(key, "big")
    if number != expected:
        raise PermanentError(f"record {expected} of the learned structure is missing")
    return number + 1


def slice_keys(record: Generation, mark_us: int) -> SliceKeys:
    """`mark_us` is the mark of the slice."""
    parameters = {name: value for name, value in record.parameters.items() if not isinstance(value, str)}
    layout = make_layout(record.layout, parameters)
    topics = layout.learned()
    if record.layout == "paged":
        return PageKeys(mark_us)
    if topics is None:
        return PlainKeys(record)
    bits = parameters.get("hash_bits", FINGERPRINT_BITS)
    assert isinstance(bits, int)
    return LearnedKeys(topics, bits, _EVERYTHING_US if record.layout == "indexed" else mark_us)


def _add(sums: dict[bytes, list[int]], stream: bytes, prefix: bytes, position_us: int) -> None:
    entry = sums.get(stream)
    if entry is None:
        entry = sums[stream] = [0, 0]
    entry[0] += 1
    entry[1] += hash((prefix, position_us))
