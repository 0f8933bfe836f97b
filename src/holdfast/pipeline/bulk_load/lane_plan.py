"""Where loaded rows go: zone and shard by the broker's rules, and the lane of each zone that has room for their times.

1. Rows come to the zone and the shard of their lane that a broker would choose for a message now.
2. A load goes on in a lane of its zone if all that the lane ever held is older than the load; else it begins one.
   So loads that come in the order of their times share a lane, and loads that overlap others get another lane.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from zlib import crc32

from holdfast.durable.zones import MAX_SHARDS, Zone, Zones, parse_zone_filter
from holdfast.history.reader.view import View
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.records.generations import Generation, Parameter, ZoneRecord
from holdfast.records.lanes import is_lane, lane_name, lane_number, zone_of_lane
from holdfast.storage.rocks.log.startup import filters_text
from holdfast.storage.rocks.log.zone_log import FILTERS, PATTERNS
from holdfast.storage.rocks.shipments.ingestion import MAX_LOADED_FAMILIES

#: In the parameters of a generation that was loaded: which load it was, and what it has to hold. Never change.
LOAD: Final = "load"
DIGEST: Final = "digest"
_DEFAULT: Final = "default"
#: The slot of rows that no broker would store.
UNSTORED: Final = -1


@dataclass(frozen=True)
class RowPlacement:
    """Finds the slot of a row: a number for each shard of each zone. Plain data, to be sent to workers."""

    #: Name, filters and number of shards of each zone; the one without filters is the default zone.
    zones: tuple[tuple[str, tuple[str, ...], int], ...]
    #: Zones that store nothing.
    unstored: tuple[tuple[str, tuple[str, ...]], ...]
    mounts: tuple[bytes, ...] = ()

    def slots(self) -> list[tuple[str, int]]:
        """Zone and number of its shard, for every slot."""
        return [(name, number) for name, _filters, shards in self.zones for number in range(shards)]

    def of(self, topic: bytes, client_id: str) -> int:
        """The slot of a row; UNSTORED if no broker would store it."""
        zones, bases = self._made
        base = bases.get(zones.of(topic).name)
        if base is None:
            return UNSTORED
        first, shards = base
        return first if shards == 1 else first + crc32(client_id.encode()) % shards

    @cached_property
    def _made(self) -> tuple[Zones, dict[str, tuple[int, int]]]:
        bases: dict[str, tuple[int, int]] = {}
        first = 0
        for name, _filters, shards in self.zones:
            bases[name] = (first, shards)
            first += shards
        return self._zones(), bases

    def _zones(self) -> Zones:
        named = [(name, filters) for name, filters, _shards in self.zones if filters]
        made = [
            Zone(name, tuple(parse_zone_filter(text) for text in filters)) for name, filters in [*named, *self.unstored]
        ]
        default = Zone(_DEFAULT)
        assigned: dict[str, tuple[int, ...]] = {zone.name: (number,) for number, zone in enumerate([default, *made])}
        return Zones(made, default, list(self.mounts), assigned)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_made"}


def make_placement(view: View, mounts: Sequence[bytes] = ()) -> RowPlacement:
    """By the zones as the data folder has them. SettingsError if they depend on settings that are not known here."""
    zones: list[tuple[str, tuple[str, ...], int]] = []
    unstored: list[tuple[str, tuple[str, ...]]] = []
    for name, zone in sorted(view.zones.items()):
        if is_lane(name):
            continue
        live = view.live[name]
        if live and not live[-1].end_us:
            record = live[-1]
            _check_filters(name, zone.filters, record, mounts)
            zones.append((name, zone.filters, len(record.shards)))
        elif not live and not view.dropped[name] and zone.filters:
            unstored.append((name, zone.filters))
    if not zones:
        raise PermanentError("the data folder has no zone that messages are stored in; start its broker once")
    return RowPlacement(tuple(zones), tuple(unstored), tuple(mounts))


def _check_filters(name: str, filters: tuple[str, ...], record: Generation, mounts: Sequence[bytes]) -> None:
    zone = Zone(name, tuple(parse_zone_filter(text) for text in filters))
    if filters_text(zone, list(mounts)) != record.parameters.get(FILTERS, ""):
        raise SettingsError(
            f"which topics belong to zone {name!r} depends on mount points of the broker; name its settings with "
            "--config, or `mounts`"
        )


@dataclass(frozen=True)
class LanePlan:
    """The generation of a lane that a load will be, as far as it is known before its rows are laid out."""

    zone: ZoneRecord
    number: int
    #: Of each shard, the last serial that is given already.
    after_serials: tuple[int, ...]
    layout: str
    parameters: dict[str, Parameter]

    def record(self, start_us: int, end_us: int, counts: Sequence[int], created_us: int, **texts: str) -> Generation:
        """The sealed generation, with `counts` messages in its shards."""
        serials = tuple(after + count for after, count in zip(self.after_serials, counts, strict=True))
        return Generation(
            self.zone.name,
            self.number,
            self.layout,
            {**self.parameters, **texts},
            start_us,
            self.zone.shards,
            created_us,
            end_us=end_us,
            last_serials=serials,
        )


def plan_lanes(view: View, first_us: dict[str, int], created_us: int, layout: str | None = None) -> dict[str, LanePlan]:
    """A lane for each zone that gets rows; `first_us` says with which time they begin."""
    free = max([-1, *[shard for zone in view.zones.values() for shard in zone.shards]]) + 1
    loaded = sum(len(record.shards) for name, live in view.live.items() if is_lane(name) for record in live)
    plans: dict[str, LanePlan] = {}
    for name, begins_us in sorted(first_us.items()):
        pattern = view.live[name][-1]
        count = len(pattern.shards)
        loaded += count
        if loaded > MAX_LOADED_FAMILIES:
            raise PermanentError(
                f"with this there would be {loaded} families of loaded messages, and {MAX_LOADED_FAMILIES} is the "
                "limit; wait until retention has dropped some, or load more rows at once"
            )
        chosen = layout or pattern.layout
        kept = (FILTERS,) if chosen != pattern.layout else tuple(key for key in pattern.parameters if key != PATTERNS)
        parameters = {key: value for key, value in pattern.parameters.items() if key in kept}
        lane = _lane(view, name, count, begins_us)
        if lane is None:
            number = max([0, *[lane_number(other) for other in view.zones if zone_of_lane(other) == name]]) + 1
            if free + count > MAX_SHARDS:
                raise PermanentError(f"only {MAX_SHARDS - free} shard ids are free; a load needs {count}")
            shards = tuple(range(free, free + count))
            free += count
            zone = ZoneRecord(lane_name(name, number), shards, view.zones[name].filters, created_us)
            plans[name] = LanePlan(zone, 1, (0,) * count, chosen, parameters)
        else:
            zone = ZoneRecord(lane, view.zones[lane].shards, view.zones[lane].filters, created_us)
            earlier = [*view.dropped[lane], *view.live[lane]]
            after = tuple(view.heads[shard].serial if shard in view.heads else 0 for shard in zone.shards)
            plans[name] = LanePlan(zone, max(record.number for record in earlier) + 1, after, chosen, parameters)
    return plans


def _lane(view: View, zone: str, count: int, begins_us: int) -> str | None:
    """A lane that the load can go on in."""
    for name in sorted((name for name in view.zones if is_lane(name)), key=lane_number):
        known = view.zones[name]
        if zone_of_lane(name) != zone or len(known.shards) != count or known.filters != view.zones[zone].filters:
            continue
        earlier = [*view.dropped[name], *view.live[name]]
        if earlier and all(record.end_us <= begins_us for record in earlier):
            return name
    return None


def list_loads(view: View) -> dict[str, list[Generation]]:
    """Generations that were loaded and are there, by the name of their load."""
    found: dict[str, list[Generation]] = {}
    for name, live in view.live.items():
        if is_lane(name):
            for record in live:
                found.setdefault(str(record.parameters.get(LOAD, "")), []).append(record)
    return found
