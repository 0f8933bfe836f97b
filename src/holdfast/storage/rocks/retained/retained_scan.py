"""The scan of retained messages: seeks from one topic that can match to the next.

    plant · + · temp        plant/1/temp ✓   seek plant/1/␁   plant/2/hum ✗   seek plant/2/temp …

Keys are ordered by levels (`records/retained.py`), so a subtree is a range, and whatever cannot match is jumped over:
three microseconds for each jump, and no tree of a million objects in memory.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from holdfast.durable.retained.retained_store import ScanBudget
from holdfast.model.message import Message
from holdfast.records.retained import retained_key, retained_topic
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end, get_one, open_cursor
from holdfast.topics.filters import ONE, REST, TopicFilter
from holdfast.topics.names import is_dollar

#: Messages found with one cursor, and their bytes: what a slow subscriber holds in memory.
_PAGE: Final = 100
_PAGE_BYTES: Final = 256 * 1024
_MESSAGES: Final = b"\x01"
_END: Final = b"\x02"
#: Sorts behind the separator and before every byte of a level that is longer: the end of a subtree.
_BEHIND: Final = b"\x01"
#: The first byte that sorts behind every topic that begins with `$`.
_BEHIND_DOLLAR: Final = b"\x01%"


class ScannedStore(Protocol):
    """What a scan needs of the store; `RocksRetained` fits by shape."""

    def family(self) -> FamilyReader:
        """Where they are stored."""
        ...

    def readable(self, key: bytes, value: bytes | None, now_us: int, newest: int) -> Message | None:
        """The message of a stored record, if there is one to see."""
        ...


class TopicWalk:
    """Rows of a table of retained messages whose topics a filter matches: seeks from one key to the next that can.

    It holds a page of what it found, and no cursor between two reads: a slow subscriber holds on to nothing.
    1. Of the keys up to `visited`, every match is in `found`, or was taken from it.
    """

    def __init__(
        self, family: Callable[[], FamilyReader], topic_filter: TopicFilter, after: bytes, prefix: bytes = b""
    ) -> None:
        """`after` is the topic to begin behind; `prefix` what all keys of the table begin with, which is not shown."""
        self._family: Final = family
        self._prefix: Final = prefix
        self._levels: Final = topic_filter.levels
        self._wildcard: Final = topic_filter.wildcard
        #: What matches, as key and record; and the last key that was visited.
        self.found: Final[deque[tuple[bytes, bytes]]] = deque()
        self.visited = retained_key(after) if after else b""
        #: Where to go on; None at the end.
        self._seek: bytes | None = self.visited + b"\x00" if after else _MESSAGES
        if not topic_filter.wildcard:
            self._seek = None if after else retained_key(topic_filter.inner())

    def at_end(self) -> bool:
        """Whether every key was visited."""
        return self._seek is None

    def read(self, budget: ScanBudget) -> None:
        """Visit keys until the budget is spent, a page is found, or the end is reached. Requires: it is not there."""
        assert self._seek is not None
        if self._wildcard:
            self._seek = self._visit(self._seek, budget)
        else:
            self._get(self._seek, budget)
            self._seek = None

    def _get(self, key: bytes, budget: ScanBudget) -> None:
        value = get_one(self._family(), self._prefix + key)
        budget.visit(len(key), 0 if value is None else len(value))
        if value is not None:
            self.found.append((key, value))

    def _visit(self, seek: bytes, budget: ScanBudget) -> bytes | None:
        """Visit keys until the budget is spent or a page is found; where to go on, None at the end."""
        prefix = self._prefix
        start = len(prefix)
        hi = prefix + _END
        cursor = open_cursor(self._family(), hi)
        page_bytes = 0
        cursor.seek(prefix + seek)
        while cursor.valid():
            key: bytes = cursor.key()[start:]
            jump = next_key(self._levels, key[1:].split(b"\x00"))
            if jump is None:
                return None
            self.visited = key
            behind = key + b"\x00"
            if jump == b"":
                value: bytes = cursor.value()
                page_bytes += len(value)
                budget.visit(len(key), len(value))
                self.found.append((key, value))
                jump = behind
            else:
                budget.visit(len(key))
            if budget.left <= 0 or len(self.found) == _PAGE or page_bytes >= _PAGE_BYTES:
                return jump
            if jump == behind:
                cursor.next()  # half the price of a seek
            else:
                cursor.seek(prefix + jump)
        check_end(cursor)
        return None


class RocksRetainedScan:
    """A `RetainedScan` of one table."""

    def __init__(self, store: ScannedStore, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> None:
        self._store: Final = store
        self._now_us: Final = now_us
        self._newest: Final = newest
        self._walk: Final = TopicWalk(store.family, topic_filter, after)
        self._at = after

    def at(self) -> bytes:
        return self._at

    def over(self) -> bool:
        return not self._walk.found and self._walk.at_end()

    def held(self) -> int:
        """Messages that were found and not returned yet."""
        return len(self._walk.found)

    def next(self, budget: ScanBudget) -> Message | None:
        walk = self._walk
        while True:
            while walk.found:
                key, value = walk.found.popleft()
                self._at = retained_topic(key)
                message = self._store.readable(key, value, self._now_us, self._newest)
                if message is not None:
                    return message
            if walk.visited:
                self._at = retained_topic(walk.visited)
            if walk.at_end() or budget.left <= 0:
                return None
            walk.read(budget)


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
