"""What readers of the log share: which shards a filter concerns, values of a range, pages that others read before."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final
from weakref import WeakSet

from holdfast.durable.erasures import Erasures, no_erasures
from holdfast.durable.log import FOR_EVER
from holdfast.durable.shard import Shard
from holdfast.durable.zones import Zones
from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.records.cursors import Cursor
from holdfast.records.lanes import is_lane
from holdfast.records.messages import decode_message
from holdfast.storage.rocks.contents import Contents
from holdfast.storage.rocks.replay import RocksReplay, Walk
from holdfast.storage.rocks.zone_log import ZoneLog

#: The zone of a cursor that is over all zones. No zone can be named so.
EVERY_ZONE: Final = "*"
#: Memory for pages that several readers may want.
_PAGES_BYTES: Final = 32 * 1024 * 1024
_MESSAGE_BYTES: Final = 600

PageKey = tuple[int, tuple[bytes, ...], int]


class Pages:
    """Pages that were read last: whoever follows in the steps of another reader finds them here.

    1. A page holds every match of its shard and filter from its first position up to its last message.
    2. Nobody else has its list: it is copied on the way in and on the way out.
    3. `size_bytes` is at most the limit.
    """

    def __init__(self, max_bytes: int = _PAGES_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._pages: Final[OrderedDict[PageKey, list[Message]]] = OrderedDict()
        self.size_bytes = 0
        self.hits = 0

    def get(self, key: PageKey, limit: int, before_us: int) -> list[Message] | None:
        """`limit` messages, or fewer if that is all there is below `before_us`; None if that is not known."""
        page = self._pages.get(key)
        if page is None or (len(page) < limit and page[-1].position_us < before_us):
            return None
        self._pages.move_to_end(key)
        self.hits += 1
        found = page[:limit]
        while found and found[-1].position_us >= before_us:
            found.pop()
        return found

    def put(self, key: PageKey, messages: list[Message]) -> None:
        """Requires: at least one message; the key's filter and first position are theirs."""
        old = self._pages.pop(key, None)
        if old is not None:
            self.size_bytes -= _weight(old)
        page = old if old is not None and len(old) > len(messages) else list(messages)
        self._pages[key] = page
        self.size_bytes += _weight(page)
        while self.size_bytes > self._max_bytes:
            _key, oldest = self._pages.popitem(last=False)
            self.size_bytes -= _weight(oldest)

    def clear(self) -> None:
        self._pages.clear()
        self.size_bytes = 0


class Reading:
    """The reading side of the log; a `MessageLog`."""

    def __init__(self, families: Contents, zones: Zones, zone_logs: list[ZoneLog]) -> None:
        self._families: Final = families
        self._zones: Final = zones
        self._zone_logs: Final = list(zone_logs)
        #: The same without lanes: what was loaded is owed to nobody.
        self.published: Final = PublishedShards(self)
        self._replays: Final[WeakSet[RocksReplay]] = WeakSet()
        self._walks: Final[WeakSet[Walk]] = WeakSet()
        self.pages: Final = Pages()
        #: What nobody is shown any more.
        self.erasures = no_erasures()

    def hide(self, erasures: Erasures) -> None:
        """From now on nobody is shown what was erased: what was read ahead is forgotten."""
        self.erasures = erasures
        self.revoke()

    def start_replay(
        self, levels: tuple[bytes, ...], since_us: int, until_us: int = FOR_EVER, *, by_time: bool = False
    ) -> RocksReplay:
        return self.resume(levels, Cursor(EVERY_ZONE, {}), since_us, until_us, by_time=by_time)

    def resume(
        self,
        levels: tuple[bytes, ...],
        cursor: Cursor,
        since_us: int,
        until_us: int = FOR_EVER,
        *,
        by_time: bool = False,
    ) -> RocksReplay:
        replay = RocksReplay(self, levels, cursor, since_us, until_us, by_time=by_time)
        self._replays.add(replay)
        return replay

    def head_us(self, shard: int) -> int:
        for zone_log in self._zone_logs:
            if shard in zone_log.shards:
                return zone_log.shards[shard].head_us
        return 0

    def at(self, shard: int, levels: tuple[bytes, ...], position_us: int) -> Message | None:
        """The message at a place, if the filter matches it and it is still there."""
        for zone_log in self._zone_logs:
            if shard in zone_log.shards:
                for value in self.values(zone_log, shard, levels, position_us, position_us + 1):
                    if value:
                        message = decode_message(value).message
                        message.shard = shard
                        message.position_us = position_us
                        hidden = self.erasures.hides(shard, position_us, message.topic, message.publisher)
                        return None if hidden else message
        return None

    # ---- for sessions

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        """The shards that may hold a match."""
        return [shard.id for _zone_log, shard in self.shards_of(levels)]

    def walk(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> Walk:
        """A walk through one shard, as far as its reader says."""
        for zone_log in self._zone_logs:
            if shard in zone_log.shards:
                walk = Walk(self, zone_log, zone_log.shards[shard], levels, from_us, FOR_EVER)
                self._walks.add(walk)
                return walk
        raise MisuseError(f"there is no shard {shard}")

    # ---- for replays

    def shards_of(self, levels: tuple[bytes, ...]) -> list[tuple[ZoneLog, Shard]]:
        """The shards that may hold a match."""
        return [
            (zone_log, shard)
            for zone_log in self._zone_logs
            if not levels or not zone_log.is_true_to_filters() or self._zones.may_hold(zone_log.zone, levels)
            for shard in zone_log.shards.values()
        ]

    def boundary_after(self, position_us: int) -> int:
        """The first position above at which a generation of any zone begins or ends."""
        found_us = FOR_EVER
        for zone_log in self._zone_logs:
            for generation in zone_log.live:
                record = generation.record
                if position_us < record.start_us < found_us:
                    found_us = record.start_us
                elif position_us < record.end_us < found_us:
                    found_us = record.end_us
        return found_us

    def values(
        self, zone_log: ZoneLog, shard: int, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[bytes]:
        """Encoded messages in order; an empty one now and then while nothing matches."""
        for piece, from_us, before_us in zone_log.pieces(shard, lo_us, hi_us):
            yield from piece.layout.read(self._families.family(piece.family), levels, from_us, before_us)

    def add_zone(self, zone_log: ZoneLog) -> None:
        self._zone_logs.append(zone_log)

    def forget(self, replay: RocksReplay) -> None:
        self._replays.discard(replay)

    def revoke(self) -> None:
        """A generation goes: no reader may hold on to it, or its disk space stays."""
        self.pages.clear()
        for replay in self._replays:
            replay.let_go()
        for walk in self._walks:
            walk.let_go()


class PublishedShards:
    """The log as sessions follow it; a `ShardLog` by shape."""

    def __init__(self, reading: Reading) -> None:
        self._reading: Final = reading

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        return [shard.id for zone_log, shard in self._reading.shards_of(levels) if not is_lane(zone_log.zone.name)]

    def walk(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> Walk:
        return self._reading.walk(shard, levels, from_us)


def _weight(messages: list[Message]) -> int:
    return sum([_MESSAGE_BYTES + len(message.payload) + len(message.properties) for message in messages])
