"""Retained messages on RocksDB: the last message of each topic, in the commit that replaced the one before."""

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

from holdfast.durable.changes import Changes, FamilyChanges
from holdfast.durable.commit import Batch
from holdfast.durable.erasures import Erasures
from holdfast.durable.retained.memory_retained import MemoryRetained
from holdfast.durable.retained.retained_store import RetainedScan
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
from holdfast.storage.rocks.engine.column_families import RETAINED, ColumnFamilies
from holdfast.storage.rocks.engine.due_keys import DueKeys
from holdfast.storage.rocks.engine.scan import FamilyReader, get_one, scan_items
from holdfast.storage.rocks.retained.retained_scan import RocksRetainedScan
from holdfast.storage.rocks.retained.unreadable_records import UnreadableRecords
from holdfast.topics.filters import TopicFilter

_MESSAGES: Final = b"\x01"
_END: Final = b"\x02"
_OWN: Final = b"$SYS/"


class RocksRetained:
    """A `RetainedStore`, and the `Companion` that writes it. Survives: what the log survives.

    1. Numbers (`stored_us` of a record) increase in the order of keeping. What is above `_newest` was written and is
       not committed yet, so no subscriber sees it.
    """

    def __init__(self, contents: ColumnFamilies, clock: Clock) -> None:
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
        self._unreadable: Final = UnreadableRecords()

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
        scan = partial(scan_items, self._contents.family(RETAINED))
        for key in islice(self._expiries.below(scan, hi, is_written=True), limit):
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
            record = self._decode(key, value)
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
        """The broker's own topics are owed to no client, and not found here."""
        return RocksRetainedScan(self, topic_filter, now_us, after, newest)

    def at(self, topic: bytes, newest: int) -> Message | None:
        """The message of a topic, if it is the one that the change `newest`, or one before it, has left there."""
        return self._visible(self._record(topic), self._clock.wall_us(), newest)

    def newest(self) -> int:
        return self._newest

    def written(self) -> int:
        return self._number

    def count(self) -> int:
        return self._count + self._own.count()

    def family(self) -> FamilyReader:
        """Where they are stored."""
        return self._contents.family(RETAINED)

    def readable(self, key: bytes, value: bytes | None, now_us: int, newest: int) -> Message | None:
        """The message of a stored record, if there is one to see."""
        return None if value is None else self._visible(self._decode(key, value), now_us, newest)

    def _record(self, topic: bytes) -> RetainedRecord | None:
        key = retained_key(topic)
        value = get_one(self._contents.family(RETAINED), key)
        return None if value is None else self._decode(key, value)

    def _decode(self, key: bytes, value: bytes) -> RetainedRecord | None:
        try:
            return decode_retained(value)
        except PermanentError as error:
            self._unreadable.note(0, key, str(error))
            return None

    @staticmethod
    def _visible(record: RetainedRecord | None, now_us: int, newest: int) -> Message | None:
        if record is None or record.stored_us > newest or record.stored.message.expired(now_us):
            return None
        return record.stored.message

    @property
    def unreadable(self) -> int:
        """Records that could not be decoded since the start, and were skipped."""
        return self._unreadable.count()

    def undecodable(self) -> Iterator[bytes]:
        """Topics whose record cannot be read."""
        for key, value in scan_items(self._contents.family(RETAINED), _MESSAGES, _END):
            try:
                decode_retained(value)
            except PermanentError:
                yield retained_topic(key)
