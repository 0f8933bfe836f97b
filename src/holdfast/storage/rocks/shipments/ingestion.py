"""The ingestion of a shipment: its tables become families, and its records make them part of the log.

    check ─▶ make_family … ─▶ ingest … ─▶ rewrite ─▶ changes, written and synced ─▶ the shipment is removed
             one at a time    by link     no GIL     from here on it is there

1. Before the records are written the families are strays, which the next start drops; the shipment is then ingested
   again.
2. Every attempt uses new names of families (`records/generations.py` says why), so its records have an edition.
3. Tables are linked, not moved: until the records are synced, the shipment keeps its own.
4. RocksDB rewrites ingested tables once, in steps: a table made elsewhere does not know its family, and a repair would
   put its keys into the wrong one.
"""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocksdict import BottommostLevelCompaction, CompactOptions, IngestExternalFileOptions

from holdfast.durable.changes import Changes
from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.records.generations import (
    Generation,
    ZoneRecord,
    decode_generation,
    decode_zone,
    encode_generation,
    encode_zone,
)
from holdfast.records.lanes import is_lane
from holdfast.records.meta_keys import GENERATION, ZONE, all_of, ceiling_key, generation_key, head_key, zone_key
from holdfast.records.positions import encode_ceiling, encode_head
from holdfast.storage.rocks.engine.column_families import META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.log.published_heads import Head, PublishedHeads, read_heads
from holdfast.storage.rocks.shipments.shipment import Shipment, ShipmentEntry

#: Families of lanes that a node may have, besides those of what is published: each costs files and memory.
MAX_LOADED_FAMILIES: Final = 32
_LINKS: Final = "links"
_AGAIN: Final = "the log has changed since the tables were made; run the job again"


