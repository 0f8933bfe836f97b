"""The scan of one shard for one filter: from the disk while it is behind, from memory when it is near the present.

RocksDB ……………………………………│ ring ……………………│ durable head
──────▶ values of a layout ─────▶ seamless ──────▶ end, until the head moves
"""

from collections.abc import Iterator
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from holdfast.durable.erasures import Erasures
from holdfast.durable.log import LostRange
from holdfast.durable.ring import Ring
from holdfast.model.message import Message
from holdfast.storage.rocks.log.page_cache import PageCache
from holdfast.storage.rocks.log.zone_generations import ZoneGenerations
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

#: Messages of the ring looked at in one go, whether they match or not.
_RING_SCAN: Final = 2_000
#: Records without a match after which a page ends, though it is not full: other readers get their turn.
_PATIENCE: Final = 20
#: Bytes of topics, payloads and properties after which a page ends, though it is not full.
_MAX_PAGE_BYTES: Final = 1 << 20
#: Erased messages that are as good as a record without a match.
_ERASED: Final = 100
#: The first position there can be.
_FIRST_US: Final = 1


class ScannedShard(Protocol):
    """What scans need of a shard; `Shard` fits by shape."""

    @property
    def id(self) -> int: ...

    @property
    def ring(self) -> Ring: ...

    @property
    def head_us(self) -> int:
        """The last position that may be read."""
        ...


class ScannedLog(Protocol):
    """What scans need of the log; `RocksLogReader` fits by shape."""

    pages: PageCache
    #: What no reader is shown.
    erasures: Erasures

    def messages(
        self, zone_log: ZoneGenerations, shard: int, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[list[Message]]:
        """Messages in order, some at a time; none now and then while nothing matches."""
        ...


@mypyc_attr(native_class=False)  # a log has weak references to its scans, and compiled classes take none
class RocksShardScan:
    """A `ShardScan` by shape.

    1. Everything below `from_us` is done; `from_us` never goes back.
    2. `from_us` is moved past a message only if the message is returned or was erased, and past a dropped range only if
       it is told.
    """

    def __init__(
        self,
        log: ScannedLog,
        zone_log: ZoneGenerations,
        shard: ScannedShard,
        levels: tuple[bytes, ...],
        from_us: int,
    ) -> None:
        self._log: Final = log
        self._zone_log: Final = zone_log
        self.shard: Final = shard
        self._levels: Final = levels
        self.from_us = max(from_us, _FIRST_US)
        #: Whether it began with the earliest, and has passed nothing yet but what is gone.
        self._at_earliest = from_us < _FIRST_US
        #: Messages on their way, and where the part of the log that they come from ends.
        self._source: Iterator[list[Message]] | None = None
        self._source_end_us = 0
        #: Messages of the source that were read, and for which there was no room yet.
        self._read_ahead: list[Message] = []
        #: Whether the source is made again for each call rather than kept.
        self._reopens_cheaply = False
        self.lost: list[LostRange] = []

    def next(self, limit: int, before_us: int) -> list[Message]:
        before_us = min(self.shard.head_us + 1, before_us)
        if self._source is None:
            self._skip_dropped(before_us)
            if self.from_us >= before_us:
                return []
            self._at_earliest = False
            if self.shard.ring.covers(self.from_us):
                return self._from_ring(before_us, limit)
        elif self.from_us >= before_us:
            return []
        return self._from_disk(before_us, limit)

    def let_go(self) -> None:
        """Hold nothing of the store."""
        self._source = None
        self._read_ahead = []

    def _skip_dropped(self, before_us: int) -> None:
        lost = self._zone_log.lost(self.shard.id, self.from_us, before_us)
        if lost is not None:
            if not self._at_earliest:  # a reader that wants the earliest there is has not lost what is gone
                self.lost.append(lost)
            self.from_us = max(self.from_us, lost.to_us)

    def _from_ring(self, before_us: int, limit: int) -> list[Message]:
        found: list[Message] = []
        looked = self.shard.ring.read(self.from_us, before_us, _RING_SCAN)
        erasures = self._log.erasures
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
        shared = self._log.pages
        key = (self.shard.id, self._levels, self.from_us)
        known = shared.get(key, limit, before_us) if self._source is None else None
        if known is not None:
            self.from_us = known[-1].position_us + 1 if len(known) == limit else before_us
            return known
        found = self._take(before_us, limit)
        if len(found) == limit:
            shared.put(key, found)
        if self._reopens_cheaply and found:
            # Not while nothing is found: `from_us` has not moved then, and the next call would look at the same again.
            self.let_go()
        return found

    def _take(self, before_us: int, limit: int) -> list[Message]:
        if self._source is None:
            before_us = min(before_us, self._zone_log.gap_us(self.shard.id, self.from_us))
            self._source = self._log.messages(self._zone_log, self.shard.id, self._levels, self.from_us, before_us)
            self._source_end_us = before_us
            pieces = self._zone_log.pieces(self.shard.id, self.from_us, before_us)
            self._reopens_cheaply = all(piece.layout.reopens_cheaply for piece, _lo_us, _hi_us in pieces)
        found: list[Message] = []
        try:
            if self._fill(self._source, found, limit):
                self.from_us = self._source_end_us
                self.let_go()
        except Exception:
            # A generator that has failed looks like one that is at its end: the next call begins again, from where
            # this one came to, and fails again if nothing has changed.
            self.let_go()
            if not found:
                self._suspect(before_us)
                raise
        return found

    def _suspect(self, before_us: int) -> None:
        """Have the commit pages looked at that may have failed: those that cannot be read are left out."""
        for piece, _lo_us, _hi_us in self._zone_log.pieces(self.shard.id, self.from_us, before_us):
            piece.suspect()

    def _fill(self, source: Iterator[list[Message]], found: list[Message], limit: int) -> bool:
        """Whether the source is at its end."""
        patience = _PATIENCE
        hidden = 0
        size_bytes = 0
        while True:
            try:
                read = self._read_ahead or next(source)
            except StopIteration:
                return True
            self._read_ahead = []
            if not read:  # a long stretch without a match
                patience -= 1
            else:
                hidden += self._take_shown(read, found, limit)
                if hidden >= _ERASED:
                    hidden = 0
                    patience -= 1
                for message in read:
                    size_bytes += len(message.topic) + len(message.payload) + len(message.properties)
                if len(found) == limit or size_bytes >= _MAX_PAGE_BYTES:
                    return False
            if patience == 0:
                return False

    def _take_shown(self, read: list[Message], found: list[Message], limit: int) -> int:
        """Add what was not erased, up to the limit; how many were erased. What is left is kept for later."""
        room = limit - len(found)
        if not self._log.erasures.may_hide(self.shard.id, read[0].position_us):
            taken = read[:room]
            found.extend(taken)
            self.from_us = taken[-1].position_us + 1
            self._read_ahead = read[room:]
            return 0
        hidden = 0
        hides = self._log.erasures.hides
        for number, message in enumerate(read):
            if room == 0:
                self._read_ahead = read[number:]
                break
            self.from_us = message.position_us + 1
            if hides(self.shard.id, message.position_us, message.topic, message.publisher):
                hidden += 1
            else:
                found.append(message)
                room -= 1
        return hidden


def matches(levels: tuple[bytes, ...], topic: bytes) -> bool:
    """No levels at all match everything, `$`-topics too."""
    return not levels or levels_match(levels, topic.split(SEPARATOR), dollar=is_dollar(topic))
