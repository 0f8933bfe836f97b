"""The `bitmask` layout: keys by epoch, topic index and time; a filter becomes a mask, and reading jumps ahead.

    0x01 | epoch 8 | code      the code holds the bits of topic index and time offset, in the order of a curve

An epoch is named by the position of its first message. It holds at most 65,536 messages and lasts at most 71 minutes,
so a reader finds the epoch of a time with one seek. Inside an epoch keys are not in time order: a reader takes what
matches out of the whole epoch and sorts it. The time offset is unique, because positions are; so it is also the id.

Where a code cannot match, the next one that can is computed and sought (`next_match`). Hashes collide, so every topic
is checked.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION
from holdfast.records.messages import stored_position, stored_topic
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end, open_cursor
from holdfast.storage.rocks.layouts.bitmask_curve import TIME_BITS, Curve, next_match
from holdfast.storage.rocks.layouts.layout import MESSAGES, NOTHING_YET, POSTINGS, Passed
from holdfast.storage.rocks.layouts.topic_check import TopicCheck, filter_check
from holdfast.storage.rocks.layouts.write_through import WriteThroughLayout

DEFAULT_LEVELS: Final = 6
#: 16 bits tell 65,536 tokens of a level apart; the index has 12 bytes then.
DEFAULT_BITS: Final = 16
DEFAULT_EPOCH_MESSAGES: Final = 65_536

_KEY_HEAD_BYTES: Final = 9
_MAX_CACHED: Final = 100_000
_pack: Final = POSITION.pack


class BitmaskLayout(WriteThroughLayout):
    """Epochs whose messages are sorted by the bits of their topics and times; `name` tells how the bits are mixed."""

    def __init__(self, name: str, curve: Curve, epoch_messages: int = DEFAULT_EPOCH_MESSAGES) -> None:
        self.name: Final = name
        self._curve: Final = curve
        self._epoch_messages: Final = epoch_messages
        self._width_bytes: Final = curve.width_bytes
        self._epoch_us = 0
        self._epoch_head = b""
        #: None are left: the first message begins an epoch, also after an open.
        self._epoch_left = 0
        self._topic_bits: Final[dict[bytes, int]] = {}

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:
        bits = self._topic_bits.get(topic)
        if bits is None:
            bits = self._remember(topic)
        offset_us = position_us - self._epoch_us
        if self._epoch_left == 0 or offset_us >> TIME_BITS:
            self._epoch_us = position_us
            self._epoch_head = MESSAGES + _pack(position_us)
            self._epoch_left = self._epoch_messages
            offset_us = 0
        self._epoch_left -= 1
        code = bits | self._curve.time_bits(offset_us)
        puts.put(self._epoch_head + code.to_bytes(self._width_bytes, "big"), value)

    def _remember(self, topic: bytes) -> int:
        if len(self._topic_bits) >= _MAX_CACHED:
            self._topic_bits.clear()
        bits = self._topic_bits[topic] = self._curve.topic_bits(topic)
        return bits

    def read(
        self,
        family: FamilyReader,
        levels: tuple[bytes, ...],
        lo_us: int,
        hi_us: int,
        *,
        in_order: bool = True,  # noqa: ARG002 (the contract's)
    ) -> Iterator[bytes]:
        query, mask = self._curve.query(levels) if levels else (0, 0)
        check = filter_check(levels)
        epoch_us = self._first_epoch(family, max(lo_us, 0))
        while 0 <= epoch_us < hi_us:
            found, epoch_us = self._read_epoch(family, epoch_us, query, mask, check)
            # Taken out of the epoch first, so that no cursor stays open while a slow reader handles them.
            found.sort(key=stored_position)
            for value in found:
                if lo_us <= stored_position(value) < hi_us:
                    yield value
            if not found:
                yield NOTHING_YET

    def read_back(self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int) -> Iterator[Passed]:
        query, mask = self._curve.query(levels) if levels else (0, 0)
        check = filter_check(levels)
        lo_us = max(lo_us, 0)
        epoch_us = self._last_epoch(family, hi_us)
        while epoch_us >= 0:
            found, _next_us = self._read_epoch(family, epoch_us, query, mask, check)
            passed = [(stored_position(value), value) for value in found]
            yield from sorted([one for one in passed if lo_us <= one[0] < hi_us], reverse=True)
            # An epoch begins with its first message.
            if epoch_us <= lo_us:
                return
            yield epoch_us, NOTHING_YET
            epoch_us = self._last_epoch(family, epoch_us)

    def _last_epoch(self, family: FamilyReader, before_us: int) -> int:
        """The last epoch that begins before a position; -1 if there is none."""
        if before_us <= 0:
            return -1
        end = MESSAGES + _pack(before_us)
        cursor = open_cursor(family, end)
        cursor.seek_to_last()  # below `end`; a bitmask stores nothing before its messages
        if cursor.valid():
            return self._epoch_at(cursor.key())
        check_end(cursor)
        return -1

    def _first_epoch(self, family: FamilyReader, lo_us: int) -> int:
        """The epoch that a message at `lo_us` would be in, or the first one after it; -1 if there is none."""
        cursor = open_cursor(family, POSTINGS)
        cursor.seek_for_prev(MESSAGES + _pack(lo_us) + b"\xff" * self._width_bytes)
        if not cursor.valid():  # nothing lies before messages: a bitmask has no structure to store
            check_end(cursor)
            cursor.seek(MESSAGES)
        if cursor.valid():
            return self._epoch_at(cursor.key())
        check_end(cursor)
        return -1

    @staticmethod
    def _epoch_at(key: bytes) -> int:
        return int.from_bytes(key[1:_KEY_HEAD_BYTES], "big")

    def _read_epoch(
        self, family: FamilyReader, epoch_us: int, query: int, mask: int, check: TopicCheck
    ) -> tuple[list[bytes], int]:
        """What matches in an epoch, not in order; and the next epoch or -1."""
        head = MESSAGES + _pack(epoch_us)
        width_bytes = self._width_bytes
        found: list[bytes] = []
        cursor = open_cursor(family, POSTINGS)
        cursor.seek(head + query.to_bytes(width_bytes, "big"))
        while cursor.valid():
            key: bytes = cursor.key()
            if not key.startswith(head):
                return found, self._epoch_at(key)
            code = int.from_bytes(key[_KEY_HEAD_BYTES:], "big")
            if code & mask == query:
                value: bytes = cursor.value()
                if check(stored_topic(value)):
                    found.append(value)
                cursor.next()
                continue
            code = next_match(code, query, mask, 8 * width_bytes)
            cursor.seek(head + code.to_bytes(width_bytes, "big") if code >= 0 else MESSAGES + _pack(epoch_us + 1))
        check_end(cursor)
        return found, -1
