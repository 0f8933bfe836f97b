"""What the rows of all vnodes say of the log of a node: zones, and the heads and generations of their shards.

    zone default    vnode 0: shard 0    vnode 1: shard 1    …       each with its own generations and head
    zone audit      vnode 0: shard 2    vnode 1: shard 3    …

For readers beside the node, which have no vnodes but only its database. Whoever applies records knows the same from
`VnodeStores`.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from holdfast.durable.log import NO_END
from holdfast.model.errors import PermanentError
from holdfast.records.cluster import vnode_keys
from holdfast.records.cluster.control_rows import CONTROL_VNODE
from holdfast.records.cluster.rows import SETTINGS_KEY, decode_settings_row
from holdfast.records.fields import key_u16
from holdfast.records.generations import Generation, ZoneRecord, decode_generation
from holdfast.records.messages import decode_message
from holdfast.records.meta_keys import GENERATION, HEAD, all_of, shard_of_key
from holdfast.records.positions import ShardHead, decode_head
from holdfast.records.retained import retained_order
from holdfast.storage.rocks.engine.scan import FamilyReader, get_one, scan_items
from holdfast.storage.rocks.layouts.segments import FamilyLookup
from holdfast.storage.rocks.log.zone_generations import LiveGeneration


class StoredParts(NamedTuple):
    """The log of a node in a cluster, as its rows have it."""

    #: By name, with the shards of all vnodes. `created_us` is that of the first generation that is left.
    zones: dict[str, ZoneRecord]
    #: By shard, oldest first. Those that were dropped have no row.
    generations: dict[int, list[Generation]]
    #: By shard; one that has no message yet is missing.
    heads: dict[int, ShardHead]


def read_parts(rows: FamilyReader) -> StoredParts:
    """Read the family `cluster`. PermanentError if a row of a shard cannot be read."""
    generations: dict[int, list[Generation]] = {}
    heads: dict[int, ShardHead] = {}
    filters: dict[str, tuple[str, ...]] = {}
    for number in stored_vnodes(rows):
        state = vnode_keys.table_prefix(number, vnode_keys.STATE)
        settings = get_one(rows, state + SETTINGS_KEY)
        if settings is not None:
            for zone in decode_settings_row(settings)[1].zones:
                filters[zone.name] = tuple([raw.decode() for raw in zone.filters])
        for key, value in _meta_rows(rows, number, GENERATION):
            record = decode_generation(key, value)
            generations.setdefault(record.shards[0], []).append(_since_created(record))
        for key, value in _meta_rows(rows, number, HEAD):
            heads[shard_of_key(key)] = decode_head(value)
    zones: dict[str, ZoneRecord] = {}
    for name in dict.fromkeys([*filters, *[records[0].zone for records in generations.values()]]):
        own = {shard: records[0] for shard, records in sorted(generations.items()) if records[0].zone == name}
        created_us = min([record.created_us for record in own.values()], default=0)
        zones[name] = ZoneRecord(name, tuple(own), filters.get(name, ()), created_us)
    return StoredParts(zones, generations, heads)


def stored_vnodes(rows: FamilyReader) -> list[int]:
    """The numbers of the vnodes that have a row."""
    found: list[int] = []
    end = key_u16(CONTROL_VNODE)
    while (first := next(scan_items(rows, key_u16(found[-1] + 1 if found else 0), end), None)) is not None:
        found.append(vnode_keys.split_key(first[0])[0])
    return found


def merged_rows(rows: FamilyReader, table: int, lo: bytes, hi: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rows of a table of all vnodes with keys in [lo, hi), in order, as if it were one table.

    A session is in one vnode. A retained message may be in several: the greatest (version, shard) is the one that
    counts, a removal too (`vnode_retained.py`).
    """
    prefixes = [vnode_keys.table_prefix(number, table) for number in stored_vnodes(rows)]
    merged = heapq.merge(*[_without(prefix, scan_items(rows, prefix + lo, prefix + hi)) for prefix in prefixes])
    if table != vnode_keys.RETAINED:
        return merged
    return (
        (key, max([value for _key, value in found], key=retained_order))
        for key, found in groupby(merged, key=itemgetter(0))
    )


def _without(prefix: bytes, items: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    start = len(prefix)
    return ((key[start:], value) for key, value in items)


def _meta_rows(rows: FamilyReader, vnode: int, tag: int) -> Iterator[tuple[bytes, bytes]]:
    prefix = vnode_keys.table_prefix(vnode, vnode_keys.META)
    lo, hi = all_of(tag)
    return _without(prefix, scan_items(rows, prefix + lo, prefix + hi))


def _since_created(record: Generation) -> Generation:
    """The first generation of a shard starts at 0. No message of it is older than the record that began it, and a
    reader that divides it by time has no use for half a century without messages.
    """
    return record if record.start_us else replace(record, start_us=record.created_us)


def missing_generations(live: Sequence[LiveGeneration], serial_of: Callable[[LiveGeneration], int]) -> list[Generation]:
    """What is missing between the generations of a shard: a record in place of those that were dropped.

    How much a reader lost follows from what is left: `serial_of` is the last serial before a generation
    (`serial_before`).
    """
    found: list[Generation] = []
    number, end_us = 0, 0
    for one in live:
        record = one.record
        if record.number > number + 1:
            found.append(
                Generation(
                    record.zone,
                    record.number - 1,
                    record.layout,
                    {},
                    end_us,
                    record.shards,
                    0,
                    end_us=max(record.start_us, 1),
                    last_serials=(serial_of(one),),
                )
            )
        number, end_us = record.number, record.end_us
    return found


def serial_before(live: LiveGeneration, head_serial: int, families: FamilyLookup) -> int:
    """The last serial before a generation of one shard: that of its first message tells. It never changes."""
    record = live.record
    shard = record.shards[0]
    piece = live.by_shard[shard]
    try:
        for value in piece.layout.read(families.family(piece.family), (), record.start_us, NO_END):
            if value:
                return decode_message(value).serial - 1
    except PermanentError:
        # Whoever reads what is damaged is told. The count is an upper bound.
        pass
    return record.last_serial(shard) if record.end_us else head_serial
