"""Replay: the messages of a filter, from the disk as long as it is behind, from memory when it is near the present.

    RocksDB ……………………………………│ ring ……………………│ durable head
    ──────▶ walk of one shard ──────▶ seamless ──────▶ end, until the head moves

Each shard is walked for itself. A replay by time merges the walks. Any other reads all shards up to the next boundary
of a generation before one of them goes beyond it: new settings may have moved a publisher or a topic to another shard
there, and what was published first is replayed first.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.durable.log import Lost, Page
from holdfast.durable.shard import Shard
from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.records.cursors import Cursor
from holdfast.records.messages import decode_message
from holdfast.storage.rocks.zone_log import ZoneLog
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

if TYPE_CHECKING:
    from holdfast.storage.rocks.reading import Reading

#: Messages of the ring looked at in one go, whether they match or not.
_RING_SCAN: Final = 2_000
#: Records without a match after which a page ends, though it is not full: others want their turn.
_PATIENCE: Final = 20
#: Erased messages that are as good as a record without a match.
_ERASED: Final = 100
#: The first position there can be.
_FIRST_US: Final = 1


class Walk:
    """One shard, one filter.

    1. Everything below `from_us` is done; `from_us` never goes back.
    2. `from_us` is moved past a message only if the message is returned or was erased, and past a dropped range only if
       it is told.
    """

    def __init__(
        self,
        reading: "Reading",
        zone_log: ZoneLog,
        shard: Shard,
        levels: tuple[bytes, ...],
        from_us: int,
        until_us: int,
    ) -> None:
        self._reading: Final = reading
        self._zone_log: Final = zone_log
        self.shard: Final = shard
        self._levels: Final = levels
        self.from_us = max(from_us, _FIRST_US)
        self._until_us: Final = until_us
        #: Values on their way, and where the part of the log that they come from ends.
        self._source: Iterator[bytes] | None = None
        self._source_end_us = 0
        #: Whether the last `next` gave up for now, in the middle of a stretch without a match.
        self.paused = False
        self.lost: list[Lost] = []

    def at_end(self) -> bool:
        return self.from_us >= min(self._until_us, self.shard.head_us + 1)

    def next(self, limit: int, barrier_us: int) -> list[Message]:
        """The next messages below the barrier, at most `limit`. None at all only means the end if `at_end`."""
        self.paused = False
        before_us = min(self._until_us, self.shard.head_us + 1, barrier_us)
        if self._source is None:
            self._skip_dropped(before_us)
            if self.from_us >= before_us:
                return []
            if self.shard.ring.covers(self.from_us):
                return self._from_ring(before_us, limit)
        elif self.from_us >= before_us:
            return []
        return self._from_disk(before_us, limit)

    def let_go(self) -> None:
        """Hold nothing of the store."""
        self._source = None

    def _skip_dropped(self, before_us: int) -> None:
        lost = self._zone_log.lost(self.shard.id, self.from_us, before_us)
        if lost is not None:
            if self.from_us > _FIRST_US:  # whoever wants the earliest there is has not lost what is gone
                self.lost.append(lost)
            self.from_us = max(self.from_us, lost.to_us)

    def _from_ring(self, before_us: int, limit: int) -> list[Message]:
        found: list[Message] = []
        looked = self.shard.ring.read(self.from_us, before_us, _RING_SCAN)
        erasures = self._reading.erasures
        erased = erasures.may_hide(self.shard.id, self.from_us)
        for message in looked:
            if erased and erasures.hides(self.shard.id, message.position_us, message.topic, message.publisher):
                continue
            if matches(self._levels, message.topic):
                found.append(message)
                if len(found) == limit:
                    self.from_us = message.position_us + 1
                    return found
        self.from_us = looked[-1].position_us + 1 if len(looked) == _RING_SCAN else before_us
        return found

    def _from_disk(self, before_us: int, limit: int) -> list[Message]:
        shared = self._reading.pages
        key = (self.shard.id, self._levels, self.from_us)
        known = shared.get(key, limit, before_us) if self._source is None else None
        if known is not None:
            self.from_us = known[-1].position_us + 1 if len(known) == limit else before_us
            return known
        found = self._take(before_us, limit)
        if len(found) == limit:
            shared.put(key, found)
        return found

    def _take(self, before_us: int, limit: int) -> list[Message]:
        if self._source is None:
            before_us = min(before_us, self._zone_log.gap_us(self.from_us))
            self._source = self._reading.values(self._zone_log, self.shard.id, self._levels, self.from_us, before_us)
            self._source_end_us = before_us
        found: list[Message] = []
        try:
            if self._fill(self._source, found, limit):
                self.from_us = self._source_end_us
                self._source = None
        except Exception:
            # A generator that has failed looks like one that is at its end: the next call has to begin anew, from
            # where it came to, and fails again if nothing has changed.
            self._source = None
            if not found:
                raise
        return found

    def _fill(self, source: Iterator[bytes], found: list[Message], limit: int) -> bool:
        """Whether the source is at its end."""
        patience = _PATIENCE
        hidden = 0
        erasures = self._reading.erasures
        for value in source:
            if not value:  # a long stretch without a match
                patience -= 1
                if patience == 0:
                    self.paused = True
                    return False
                continue
            stored = decode_message(value)
            message = stored.message
            message.shard = self.shard.id
            message.position_us = stored.position_us
            self.from_us = stored.position_us + 1
            if erasures.hides(self.shard.id, stored.position_us, message.topic, message.publisher):
                hidden += 1
                if hidden % _ERASED == 0:
                    patience -= 1
                    if patience == 0:
                        self.paused = True
                        return False
                continue
            found.append(message)
            if len(found) == limit:
                return False
        return True


class RocksReplay:
    """A replay over every shard that may hold a match."""

    def __init__(
        self,
        reading: "Reading",
        levels: tuple[bytes, ...],
        cursor: Cursor,
        since_us: int,
        until_us: int,
        *,
        by_time: bool,
    ) -> None:
        self._reading: Final = reading
        self._cursor: Final = cursor
        self._until_us: Final = until_us
        self._by_time: Final = by_time
        self._walks: Final = {
            shard.id: Walk(reading, zone_log, shard, levels, cursor.from_us(shard.id, since_us), until_us)
            for zone_log, shard in reading.shards_of(levels)
        }
        self._turn = 0
        self._last_shard = -1
        #: By time: what was read ahead of a shard and not yet returned.
        self._ahead: Final[dict[int, deque[Message]]] = {}

    def next(self, limit: int) -> Page:
        if limit < 1:
            raise MisuseError(f"a page of {limit} messages was asked for; 1 or more would be right")
        messages = self._merged(limit) if self._by_time else self._in_turn(limit)
        lost = [item for walk in self._walks.values() for item in walk.lost]
        for walk in self._walks.values():
            walk.lost = []
        at_end = not any(self._ahead.values()) and all(walk.at_end() for walk in self._walks.values())
        next_stream = bool(messages) and messages[0].shard != self._last_shard
        if messages:
            self._last_shard = messages[-1].shard
        return Page(messages, at_end=at_end, next_stream=next_stream, lost=lost)

    def _in_turn(self, limit: int) -> list[Message]:
        walks = list(self._walks.values())
        while behind := [walk.from_us for walk in walks if not walk.at_end()]:
            barrier_us = self._reading.boundary_after(min(behind))
            for step in range(len(walks)):
                walk = walks[(self._turn + step) % len(walks)]
                found = walk.next(limit, barrier_us)
                if found:
                    # Stay with a shard while it is full: one scan is cheaper than many short ones.
                    self._turn = (self._turn + step + (len(found) < limit)) % len(walks)
                    return found
            if any(walk.paused for walk in walks):
                break
        return []

    def _merged(self, limit: int) -> list[Message]:
        #: Where the first shard is whose next message is not known: nothing from there on can be placed yet.
        unknown_us = self._until_us
        for number, walk in self._walks.items():
            if not self._ahead.get(number):
                self._ahead[number] = self._read_ahead(walk, limit)
                if not self._ahead[number] and not walk.at_end():
                    unknown_us = min(unknown_us, walk.from_us)
        heap = [(ahead[0].position_us, number) for number, ahead in self._ahead.items() if ahead]
        heapq.heapify(heap)
        found: list[Message] = []
        while heap and len(found) < limit and heap[0][0] < unknown_us:
            _position_us, number = heapq.heappop(heap)
            ahead = self._ahead[number]
            found.append(ahead.popleft())
            if ahead:
                heapq.heappush(heap, (ahead[0].position_us, number))
            elif not self._walks[number].at_end():
                unknown_us = min(unknown_us, self._walks[number].from_us)
        return found

    def _read_ahead(self, walk: Walk, limit: int) -> deque[Message]:
        found: list[Message] = []
        while not found and not walk.at_end():
            found = walk.next(limit, self._reading.boundary_after(walk.from_us))
            if walk.paused:
                break
        return deque(found)

    def cursor(self) -> Cursor:
        done = dict(self._cursor.done)
        for number, walk in self._walks.items():
            ahead = self._ahead.get(number)
            done[number] = (ahead[0].position_us if ahead else walk.from_us) - 1
        return Cursor(self._cursor.zone, done)

    def close(self) -> None:
        self.let_go()
        self._reading.forget(self)

    def let_go(self) -> None:
        """Hold nothing of the store; reading goes on from where it is, with a fresh view."""
        for walk in self._walks.values():
            walk.let_go()


def matches(levels: tuple[bytes, ...], topic: bytes) -> bool:
    """No levels at all match everything, `$`-topics too."""
    return not levels or levels_match(levels, topic.split(SEPARATOR), dollar=is_dollar(topic))
