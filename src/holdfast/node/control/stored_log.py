"""What a node's log holds, in numbers: messages and generations by zone, and bounds of what sessions are owed.

Nothing is read from the disk: heads, and the records of generations with their serials, are in memory. Serials of a
shard are dense, so a difference of two serials is a number of messages.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from holdfast.records.generations import Generation
from holdfast.records.lanes import is_lane, zone_of_lane

#: Places of a shard that are remembered, to tell how many messages lie behind a position.
_MAX_PLACES: Final = 1000


class StoredShard(NamedTuple):
    """A shard, as the log knows it."""

    zone: str
    id: int
    head_us: int
    head_serial: int
    #: Of its zone, oldest first: those that can be read, and those that retention dropped last.
    live: list[Generation]
    dropped: list[Generation]

    def ends(self) -> list[tuple[int, int]]:
        """The last position and serial of each generation that is sealed, oldest first."""
        return [
            (record.end_us - 1, record.last_serial(self.id))
            for record in [*self.dropped, *self.live]
            if record.end_us and self.id in record.shards
        ]

    def messages(self) -> int:
        """Messages that can be read; at most so many if there is no record of the generation before the first."""
        first_us = min([record.start_us for record in self.live if self.id in record.shards], default=self.head_us + 1)
        before = max([serial for end_us, serial in self.ends() if end_us < first_us], default=0)
        return max(0, self.head_serial - before)


class ZoneNumbers(NamedTuple):
    """A zone with what was loaded into it."""

    messages: int
    generations: int
    #: When its oldest generation begins, µs; 0 if it has none.
    oldest_us: int
    #: Messages that were stored and are not there any more; at least so many, as `messages` is at most.
    dropped: int = 0


class _Places:
    """Positions of one shard with their serials; both increase."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.serials: list[int] = []

    def take(self, places: list[tuple[int, int]]) -> None:
        known = dict(zip(self.positions, self.serials, strict=True))
        known.update(places)
        found = sorted(known.items())
        if len(found) > _MAX_PLACES:  # every second one, so that the whole range stays known
            found = [*found[:-1:2], found[-1]]
        self.positions = [position for position, _serial in found]
        self.serials = [serial for _position, serial in found]

    def behind(self, position_us: int) -> int:
        """At most so many messages lie behind a position."""
        at = bisect_right(self.positions, position_us)
        return max(0, self.serials[-1] - (self.serials[at - 1] if at else 0)) if self.serials else 0


class StoredLog:
    """The log of a node; `shards` gives its shards as they are now."""

    def __init__(self, shards: Callable[[], Iterable[StoredShard]]) -> None:
        self._shards: Final = shards
        #: By shard: places of the log whose position and serial are known, the oldest first, and the head as the last.
        self._places: Final[dict[int, _Places]] = {}

    def zones(self) -> dict[str, ZoneNumbers]:
        """By zone of the settings, and of earlier settings as long as there are messages of it."""
        messages: dict[str, int] = {}
        generations: dict[str, set[tuple[str, int]]] = {}
        oldest_us: dict[str, int] = {}
        dropped: dict[str, int] = {}
        for shard in self._shards():
            zone = zone_of_lane(shard.zone)
            there = shard.messages()
            messages[zone] = messages.get(zone, 0) + there
            dropped[zone] = dropped.get(zone, 0) + shard.head_serial - there
            found = generations.setdefault(zone, set())
            for record in shard.live:
                found.add((shard.zone, record.number))
                oldest_us[zone] = min(oldest_us.get(zone, record.start_us), record.start_us)
        return {
            zone: ZoneNumbers(count, len(generations[zone]), oldest_us.get(zone, 0), dropped[zone])
            for zone, count in messages.items()
        }

    def refresh(self) -> None:
        """Look where the heads are. Bounds are as of the last look, and become better with each."""
        for shard in self._shards():
            if not is_lane(shard.zone):  # what was loaded is owed to no session
                places = self._places.setdefault(shard.id, _Places())
                places.take([*shard.ends(), (shard.head_us, shard.head_serial)])

    def owed_at_most(self, sent: Mapping[int, int]) -> int:
        """At most how many messages a session is owed that was sent everything up to a position of each shard."""
        return sum(places.behind(sent.get(shard, 0)) for shard, places in self._places.items())
