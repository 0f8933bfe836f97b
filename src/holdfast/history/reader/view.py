"""What can be read: heads, zones and generations of one state, and the parts that follow from them.

A view is plain data. The process that reads the files makes it (`reader.py`) and may send it to another, which finds
the same parts in it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from holdfast.durable.log import NO_END, LostRange
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.generations import Generation
from holdfast.records.lanes import zone_of_lane
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.storage.rocks.log.zone_generations import damaged_range, lost_range

#: A serial that is not known.
UNKNOWN: Final = -1


class DroppedError(PermanentError):
    """Retention dropped a part before it was read."""


class BehindError(TransientError):
    """A node of a cluster has not come so far yet. It will, or another one has."""


class BusyError(TransientError):
    """All readers are in use. One becomes free."""


class ZoneView(NamedTuple):
    """A stored zone. One without filters is the default zone, which has the topics of no other zone."""

    name: str
    filters: tuple[str, ...]
    shards: tuple[int, ...]

    def is_of(self, zone: str) -> bool:
        """Whether it is this zone, or a lane of it."""
        return zone in (self.name, zone_of_lane(self.name))


class Part(NamedTuple):
    """The messages of a shard's generation in [lo_us, hi_us)."""

    zone: str
    shard: int
    generation: int
    lo_us: int
    hi_us: int
    #: The last serial before the part, and the last one in it, where they are known.
    after_serial: int = UNKNOWN
    last_serial: int = UNKNOWN

    def cut(self, at_us: int) -> "tuple[Part, Part]":
        """The part below a position, and the rest."""
        return self._replace(hi_us=at_us, last_serial=UNKNOWN), self._replace(lo_us=at_us, after_serial=UNKNOWN)

    def split(self, count: int) -> "list[Part]":
        """About `count` parts of equal time."""
        parts: list[Part] = []
        rest = self
        step_us = max(1, (self.hi_us - self.lo_us) // max(1, count))
        while len(parts) + 1 < count and rest.lo_us + step_us < rest.hi_us:
            part, rest = rest.cut(rest.lo_us + step_us)
            parts.append(part)
        return [*parts, rest]


@dataclass(frozen=True)
class View:
    """One state of the history."""

    heads: dict[int, Head]
    zones: dict[str, ZoneView]
    #: By zone, oldest first: generations that can be read, and records of dropped ones. In a cluster each has a shard.
    live: dict[str, list[Generation]]
    dropped: dict[str, list[Generation]]
    #: Whether it is that of a node in a cluster. What others have shown, it may have later.
    of_cluster: bool = False

    def check_has(self, shard: int, before_us: int) -> None:
        """BehindError if a shard of a node in a cluster does not reach up to a position yet.

        On a node without a cluster nothing that was shown can be missing: what was asked for is of other data, and
        found to be so when it is read.
        """
        head = self.heads.get(shard)
        end_us = 0 if head is None else head.position_us + 1
        if self.of_cluster and end_us < before_us:
            raise BehindError(
                f"this node of the cluster is behind: it has shard {shard} up to {end_us}, and {before_us} was asked "
                "for; wait until it has caught up, or ask another node"
            )

    def generations(self, zone: str) -> list[Generation]:
        found = self.live.get(zone)
        if found is None:
            raise PermanentError(f"there is no zone {zone!r}; there are {', '.join(sorted(self.live))}")
        return found

    def newest(self, zone: str) -> list[Generation]:
        """The generations that are written to, one for each shard in a cluster; the last one if none is."""
        found = self.generations(zone)
        return [record for record in found if not record.end_us] or found[-1:]

    def zone_of(self, shard: int) -> str:
        for zone in self.zones.values():
            if shard in zone.shards:
                return zone.name
        raise PermanentError(f"there is no shard {shard}; there are {', '.join(map(str, sorted(self.heads)))}")

    def parts(self, since_us: int, until_us: int, zone: str | None) -> list[Part]:
        """Of a zone: with what was loaded into it. PermanentError if there is no such zone."""
        if zone is not None:
            self.generations(zone)
        return [
            part
            for name in sorted(self.zones)
            if zone is None or self.zones[name].is_of(zone)
            for record in self.generations(name)
            for shard in record.shards
            for part in self._parts(name, record, shard, since_us, until_us)
        ]

    def shard_parts(self, shard: int, from_us: int, before_us: int) -> list[Part]:
        zone = self.zone_of(shard)
        records = [record for record in self.generations(zone) if shard in record.shards]
        return [part for record in records for part in self._parts(zone, record, shard, from_us, before_us)]

    def lost(self, shard: int, from_us: int, before_us: int) -> LostRange | None:
        zone = self.zone_of(shard)
        live = [record for record in self.live[zone] if shard in record.shards]
        dropped = lost_range(live, self.dropped[zone], shard, from_us, before_us)
        damaged = self.damaged(shard, from_us, before_us)
        if dropped is None or damaged is None:
            return dropped or damaged
        return LostRange(shard, dropped.from_us, damaged.to_us, dropped.at_most + damaged.at_most)

    def damaged(self, shard: int, from_us: int, before_us: int) -> LostRange | None:
        """What is lost of [from, before) in a shard because pages are damaged."""
        return damaged_range(self.live[self.zone_of(shard)], shard, from_us, before_us)

    def _parts(self, zone: str, record: Generation, shard: int, since_us: int, until_us: int) -> list[Part]:
        """Of one generation: what is lost lies between its parts."""
        part = self._part(zone, record, shard, since_us, until_us)
        if part is None:
            return []
        found: list[Part] = []
        for lost in record.lost_pages(shard):
            if lost.last_us < part.lo_us or lost.first_us >= part.hi_us:
                continue
            found.append(part._replace(hi_us=lost.first_us, last_serial=lost.first_serial - 1))
            part = part._replace(lo_us=lost.last_us + 1, after_serial=lost.last_serial())
        return [one for one in [*found, part] if one.lo_us < one.hi_us]

    def _part(self, zone: str, record: Generation, shard: int, since_us: int, until_us: int) -> Part | None:
        head = self.heads.get(shard)
        if head is None:
            return None
        end_us = head.position_us + 1
        last_serial = head.serial
        if record.end_us and record.end_us <= end_us:
            end_us = record.end_us
            last_serial = record.last_serials[record.shards.index(shard)]
        lo_us = max(record.start_us, since_us)
        hi_us = min(end_us, until_us)
        if lo_us >= hi_us:
            return None
        after_serial = self.serial_before(zone, record, shard) if lo_us == record.start_us else UNKNOWN
        return Part(zone, shard, record.number, lo_us, hi_us, after_serial, last_serial if hi_us == end_us else UNKNOWN)

    def serial_before(self, zone: str, record: Generation, shard: int) -> int:
        earlier = [*self.dropped[zone], *self.live[zone]]
        before = [other for other in earlier if other.number < record.number]
        if record.number > 1 and not before:
            return UNKNOWN
        return max([0, *[other.last_serials[other.shards.index(shard)] for other in before if shard in other.shards]])


class ViewReader(ABC):
    """The base of readers of files and of Flight: they show one state until `refresh`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def view(self) -> View:
        """The state that it shows, as data: also for clients that cannot read the files."""

    @property
    def is_of_cluster(self) -> bool:
        """Whether it is that of a node in a cluster: its zones are in parts, and it may be behind other nodes."""
        return self.view().of_cluster

    def heads(self) -> dict[int, Head]:
        """The durable head of every shard."""
        return dict(self.view().heads)

    def zones(self) -> list[ZoneView]:
        seen = self.view()
        return [seen.zones[name] for name in sorted(seen.zones)]

    def generations(self, zone: str) -> list[Generation]:
        """Generations that can be read, oldest first."""
        return list(self.view().generations(zone))

    def parts(self, since_us: int = 0, until_us: int = NO_END, zone: str | None = None) -> list[Part]:
        """All parts with since <= position < until, by generation, oldest first in each zone."""
        return self.view().parts(since_us, until_us, zone)

    def shard_parts(self, shard: int, from_us: int, before_us: int) -> list[Part]:
        """The same for one shard."""
        return self.view().shard_parts(shard, from_us, before_us)

    def lost(self, shard: int, from_us: int, before_us: int) -> LostRange | None:
        """What retention dropped of [from, before) in a shard, and what is lost because pages are damaged."""
        return self.view().lost(shard, from_us, before_us)