class Ingestion:
    """One shipment on its way into the database. Requires: the engine's thread, but for `rewrite`."""

    def __init__(self, engine: Engine, shipment: Shipment) -> None:
        self.shipment: Final = shipment
        self._engine: Final = engine
        edition = time.time_ns() // 1_000
        self.entries: Final = [replace(entry, record=entry.record.in_edition(edition)) for entry in shipment.entries]
        self._families: Final[list[tuple[str, list[Path]]]] = [
            (entry.record.family(shard), [shipment.table(name) for name in entry.tables.get(shard, ())])
            for entry in self.entries
            for shard in entry.record.shards
        ]
        self._made = 0
        self._ingested = 0
        self._rewritten = 0

    def check(self) -> bool:
        """Whether there is anything to do; PermanentError if it does not fit."""
        stored = _Stored(self._engine)
        entries = self.shipment.entries
        done = [stored.has(entry) for entry in entries]
        if all(done):
            return False
        if any(done):
            raise PermanentError(f"a part of {self.shipment.id} is in the log already; {_AGAIN}")
        for entry in entries:
            stored.check(entry)
        missing = [path.name for _family, paths in self._families for path in paths if not path.is_file()]
        if missing:
            raise PermanentError(f"table {missing[0]} of {self.shipment.id} is missing; run the job again")
        return True

    def make_family(self) -> bool:
        """Make the next column family; whether there is another."""
        if self._made == len(self._families):
            return False
        self._engine.create_family(self._families[self._made][0])
        self._made += 1
        return True

    def ingest(self) -> bool:
        """Take the tables of the next family; whether there is another."""
        if self._ingested == len(self._families):
            return False
        name, paths = self._families[self._ingested]
        if paths:
            links = [self._link(path) for path in paths]
            options = IngestExternalFileOptions()
            options.set_move_files(True)
            try:
                self._engine.family(name).ingest_external_file([str(link) for link in links], options)
            except Exception as error:
                raise PermanentError(f"the tables of {name} cannot be ingested: {error}") from error
        self._ingested += 1
        return True

    def _link(self, path: Path) -> Path:
        folder = self.shipment.folder / _LINKS
        folder.mkdir(exist_ok=True)
        link = folder / path.name
        link.unlink(missing_ok=True)
        try:
            os.link(path, link)
        except OSError:  # a disk without links, or another one
            shutil.copy2(path, link)
        return link

    def rewrite(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Have RocksDB write the tables itself, one after the other. Any thread: the calls release the GIL."""
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        # Flushes and compactions of what is being published go on beside it.
        options.set_exclusive_manual_compaction(False)
        for name, paths in self._families:
            family = self._engine.family(name)
            for table in family.live_files() if paths else []:
                if stopped():
                    return
                family.compact_range(table["start_key"], table["end_key"], options)
            self._rewritten += 1

    def share(self) -> float:
        """How much of the rewriting is done."""
        return self._rewritten / max(1, len(self._families))

    def changes(self) -> Changes:
        """What makes it part of the log, in one batch. PermanentError: it does not fit any more."""
        stored = _Stored(self._engine)
        changes = Changes()
        meta = changes.into(META)
        for entry in self.entries:
            stored.check(entry)
            record = entry.record
            if entry.zone is not None:
                meta.put(zone_key(entry.zone.name), encode_zone(entry.zone))
            for shard, head in (entry.heads or {}).items():
                meta.put(ceiling_key(shard), encode_ceiling(head.position_us))
                meta.put(head_key(shard), encode_head(head))
            meta.put(generation_key(record.zone, record.number), encode_generation(record))
        return changes

    def undo(self) -> None:
        """It cannot be taken now: its families go, or the next attempt would leave more of them. Before `changes`."""
        for name, _paths in self._families[: self._made]:
            with suppress(HoldfastError):
                self._engine.drop_family(name)

    def replaced(self) -> list[str]:
        """Families that are not needed once the changes are synced."""
        there = set(self._engine.families())
        old = [
            name for entry in self.shipment.entries if entry.replaces is not None for name in entry.replaces.families()
        ]
        return [name for name in old if name in there]


def ingest_shipment(engine: Engine, shipment: Shipment) -> bool:
    """Ingest a whole shipment at once; whether there was anything to do. Requires: no log is open."""
    work = Ingestion(engine, shipment)
    is_new = work.check()
    if is_new:
        shipment.note_seen()
        try:
            while work.make_family():
                pass
            while work.ingest():
                pass
            work.rewrite()
            changes = work.changes()
        except HoldfastError:
            work.undo()
            raise
        engine.write(engine.written + 1, changes)
        engine.sync_now()
        for name in work.replaced():
            engine.drop_family(name)
    _publish_heads(engine.folder, shipment)
    shipment.remove()
    return is_new


def _publish_heads(folder: Path, shipment: Shipment) -> None:
    """Let readers see shards that came while no broker runs: one that starts does it by itself."""
    heads = read_heads(folder)
    for entry in shipment.entries:
        heads |= {shard: Head(head.position_us, head.serial) for shard, head in (entry.heads or {}).items()}
    PublishedHeads(folder, heads).close()


class _Stored:
    """What `meta` says now."""

    def __init__(self, engine: Engine) -> None:
        meta = engine.family(META)
        self._families: Final = set(engine.families())
        self._zones: Final[dict[str, ZoneRecord]] = {
            record.name: record
            for record in (decode_zone(key, value) for key, value in scan_items(meta, *all_of(ZONE)))
        }
        self._generations: Final[dict[str, list[Generation]]] = {}
        for key, value in scan_items(meta, *all_of(GENERATION)):
            record = decode_generation(key, value)
            self._generations.setdefault(record.zone, []).append(record)

    def has(self, entry: ShipmentEntry) -> bool:
        """Whether it was ingested, in any edition."""
        found = self._of(entry.record)
        if found is None or (entry.replaces is not None and found.edition == entry.replaces.edition):
            return False
        return encode_generation(found.in_edition(0)) == encode_generation(entry.record.in_edition(0))

    def _of(self, record: Generation) -> Generation | None:
        for known in self._generations.get(record.zone, []):
            if known.number == record.number:
                return known
        return None

    def check(self, entry: ShipmentEntry) -> None:
        """PermanentError if a generation does not fit to what is there."""
        if entry.replaces is not None:
            self._check_edition(entry.record, entry.replaces)
        elif entry.zone is not None:
            self._check_lane(entry.record, entry.zone)
        else:
            raise PermanentError("an entry brings neither a lane nor another edition")

    def _check_edition(self, record: Generation, replaces: Generation) -> None:
        found = self._of(record)
        if found is None or encode_generation(found) != encode_generation(replaces):
            raise PermanentError(
                f"generation {record.number} of zone {record.zone!r} is not what it was, or gone; {_AGAIN}"
            )
        same = (record.shards, record.start_us, record.end_us, record.last_serials)
        if same != (replaces.shards, replaces.start_us, replaces.end_us, replaces.last_serials):
            raise PermanentError(f"another edition of generation {record.number} has other messages; {_AGAIN}")

    def _check_lane(self, record: Generation, zone: ZoneRecord) -> None:
        taken = {shard for other in self._zones.values() if other.name != zone.name for shard in other.shards}
        known = self._zones.get(zone.name)
        earlier = self._generations.get(zone.name, [])
        if (
            not is_lane(zone.name)
            or taken & set(zone.shards)
            or (known is not None and known.shards != zone.shards)
            or record.shards != zone.shards
            or record.number != max([0, *[other.number for other in earlier]]) + 1
            or any(not other.end_us or other.end_us > record.start_us for other in earlier)
        ):
            raise PermanentError(f"lane {zone.name} does not go on where {record.number} begins; {_AGAIN}")
        loaded = sum(name.startswith("log-") and self._is_loaded(name) for name in self._families)
        if loaded + len(record.shards) > MAX_LOADED_FAMILIES:
            raise PermanentError(
                f"there are {loaded} families of loaded messages, and {MAX_LOADED_FAMILIES} is the limit; wait until "
                "retention has dropped some, or load more rows at once"
            )

    def _is_loaded(self, family: str) -> bool:
        return any(
            family == record.family(shard)
            for name, records in self._generations.items()
            if is_lane(name)
            for record in records
            for shard in record.shards
        )
