"""Zones: which topics share which storage settings, and which shard takes a publisher's messages.

    [zone machines]   plant/+/press/#     2 shards     ids 1 2
    [zone audit]      audit/#             1 shard      id  3
    default           everything else     1 shard      id  0

A zone's filter means topics as clients write them. Clients of a listener with the mount point `tenant-a/` publish to
`plant/7/press/temp` and the node sees `tenant-a/plant/7/press/temp`; so a filter stands for itself, and for itself
behind every mount point. Whether two zones overlap, and which zone takes a topic, are decided on one list of filters.

1. A topic matches the filters of one zone at most: zones that overlap are refused.
2. The default zone takes what no other zone names, `$`-topics too. It has no filters and cannot overlap.
3. `$SYS` is never stored, whatever a zone says.
4. Shard ids are unique across zones. A zone keeps the ids it was ever given, in their order; no other zone gets them.
5. The same publisher comes to the same shard of a zone, on every node and after every restart, as long as the number of
   shards stays.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Final
from zlib import crc32

from holdfast.model.errors import MisuseError, PeerError, SettingsError
from holdfast.topics.filters import levels_match, parse_filter
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.overlap import overlap

FSYNC: Final = "fsync"
OS: Final = "os"
MEMORY: Final = "memory"
DURABILITIES: Final = (FSYNC, OS, MEMORY)

#: Shard ids are two bytes on disk.
MAX_SHARDS: Final = 0x10000
#: Zone names stand in keys, cursors and on command lines.
MAX_NAME_BYTES: Final = 64
_NAME_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

#: Topics whose zone is remembered, at most; of each half (see `Zones.of`).
_HALF: Final = 8192
#: Longer topics are looked up each time: remembering them would let a client fill the memory with names.
_MAX_CACHED_TOPIC_BYTES: Final = 512

_SYS: Final = b"$SYS"
_SYS_BELOW: Final = b"$SYS/"
_SYS_LEVELS: Final = (b"$SYS", b"#")

_WEEK_S: Final = 7 * 24 * 3600


@dataclass(frozen=True, eq=False, repr=False)
class Zone:
    """Storage settings of some topics. 0 as a bound means that there is none."""

    name: str
    filters: tuple[tuple[bytes, ...], ...] = ()
    _: KW_ONLY
    shards: int = 1
    durability: str = FSYNC
    layout: str = "paged"
    #: Children of a level from which on it is varying, by depth; empty: as the layout has it.
    thresholds: tuple[int, ...] = ()
    retention_s: int = _WEEK_S
    retention_bytes: int = 0
    #: How long or large a generation may become; 0: chosen from the retention.
    generation_s: int = 0
    generation_bytes: int = 0
    #: How often what was learnt is looked at (0: never), and how much better a new generation has to be (0 to 1).
    optimize_interval_s: int = 600
    optimize_gain: float = 0.5
    store: bool = True
    store_qos0: bool = False
    #: Whether live subscribers get QoS 1 messages before the commit.
    deliver_early: bool = False

    def check(self) -> None:
        """SettingsError if a setting is impossible, whatever the other zones are."""
        if not self.name or len(self.name) > MAX_NAME_BYTES or self.name.strip(_NAME_CHARACTERS):
            raise SettingsError(
                f"zone name {self.name!r}: 1 to {MAX_NAME_BYTES} letters, digits, '_', '-' and '.' are allowed"
            )
        if not 1 <= self.shards <= MAX_SHARDS:
            raise SettingsError(f"zone {self.name!r} has {self.shards} shards; it needs 1 to {MAX_SHARDS}")
        if self.durability not in DURABILITIES:
            known = ", ".join(DURABILITIES)
            raise SettingsError(f"zone {self.name!r} has durability {self.durability!r}; it must be one of {known}")
        bounds = (self.retention_s, self.retention_bytes, self.generation_s, self.generation_bytes)
        if min(*bounds, self.optimize_interval_s) < 0:
            raise SettingsError(f"zone {self.name!r} has a bound below 0; 0 means none")
        if self.thresholds and min(self.thresholds) < 1:
            raise SettingsError(f"zone {self.name!r} has a threshold below 1; a level has at least one child")

    def __repr__(self) -> str:
        return f"Zone({self.name!r}, {', '.join(show(levels) for levels in self.filters)})"


#: Where `$SYS` goes: nowhere.
UNSTORED: Final = Zone("$SYS", (_SYS_LEVELS,), durability=MEMORY, store=False)


def show(levels: tuple[bytes, ...]) -> str:
    return SEPARATOR.join(levels).decode()


def parse_zone_filter(text: str) -> tuple[bytes, ...]:
    """The levels of a zone's filter; SettingsError if it is none."""
    try:
        found = parse_filter(text.encode())
    except PeerError as wrong:
        raise SettingsError(f"zone filter {text!r}: {wrong.detail}") from wrong
    if found.group or found.since:
        raise SettingsError(f"zone filter {text!r}: $share and $replay are for subscriptions; name the topics alone")
    return found.levels


