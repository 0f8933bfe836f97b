"""Opens the log of a data folder: from what is stored to a log that continues where the last one stopped."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import structlog

from holdfast.durable.changes import Changes
from holdfast.durable.positions import ShardClock, generation_start
from holdfast.durable.ring import Ring
from holdfast.durable.shard import Shard
from holdfast.durable.zones import Zone, Zones, assign_shards, parse_zone_filter, show
from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.records.folder import FORMAT, DataFolder, decode_folder, encode_folder
from holdfast.records.generations import (
    Generation,
    ZoneRecord,
    decode_generation,
    decode_zone,
    encode_zone,
    family_parts,
)
from holdfast.records.lanes import zone_of_lane
from holdfast.records.meta_keys import (
    CEILING,
    FOLDER_KEY,
    GENERATION,
    HEAD,
    ZONE,
    all_of,
    shard_of_key,
    zone_key,
)
from holdfast.records.positions import ShardHead, decode_ceiling, decode_head
from holdfast.storage.rocks.engine.column_families import CLUSTER, META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.commit_log import Companion, RocksLog
from holdfast.storage.rocks.log.next_patterns import NextPatterns
from holdfast.storage.rocks.log.zone_log import PendingIndex, ZoneLog

_log = structlog.get_logger()

#: Memory for the newest messages of all shards.
RING_BYTES: Final = 64 * 1024 * 1024


class _Stored:
    """The `meta` family, read once."""

    def __init__(self, engine: Engine) -> None:
        self.zones: Final = {
            record.name: record for record in (decode_zone(key, value) for key, value in scan(engine, ZONE))
        }
        self.generations: Final[dict[str, list[Generation]]] = {}
        for key, value in scan(engine, GENERATION):
            record = decode_generation(key, value)
            self.generations.setdefault(record.zone, []).append(record)
        self.ceilings: Final = {shard_of_key(key): decode_ceiling(value) for key, value in scan(engine, CEILING)}
        self.heads: Final = {shard_of_key(key): decode_head(value) for key, value in scan(engine, HEAD)}


def scan(engine: Engine, tag: int) -> Iterator[tuple[bytes, bytes]]:
    """Every record of `meta` with a tag, in the order of the keys."""
    return scan_items(engine.family(META), *all_of(tag))


def open_log(
    engine: Engine,
    zones: list[Zone],
    default: Zone,
    mounts: list[bytes],
    clock: Clock,
    version: str,
    companions: list[Companion] | None = None,
) -> RocksLog:
    """The log of a data folder. SettingsError if a node of a cluster has it: its messages would be taken for strays.

    Ensures: whatever it needs to give out positions is synced.
    """
    if CLUSTER in engine.families():
        raise SettingsError(
            f"{engine.folder} is the folder of a node in a cluster; start it with its [cluster] settings, or choose "
            "another storage.data"
        )
    now_us = clock.wall_us()
    changes = Changes()
    _check_folder(engine, changes, now_us, version)
    stored = _Stored(engine)
    wanted = [default, *zones]
    assigned = assign_shards({name: record.shards for name, record in stored.zones.items()}, wanted)
    all_zones = Zones(zones, default, mounts, assigned)
    zone_logs: dict[str, ZoneLog] = {}
    count = sum(zone.shards for zone in wanted)
    patterns = NextPatterns(engine.folder)
    segments = SegmentFamilies(engine)
    for zone in [*wanted, *_retired(stored, wanted, default)]:
        shards = {shard: _shard(stored, shard, RING_BYTES // count) for shard in assigned[zone.name]}
        filters = filters_text(zone, mounts)
        zone_log = zone_logs[zone.name] = ZoneLog(zone, shards, engine, segments, filters, patterns)
        _find_generations(engine, zone_log, stored.generations.get(zone.name, []))
    _raise_floors(list(zone_logs.values()), now_us)
    for zone in wanted:
        _keep_zone(stored, zone, assigned[zone.name], changes, now_us)
    for zone_log in zone_logs.values():
        if zone_log.zone.store:
            _begin(zone_log, all_zones.shard_ids(zone_log.zone), now_us, changes)
        else:
            zone_log.end(changes)
    _drop_strays(engine, zone_logs)
    if len(changes):
        engine.write(engine.written + 1, changes)
        engine.sync_now()
    return RocksLog(engine, all_zones, zone_logs, clock, companions or [], segments)


def _retired(stored: _Stored, wanted: list[Zone], default: Zone) -> list[Zone]:
    """Lanes, and zones that the settings name no longer: what they hold is read, and goes when the retention says so,
    which is the default one if the settings have no other."""
    known = {zone.name: zone for zone in wanted}
    return [
        lane_zone(record, known.get(zone_of_lane(name), default))
        for name, record in stored.zones.items()
        if name not in known
    ]


def lane_zone(record: ZoneRecord, owner: Zone) -> Zone:
    """A zone that nothing is published to, kept as long as its owner keeps what it has."""
    return Zone(
        record.name,
        tuple(parse_zone_filter(text) for text in record.filters),
        shards=len(record.shards),
        retention_s=owner.retention_s,
        retention_bytes=owner.retention_bytes,
        store=False,
    )


def _check_folder(engine: Engine, changes: Changes, now_us: int, version: str) -> None:
    """The first record written, and the first one read."""
    value = engine.family(META).get(FOLDER_KEY)
    if value is None:
        changes.into(META).put(FOLDER_KEY, encode_folder(DataFolder(FORMAT, now_us, version)))
        return
    folder = decode_folder(value)
    if folder.format_version < FORMAT:
        _log.info("data folder gets a newer format", format=FORMAT, was=folder.format_version)
        upgraded = DataFolder(FORMAT, folder.created_us, folder.creator)
        changes.into(META).put(FOLDER_KEY, encode_folder(upgraded))


def _keep_zone(stored: _Stored, zone: Zone, ids: tuple[int, ...], changes: Changes, now_us: int) -> None:
    known = stored.zones.get(zone.name)
    filters = tuple(show(levels) for levels in zone.filters)
    if known is None or known.shards != ids or known.filters != filters:
        created_us = now_us if known is None else known.created_us
        changes.into(META).put(zone_key(zone.name), encode_zone(ZoneRecord(zone.name, ids, filters, created_us)))


def _shard(stored: _Stored, number: int, ring_bytes: int) -> Shard:
    head = stored.heads.get(number) or ShardHead(0, 0, 0)
    clock = ShardClock(stored.ceilings.get(number, 0), head.position_us)
    ring = Ring(ring_bytes, clock.last_us)
    return Shard(number, clock, position_us=head.position_us, serial=head.serial, commits=head.commits, ring=ring)


def _find_generations(engine: Engine, zone_log: ZoneLog, records: list[Generation]) -> None:
    """A generation without its families was dropped; one that lost some of them was being dropped."""
    there = set(engine.families())
    for record in records:
        generation = zone_log.readable(record)
        if all(piece.family in there for piece in generation.by_shard.values()):
            zone_log.live.append(generation)
            if record.end_us:
                pieces = generation.by_shard.values()
                zone_log.pending_indexes.extend(PendingIndex(generation, piece, loaded=False) for piece in pieces)
        else:
            zone_log.dropped.append(record)


def filters_text(zone: Zone, mounts: list[bytes]) -> str:
    """A short text that differs when other topics belong to the zone; none for the default zone."""
    if not zone.filters:
        return ""
    texts = sorted(show(levels) for levels in zone.filters) + sorted(mount.decode() for mount in mounts)
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def _raise_floors(zone_logs: list[ZoneLog], now_us: int) -> None:
    """Whatever is written from now on lies above all there is, in every shard.

    New settings may have moved a publisher or a topic to another shard, and its order is that of the positions. And a
    generation may have begun far above the clock of one of its shards, which has not written to it yet.
    """
    clocks = [shard.clock for zone_log in zone_logs for shard in zone_log.shards.values()]
    records = [generation.record for zone_log in zone_logs for generation in zone_log.live]
    bounds = [bound_us for record in records for bound_us in (record.start_us, record.end_us)]
    floor_us = max([generation_start(clocks, now_us), *bounds])
    for clock in clocks:
        clock.raise_floor(floor_us)


def _begin(zone_log: ZoneLog, ids: tuple[int, ...], now_us: int, changes: Changes) -> None:
    """Go on with the last generation, unless the settings ask for another one."""
    zone_log.load_last()
    if not zone_log.can_continue(ids):
        zone_log.begin(ids, now_us, changes)


def _drop_strays(engine: Engine, zone_logs: dict[str, ZoneLog]) -> None:
    """Families of generations that were being ingested or dropped when the last run ended.

    Those that were being prepared are kept, and empty. One that is dropped and made again under its name ends every
    process that reads beside the broker: RocksDB's secondaries crash.
    """
    known = {name for zone_log in zone_logs.values() for name in zone_log.prepared()}
    known |= {
        name for zone_log in zone_logs.values() for generation in zone_log.live for name in generation.record.families()
    }
    for name in engine.families():
        if family_parts(name) is not None and name not in known:
            engine.drop_family(name)
