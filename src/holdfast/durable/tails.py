"""Where messages go that were not indexed yet: the positions of each topic, in memory.

A sink takes messages of one shard, once per published message; hence it is here, among what is compiled.
"""

from array import array
from collections.abc import Callable
from struct import Struct
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.model.message import Message
from holdfast.records.messages import decode_message, encode_message
from holdfast.records.pages.commit_pages import encode_page, page_end
from holdfast.records.pages.segment_pages import LARGE_BYTES

#: A position in a key: µs, big-endian, so that keys sort by time. Never change.
POSITION: Final = Struct(">Q")


#: The topic, the position and the encoded message.
StoredRecord = tuple[bytes, int, bytes]


class TailStream:
    """What the tails of one stream share, and what is counted there: looking through all topics would take too long."""

    def __init__(self, prefix: bytes) -> None:
        #: What the keys of its messages begin with.
        self.prefix: Final = prefix
        self.messages = 0
        #: The last position; -1 before the first message.
        self.last_us = -1


class Tail:
    """The positions of one topic's messages; in an array, where a message costs 8 bytes, and not 40 as in a list."""

    def __init__(self, stream: TailStream, postings: tuple[bytes, ...]) -> None:
        self.stream: Final = stream
        #: What the keys of its postings begin with.
        self.postings: Final = postings
        self.positions: Final[array[int]] = array("q")

    def append(self, position_us: int) -> None:
        """Note the position of one more message."""
        self.positions.append(position_us)
        stream = self.stream
        stream.messages += 1
        stream.last_us = position_us


class MessageSink:
    """Takes messages. This one hands them on, to a layout that has no faster way."""

    def __init__(self, hand_on: Callable[[bytes, int, bytes, FamilyChanges], None]) -> None:
        self._hand_on: Final = hand_on
        #: New topics since the counter was reset: their index entries are what costs memory.
        self.new_topics = 0
        #: Of the commit pages that wait to become a segment, if the layout has such.
        self.pages = 0
        self.messages = 0
        self.weight_bytes = 0
        #: Whether more of them wait than are counted: not all are looked at when a log is opened.
        self.has_uncounted = False

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        """Add a message and every structure change it causes to one commit."""
        self._hand_on(topic, position_us, value, puts)

    def put_records(self, records: list[StoredRecord], puts: FamilyChanges) -> None:
        """Add messages that are encoded already, in the order of their positions."""
        for topic, position_us, value in records:
            self.put(topic, position_us, value, puts)

    def put_commit(self, messages: list[Message], first_serial: int, puts: FamilyChanges) -> None:
        """Add the messages of one commit, which know their positions."""
        serial = first_serial
        for message in messages:
            position_us = message.position_us
            self.put(message.topic, position_us, encode_message(message, position_us, serial), puts)
            serial += 1

    def count(self, pages: int, messages: int, weight_bytes: int) -> None:
        """Count commit pages that came, or with negative numbers those that became a segment."""
        self.pages += pages
        self.messages += messages
        self.weight_bytes += weight_bytes

    def nothing_waits(self) -> None:
        """No commit page waits that is written by now."""
        self.pages = self.messages = self.weight_bytes = 0
        self.has_uncounted = False


class TailSink(MessageSink):
    """Notes the position of a message under its topic, and puts it into its stream."""

    def __init__(self, begin: Callable[[bytes, FamilyChanges], Tail]) -> None:
        """`begin` makes and keeps the tail of a topic that has none."""
        super().__init__(_nowhere)
        self._begin: Final = begin
        self.tails: dict[bytes, Tail] = {}

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        tail = self.tails.get(topic)
        if tail is None:
            tail = self._begin(topic, puts)
            self.new_topics += 1
        tail.append(position_us)
        puts.operations.append((tail.stream.prefix + POSITION.pack(position_us), value))


class PageSink(MessageSink):
    """Puts the messages of a commit into commit pages, as few as there can be, and counts what is in no segment yet."""

    def __init__(self, prefix: bytes) -> None:
        """`prefix` is what keys of pages begin with."""
        super().__init__(_nowhere)
        self._prefix: Final = prefix

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        self.put_records([(topic, position_us, value)], puts)

    def put_records(self, records: list[StoredRecord], puts: FamilyChanges) -> None:
        messages: list[Message] = []
        first_serial = 0
        for _topic, position_us, value in records:
            stored = decode_message(value)
            stored.message.position_us = position_us
            if messages and stored.serial != first_serial + len(messages):
                # Something between them was erased; the serials of a page have no gap.
                self.put_commit(messages, first_serial, puts)
                messages = []
            if not messages:
                first_serial = stored.serial
            messages.append(stored.message)
        self.put_commit(messages, first_serial, puts)

    def put_commit(self, messages: list[Message], first_serial: int, puts: FamilyChanges) -> None:
        begin = 0
        while begin < len(messages):
            end = page_end(messages, begin)
            page = messages if end - begin == len(messages) else messages[begin:end]
            key = self._prefix + POSITION.pack(page[0].position_us)
            value = encode_page(page, first_serial + begin)
            puts.operations.append((key, value))
            self.count(1, len(page), page_weight(len(page), len(value)))
            begin = end


def page_weight(messages: int, size_bytes: int) -> int:
    """What a commit page counts towards the size of a segment: a large message is a page alone, whatever its size."""
    return size_bytes if messages > 1 else min(size_bytes, LARGE_BYTES)


def _nowhere(_topic: bytes, _position_us: int, _value: bytes, _puts: FamilyChanges) -> None:
    """These sinks hand nothing on."""