def assign_shards(stored: dict[str, tuple[int, ...]], wanted: list[Zone]) -> dict[str, tuple[int, ...]]:
    """The ids of every zone there is or ever was, given what is stored; new ones are the next free.

    A zone that wants fewer shards than before keeps its ids: older generations use them. So does one that is gone.
    """
    assigned = dict(stored)
    free = 0
    for ids in stored.values():
        if ids:
            free = max(free, max(ids) + 1)
    for zone in wanted:
        own = assigned.get(zone.name, ())
        missing = zone.shards - len(own)
        if missing > 0:
            if free + missing > MAX_SHARDS:
                raise SettingsError(
                    f"zone {zone.name!r} needs {missing} more shards, and only {MAX_SHARDS - free} shard ids are free"
                )
            assigned[zone.name] = own + tuple(range(free, free + missing))
            free += missing
    return assigned


class Zones:
    """All zones of a node. See the rules above."""

    def __init__(
        self,
        zones: list[Zone],
        default: Zone,
        mounts: list[bytes],
        assigned: dict[str, tuple[int, ...]],
    ) -> None:
        """`mounts` are the listeners' mount points, each ending with `/`; `assigned` comes from `assign_shards`."""
        self.default: Final = default
        self.all: Final = [default, *zones]
        #: Every filter, for itself and behind every mount point, with its zone.
        self._seen: Final[list[tuple[tuple[bytes, ...], Zone]]] = []
        self._shard_ids: Final[dict[str, tuple[int, ...]]] = {}
        self._young: dict[bytes, Zone] = {}
        self._old: dict[bytes, Zone] = {}
        if default.filters:
            raise SettingsError(f"the default zone {default.name!r} has filters; it takes what no other zone names")
        for zone in self.all:
            zone.check()
            if zone.name in self._shard_ids:
                raise SettingsError(f"two zones are named {zone.name!r}")
            ids = assigned.get(zone.name, ())[: zone.shards]
            if len(ids) < zone.shards:
                raise MisuseError(f"zone {zone.name!r} has {zone.shards} shards and {len(ids)} shard ids")
            self._shard_ids[zone.name] = ids
        for zone in zones:
            self._add_filters(zone, mounts)

    def _add_filters(self, zone: Zone, mounts: list[bytes]) -> None:
        if not zone.filters:
            raise SettingsError(f"zone {zone.name!r} has no filter; only the default zone has none")
        added: list[tuple[bytes, ...]] = []
        for mount in mounts:
            if not mount.endswith(SEPARATOR):
                raise MisuseError(f"mount point {mount!r} is not whole levels of a topic: it has to end with /")
        for levels in zone.filters:
            if overlap(levels, _SYS_LEVELS):
                raise SettingsError(f"zone {zone.name!r}: filter {show(levels)!r} names $SYS, which is never stored")
            for mount in [b"", *mounts]:
                seen = tuple(mount.split(SEPARATOR)[:-1]) + levels if mount else levels
                if seen not in added:
                    added.append(seen)
        for seen in added:
            for other, owner in self._seen:
                if overlap(seen, other):
                    raise SettingsError(
                        f"zones {owner.name!r} and {zone.name!r} overlap: some topics match both {show(other)!r} "
                        f"and {show(seen)!r} (filters are seen behind every mount point too)"
                    )
        self._seen.extend([(seen, zone) for seen in added])

    def of(self, topic: bytes) -> Zone:
        """The zone that takes a topic, as the node sees it: with its mount point."""
        zone = self._young.get(topic)
        if zone is not None:
            return zone
        zone = self._old.get(topic)
        if zone is None:
            zone = self._find(topic)
            # Without filters there is nothing to match, and so nothing to remember.
            if not self._seen or len(topic) > _MAX_CACHED_TOPIC_BYTES:
                return zone
        if len(self._young) >= _HALF:
            self._old = self._young
            self._young = {}
        self._young[topic] = zone
        return zone

    def _find(self, topic: bytes) -> Zone:
        dollar = is_dollar(topic)
        if dollar and (topic == _SYS or topic.startswith(_SYS_BELOW)):
            return UNSTORED
        if not self._seen:
            return self.default
        levels = topic.split(SEPARATOR)
        for seen, zone in self._seen:
            if levels_match(seen, levels, dollar=dollar):
                return zone
        return self.default

    def may_hold(self, zone: Zone, levels: tuple[bytes, ...]) -> bool:
        """Whether a topic that matches a filter may be in the zone: a zone that was not always here may hold more."""
        filters = [seen for seen, owner in self._seen if owner is zone]
        return not filters or any(overlap(seen, levels) for seen in filters)

    def shard_ids(self, zone: Zone) -> tuple[int, ...]:
        """The shards that a zone writes to now."""
        return self._shard_ids[zone.name]

    def shard_of(self, zone: Zone, publisher: str) -> int:
        """The shard of a publisher's messages. The hash never changes: order is kept inside a shard."""
        ids = self._shard_ids[zone.name]
        if len(ids) == 1:
            return ids[0]
        return ids[crc32(publisher.encode()) % len(ids)]
