"""Retained messages on RocksDB: found by seeking from one topic that can match to the next.

    plant · + · temp        plant/1/temp ✓   seek plant/1/␁   plant/2/hum ✗   seek plant/2/temp …

Keys are ordered by levels (`records/retained.py`), so a subtree is a range, and whatever cannot match is jumped over:
three microseconds for each jump, and no tree of a million objects in memory.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

import structlog

from holdfast.durable.changes import Changes, FamilyChanges
from holdfast.durable.commit import Batch
from holdfast.durable.erasures import Erasures
from holdfast.durable.memory_retained import MemoryRetained
from holdfast.durable.retained import RetainedScan, ScanBudget
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.messages import StoredMessage
from holdfast.records.retained import (
    COUNT_KEY,
    EXPIRY,
    RetainedRecord,
    decode_retained,
    encode_retained,
    expired_until,
    expiry_key,
    expiry_parts,
    retained_key,
    retained_topic,
)
from holdfast.storage.rocks.contents import RETAINED, Contents
from holdfast.storage.rocks.due_keys import DueKeys
from holdfast.storage.rocks.layouts.layout import Cells
from holdfast.storage.rocks.layouts.scan import check_end, get_one, open_cursor, scan_items
from holdfast.topics.filters import ONE, REST, TopicFilter
from holdfast.topics.names import is_dollar

_log = structlog.get_logger()

#: Messages found with one cursor, and their bytes: what a slow subscriber holds in memory.
_PAGE: Final = 100
_PAGE_BYTES: Final = 256 * 1024
_MESSAGES: Final = b"\x01"
_END: Final = b"\x02"
#: Sorts behind the separator and before every byte of a level that is longer: the end of a subtree.
_BEHIND: Final = b"\x01"
#: The first byte that sorts behind every topic that begins with `$`.
_BEHIND_DOLLAR: Final = b"\x01%"
_OWN: Final = b"$SYS/"


class RocksRetained:
    """A `RetainedStore`, and the `Companion` that writes it. Survives: what the log survives.

    1. Numbers (`stored_us` of a record) increase in the order of keeping. What is above `_newest` was written and is
       not committed yet, so nobody sees it.
    """

    def __init__(self, contents: Contents, clock: Clock) -> None:
        self._contents: Final = contents
        self._clock: Final = clock
        stored = get_one(contents.family(RETAINED), COUNT_KEY) or bytes(16)
        self._count = int.from_bytes(stored[:8], "little")
        self._number = self._newest = max(clock.wall_us(), int.from_bytes(stored[8:], "little"))
        #: Numbers of what is written and not committed.
        self._pending: Final[deque[int]] = deque()
        self._expiries: Final = DueKeys(bytes((EXPIRY,)))
        #: The broker's own topics are about this run alone, and never stored.
        self._own: Final = MemoryRetained()
        #: Records that could not be decoded, and were skipped.
        self.unreadable = 0

    # ---- writing

    def add(self, batch: Batch, changes: Changes) -> None:
        kept = [message for message in batch.retained if not message.topic.startswith(_OWN)]
        if not kept:
            return
        puts = changes.into(RETAINED)
        known: dict[bytes, RetainedRecord | None] = {}
        for message in kept:
            topic = message.topic
            before = known[topic] if topic in known else self._record(topic)
            known[topic] = self._replace(message, before, puts)
        self._put_count(puts)

    def _put_count(self, puts: FamilyChanges) -> None:
        puts.put(COUNT_KEY, self._count.to_bytes(8, "little") + self._number.to_bytes(8, "little"))

    def _replace(self, message: Message, before: RetainedRecord | None, puts: FamilyChanges) -> RetainedRecord | None:
        topic = message.topic
        self._number = max(self._number + 1, self._clock.wall_us())
        self._pending.append(self._number)
        if before is not None and before.stored.message.expires_us:
            puts.delete(expiry_key(before.stored.message.expires_us, topic))
        if not message.payload:  # [MQTT-3.3.1-6]
            self._count -= before is not None
            puts.delete(retained_key(topic))
            return None
        self._count += before is None
        record = RetainedRecord(StoredMessage(message, message.position_us, 0), message.shard, self._number)
        puts.put(retained_key(topic), encode_retained(record))
        if message.expires_us:
            key = expiry_key(message.expires_us, topic)
            puts.put(key, b"")
            self._expiries.put(key)
        return record

    def keep(self, message: Message) -> None:
        """The batch that wrote the message is committed: from now on it is found."""
        if message.topic.startswith(_OWN):
            self._own.keep(message)
        else:
            self._newest = self._pending.popleft()

    def sweep(self, now_us: int, limit: int, changes: Changes) -> int:
        """Remove what has expired, at most `limit`; how many. Requires: everything that was taken is written."""
        puts = changes.into(RETAINED)
        gone = 0
        _lo, hi = expired_until(now_us)
        for key in islice(self._expiries.below(self._contents.family(RETAINED), hi, is_written=True), limit):
            gone += 1
            expires_us, topic = expiry_parts(key)
            puts.delete(key)
            record = self._record(topic)
            if record is not None and record.stored.message.expires_us == expires_us:
                puts.delete(retained_key(topic))
                self._count -= 1
        if gone:
            self._put_count(puts)
        return gone

    def erase(self, erasures: Erasures, after: bytes, limit: int, changes: Changes) -> tuple[int, bytes]:
        """Remove what was erased, looking at `limit` records behind a key; how many, and the key to go on behind.

        An empty key is the beginning, and the end.
        Requires: everything that was taken is written.
        """
        puts = changes.into(RETAINED)
        gone = 0
        for looked, (key, value) in enumerate(
            scan_items(self._contents.family(RETAINED), after + b"\x00" if after else _MESSAGES, _END)
        ):
            if looked == limit:
                break
            after = key
            record = self._decode(value)
            if record is None:
                continue
            message = record.stored.message
            if erasures.hides_retained(
                record.shard, record.stored.position_us, record.stored_us, message.topic, message.publisher
            ):
                gone += 1
                puts.delete(key)
                if message.expires_us:
                    puts.delete(expiry_key(message.expires_us, message.topic))
        else:
            after = b""
        if gone:
            self._count -= gone
            self._put_count(puts)
        return gone, after

    # ---- reading

    def get(self, topic: bytes, now_us: int) -> Message | None:
        if topic.startswith(_OWN):
            return self._own.get(topic, now_us)
        return self._visible(self._record(topic), now_us, self._newest)

    def match(self, topic_filter: TopicFilter, now_us: int) -> RetainedScan:
        if topic_filter.levels[0] == b"$SYS":
            return self._own.match(topic_filter, now_us)
        return self.rest(topic_filter, now_us, b"", self._newest)

    def rest(self, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> RetainedScan:
        """The broker's own topics are owed to nobody, and not found here."""
        return RocksScan(self, topic_filter, now_us, after, newest)

    def at(self, topic: bytes, newest: int) -> Message | None:
        """The message of a topic, if it is the one that the change `newest`, or one before it, has left there."""
        return self._visible(self._record(topic), self._clock.wall_us(), newest)

    def newest(self) -> int:
        return self._newest

    def written(self) -> int:
        return self._number

    def count(self) -> int:
        return self._count + self._own.count()

    def cells(self) -> Cells:
        """Where they are stored."""
        return self._contents.family(RETAINED)

    def readable(self, value: bytes | None, now_us: int, newest: int) -> Message | None:
        """The message of a stored record, if there is one to see."""
        return None if value is None else self._visible(self._decode(value), now_us, newest)

    def _record(self, topic: bytes) -> RetainedRecord | None:
        value = get_one(self._contents.family(RETAINED), retained_key(topic))
        return None if value is None else self._decode(value)

    def _decode(self, value: bytes) -> RetainedRecord | None:
        try:
            return decode_retained(value)
        except PermanentError as error:
            self.unreadable += 1
            _log.error("a retained message cannot be read and is skipped", why=str(error))
            return None

    @staticmethod
    def _visible(record: RetainedRecord | None, now_us: int, newest: int) -> Message | None:
        if record is None or record.stored_us > newest or record.stored.message.expired(now_us):
            return None
        return record.stored.message

    def undecodable(self) -> Iterator[bytes]:
        """Topics whose record cannot be read."""
        for key, value in scan_items(self._contents.family(RETAINED), _MESSAGES, _END):
            try:
                decode_retained(value)
            except PermanentError:
                yield retained_topic(key)


