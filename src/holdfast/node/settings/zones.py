"""Zones of the settings, as the log takes them.

1. The default zone, and no other, has the name `default`.
2. With `storage.durability = "memory"` the default zone stores nothing, even if another zone is stored. A named zone
   stores unless it has `store = false`; then its durability is that of memory.
"""

from typing import Final

from holdfast.durable.zones import MEMORY, Zone, Zones, assign_shards, parse_zone_filter
from holdfast.model.errors import SettingsError
from holdfast.node.settings.tree import Settings, Storage, ZoneSettings
from holdfast.topics.learned import DEFAULT_MAX_NODES, MAX_LEVELS

#: The zone of all topics that no other zone names.
DEFAULT_ZONE: Final = "default"


def zones_of(settings: Settings) -> tuple[list[Zone], Zone, list[bytes]]:
    """The zones, the default zone, and the mount points that zones hold behind.

    SettingsError if a zone is wrong, or if two overlap.
    """
    storage = settings.storage
    default = _zone(DEFAULT_ZONE, (), storage.durability, storage, store=storage.durability != MEMORY)
    zones: list[Zone] = []
    for name, zone in settings.zones.items():
        durability = (zone.durability or storage.durability) if zone.store else MEMORY
        zones.append(_zone(name, (parse_zone_filter(zone.filter),), durability, zone, store=zone.store))
    mounts = [listener.mount_point.encode() for listener in settings.listeners.values() if listener.mount_point]
    mounts = list(dict.fromkeys(mounts))
    # This only checks them. The real shard ids are in the data folder.
    Zones(zones, default, mounts, assign_shards({}, [default, *zones]))
    return zones, default, mounts


def parse_thresholds(text: str) -> tuple[int, ...]:
    """`"20,10"` → (20, 10), and () for an empty text; SettingsError if it is neither."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    # Python's int() accepts digits of other scripts as well.
    numbers = [int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0 for word in words]
    if len(numbers) > MAX_LEVELS or any(not 1 <= number <= DEFAULT_MAX_NODES for number in numbers):
        raise SettingsError(
            f"thresholds {text!r}: right would be at most {MAX_LEVELS} whole numbers from 1 to {DEFAULT_MAX_NODES}, "
            "one for each topic level from the first on, such as '20,10'; the last one holds for all deeper levels"
        )
    return tuple(numbers)


def _zone(
    name: str, filters: tuple[tuple[bytes, ...], ...], durability: str, kept: Storage | ZoneSettings, *, store: bool
) -> Zone:
    return Zone(
        name,
        filters,
        shards=kept.shards,
        durability=durability,
        layout=kept.layout,
        thresholds=parse_thresholds(kept.thresholds),
        retention_s=kept.retention_s,
        retention_bytes=kept.retention_bytes,
        generation_s=kept.generation_s,
        generation_bytes=kept.generation_bytes,
        optimize_interval_s=kept.optimize_interval_s,
        optimize_gain=kept.optimize_gain,
        store=store,
        store_qos0=kept.store_qos0,
        deliver_early=kept.deliver_qos1 == "before_commit",
    )
