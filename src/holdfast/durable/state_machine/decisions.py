"""Decisions of the control log, as they take effect in a vnode: settings, level, holders.

Any node may write them into a vnode's log, and several will. Each has the sequence of its decision, or is a number that
only grows: one that is not above the last one changes nothing.
"""

from typing import Final

from holdfast.durable.state_machine.scope import Scope
from holdfast.durable.state_machine.shards import Shards
from holdfast.durable.state_machine.tables import CLUSTER, StateTables
from holdfast.durable.zones import Zone, Zones, parse_zone_filter
from holdfast.model.errors import MisuseError, SettingsError
from holdfast.records.cluster.items import ChangeSettings, Holders, Level
from holdfast.records.cluster.rows import (
    HOLDERS_KEY,
    LEVEL_KEY,
    SETTINGS_KEY,
    decode_holders,
    decode_level,
    decode_settings_row,
    encode_holders,
    encode_level,
    encode_settings_row,
    node_of_writer,
    writers,
)
from holdfast.records.cluster.settings import VnodeSettings


def build_zones(settings: VnodeSettings) -> Zones:
    """The zones of a vnode. SettingsError if they overlap, or a zone is impossible."""
    zones: list[Zone] = []
    for zone in settings.zones:
        filters: list[tuple[bytes, ...]] = []
        for raw in zone.filters:
            try:
                filters.append(parse_zone_filter(raw.decode()))
            except UnicodeDecodeError:
                raise SettingsError(f"zone filter {raw!r} is not UTF-8") from None
        zones.append(Zone(zone.name, tuple(filters), layout=zone.layout, store_qos0=zone.store_qos0))
    if len({zone.shard for zone in settings.zones}) < len(settings.zones):
        raise SettingsError("two zones of a vnode have one shard")
    assigned: dict[str, tuple[int, ...]] = {zone.name: (zone.shard,) for zone in settings.zones}
    try:
        return Zones(zones[1:], zones[0], list(settings.mounts), assigned)
    except MisuseError as wrong:
        raise SettingsError(str(wrong)) from wrong


def stored_zones(tables: StateTables) -> Zones | None:
    """The zones of a vnode, as its settings say; None if it has none."""
    value = tables.get(CLUSTER, SETTINGS_KEY)
    return None if value is None else build_zones(decode_settings_row(value)[1])


class Decisions:
    """Settings, level and holders while a record is decided."""

    def __init__(self, scope: Scope, shards: Shards) -> None:
        self._scope: Final = scope
        self._shards: Final = shards

    def change_settings(self, item: ChangeSettings) -> bool:
        """Other zones from here on. Zones that are impossible, or take the shard of another one, change nothing."""
        tables = self._scope.tables
        value = tables.get(CLUSTER, SETTINGS_KEY)
        if value is not None and item.control <= decode_settings_row(value)[0]:
            return False
        if not self._shards.may_have(item.settings):
            return False
        try:
            zones = build_zones(item.settings)
        except SettingsError:
            return False
        self._shards.change_zones(item.settings, zones)
        tables.put(CLUSTER, SETTINGS_KEY, encode_settings_row(item.control, item.settings))
        return True

    def change_level(self, item: Level) -> bool:
        tables = self._scope.tables
        value = tables.get(CLUSTER, LEVEL_KEY)
        if item.level <= (1 if value is None else decode_level(value)):
            return False
        tables.put(CLUSTER, LEVEL_KEY, encode_level(item.level))
        return True

    def change_holders(self, item: Holders) -> bool:
        """Close the epochs of nodes that are not named, and those in which a node that is named again did not hold.

        A claim of theirs that landed behind this would stand until stopped by hand: no node serves or closes it.
        """
        tables = self._scope.tables
        value = tables.get(CLUSTER, HOLDERS_KEY)
        if value is not None:
            control, before = decode_holders(value)
            if item.control <= control:
                return False
            for node in sorted(set(item.nodes) - set(before)):
                self._scope.epochs.close(node, item.control)
        for key, _value in tables.scan(CLUSTER, *writers(), 0):
            node = node_of_writer(key)
            if node not in item.nodes:
                self._scope.epochs.close(node, item.control)
        tables.put(CLUSTER, HOLDERS_KEY, encode_holders(item.control, item.nodes))
        return True