class RocksScan:
    """A `RetainedScan` that seeks from one key that can match to the next.

    It holds a page of what it found, and no cursor between two slices: a slow subscriber holds on to nothing.
    """

    def __init__(self, store: RocksRetained, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> None:
        self._store: Final = store
        self._levels: Final = topic_filter.levels
        self._now_us: Final = now_us
        self._newest: Final = newest
        #: What matches, as key and record; and the last key that was visited.
        self._found: Final[deque[tuple[bytes, bytes]]] = deque()
        self._visited = retained_key(after) if after else b""
        #: Where to go on; None at the end.
        self._seek: bytes | None = self._visited + b"\x00" if after else _MESSAGES
        if not topic_filter.wildcard:
            self._seek = None if after else retained_key(topic_filter.inner())
        self._wildcard: Final = topic_filter.wildcard
        self._at = after

    def at(self) -> bytes:
        return self._at

    def over(self) -> bool:
        return not self._found and self._seek is None

    def held(self) -> int:
        """Messages that were found and not returned yet."""
        return len(self._found)

    def next(self, budget: ScanBudget) -> Message | None:
        while True:
            while self._found:
                key, value = self._found.popleft()
                self._at = retained_topic(key)
                message = self._store.readable(value, self._now_us, self._newest)
                if message is not None:
                    return message
            if self._visited:
                self._at = retained_topic(self._visited)
            if self._seek is None or budget.left <= 0:
                return None
            if self._wildcard:
                self._seek = self._visit(self._seek, budget)
            else:
                self._get(self._seek, budget)
                self._seek = None

    def _get(self, key: bytes, budget: ScanBudget) -> None:
        value = get_one(self._store.cells(), key)
        budget.visit(len(key), 0 if value is None else len(value))
        if value is not None:
            self._found.append((key, value))

    def _visit(self, seek: bytes, budget: ScanBudget) -> bytes | None:
        """Visit keys until the budget is spent or a page is found; where to go on, None at the end."""
        cursor = open_cursor(self._store.cells(), _END)
        page_bytes = 0
        cursor.seek(seek)
        while cursor.valid():
            key: bytes = cursor.key()
            jump = next_key(self._levels, key[1:].split(b"\x00"))
            if jump is None:
                return None
            self._visited = key
            behind = key + b"\x00"
            if jump == b"":
                value: bytes = cursor.value()
                page_bytes += len(value)
                budget.visit(len(key), len(value))
                self._found.append((key, value))
                jump = behind
            else:
                budget.visit(len(key))
            if budget.left <= 0 or len(self._found) == _PAGE or page_bytes >= _PAGE_BYTES:
                return jump
            if jump == behind:
                cursor.next()  # half the price of a seek
            else:
                cursor.seek(jump)
        check_end(cursor)
        return None


def next_key(levels: tuple[bytes, ...], topic: list[bytes]) -> bytes | None:
    """Empty if the filter matches the topic; else the next key that it can match, None if there is none.

    Requires: keys are visited in their order.
    """
    if levels[0] in (ONE, REST) and is_dollar(topic[0]):  # [MQTT-4.7.2-1]
        return _BEHIND_DOLLAR
    last_one = -1
    for i, wanted in enumerate(levels):
        if wanted == REST:
            return b""
        if i == len(topic):  # the topic ends too early: look below it
            return _key(topic) + b"\x00" + (b"" if wanted == ONE else wanted)
        if wanted == ONE:
            last_one = i
        elif topic[i] < wanted:
            return _key([*topic[:i], wanted])
        elif topic[i] > wanted:
            return None if last_one < 0 else _key(topic[: last_one + 1]) + _BEHIND
    return b"" if len(topic) == len(levels) else _key(topic[: len(levels)]) + _BEHIND


def _key(topic: list[bytes]) -> bytes:
    return _MESSAGES + b"\x00".join(topic)
