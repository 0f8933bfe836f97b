"""Checks the `meta` family: every record decodes, and they fit together."""

from itertools import pairwise
from typing import Final

from rocksdict import Rdict

from holdfast.model.errors import HoldfastError
from holdfast.records.folder import decode_folder
from holdfast.records.generations import (
    Generation,
    ZoneRecord,
    decode_generation,
    decode_zone,
    family_parts,
)
from holdfast.records.meta_keys import (
    APPLIED,
    CEILING,
    FOLDER,
    FOLDER_KEY,
    GENERATION,
    HEAD,
    NUMBER,
    OUTBOX,
    OUTBOX_CEILING,
    QUEUE_DROP,
    ZONE,
    number_of_key,
    shard_of_key,
)
from holdfast.records.outbox import decode_outbox, decode_outbox_ceiling, decode_queue_drop
from holdfast.records.positions import AppliedMark, ShardHead, decode_applied, decode_ceiling, decode_head
from holdfast.records.session.numbers import decode_number
from holdfast.storage.rocks.checking.verify_report import REPORT, RESTORE, CheckedReader, VerifyReport
from holdfast.storage.rocks.engine.column_families import META


class StoredMeta:
    """What `meta` says. Records that do not decode are problems, and missing here."""

    def __init__(self) -> None:
        self.zones: Final[dict[str, ZoneRecord]] = {}
        #: By zone, in the order of their numbers.
        self.generations: Final[dict[str, list[Generation]]] = {}
        self.ceilings: Final[dict[int, int]] = {}
        self.heads: Final[dict[int, ShardHead]] = {}
        self.applied: Final[dict[int, AppliedMark]] = {}
        self.has_folder = False

    def take(self, key: bytes, value: bytes) -> None:
        """HoldfastError if a record is damaged."""
        tag = key[0] if key else -1
        if tag == FOLDER and key == FOLDER_KEY:
            decode_folder(value)
            self.has_folder = True
        elif tag == ZONE:
            zone = decode_zone(key, value)
            self.zones[zone.name] = zone
        elif tag == GENERATION:
            generation = decode_generation(key, value)
            self.generations.setdefault(generation.zone, []).append(generation)
        elif tag == CEILING:
            self.ceilings[shard_of_key(key)] = decode_ceiling(value)
        elif tag == HEAD:
            self.heads[shard_of_key(key)] = decode_head(value)
        elif tag == APPLIED:
            self.applied[shard_of_key(key)] = decode_applied(value)
        elif tag == NUMBER:
            decode_number(value)
        elif tag == OUTBOX_CEILING:
            decode_outbox_ceiling(value)
        elif tag == OUTBOX:
            number_of_key(key)
            decode_outbox(value)
        elif tag == QUEUE_DROP:
            number_of_key(key)
            decode_queue_drop(value)
        else:
            raise HoldfastError(f"key {key.hex()} is of no known kind")


def read_meta(reader: CheckedReader, family: Rdict) -> StoredMeta:
    stored = StoredMeta()
    for key, value in reader.items(META, family):
        try:
            stored.take(key, value)
        except HoldfastError as error:
            reader.report.add(META, "record", str(error), RESTORE)
    if not stored.has_folder and (stored.zones or stored.generations):
        reader.report.add(META, "folder", "the record of the data folder is missing", RESTORE)
    return stored


def check_zones(stored: StoredMeta, report: VerifyReport) -> None:
    owners: dict[int, str] = {}
    for zone in stored.zones.values():
        for shard in zone.shards:
            if owners.setdefault(shard, zone.name) != zone.name:
                report.add(META, "zones", f"zones {owners[shard]!r} and {zone.name!r} both have shard {shard}", REPORT)
    for name, generations in stored.generations.items():
        owner = stored.zones.get(name)
        if owner is None:
            report.add(META, "zones", f"zone {name!r} has generations and no record", RESTORE)
            continue
        for record in generations:
            strange = sorted(set(record.shards) - set(owner.shards))
            if strange:
                report.add(META, "zones", f"{_name(record)} has shards {strange}, which are not the zone's", REPORT)
        for before, after in pairwise(generations):
            if not before.end_us or before.end_us > after.start_us:
                ends = f"ends at {before.end_us}" if before.end_us else "is open"
                what = f"{_name(before)} {ends}, and {after.number} begins at {after.start_us}"
                report.add(META, "borders", what, REPORT)
    for shard in sorted({*stored.heads, *stored.ceilings} - set(owners)):
        report.add(META, "shards", f"shard {shard} belongs to no zone", RESTORE)
    for shard, head in stored.heads.items():
        ceiling_us = stored.ceilings.get(shard, 0)
        if shard not in stored.applied and ceiling_us < head.position_us:
            report.add(
                META,
                "ceilings",
                f"shard {shard} has its ceiling at {ceiling_us}, below its head at {head.position_us}: after a crash "
                "positions could be given out twice",
                REPORT,
            )


def live_generations(stored: StoredMeta, families: list[str], report: VerifyReport) -> dict[str, list[Generation]]:
    """Those that have their families. A generation that lacks some was being dropped, unless an older one is whole."""
    there = set(families)
    live: dict[str, list[Generation]] = {}
    known: set[str] = set()
    for zone, generations in stored.generations.items():
        found: list[Generation] = []
        for record in generations:
            names = [record.family(shard) for shard in record.shards]
            known.update(record.families())
            missing = [name for name in names if name not in there]
            if not missing:
                found.append(record)
            elif found or not record.end_us:
                what = f"{_name(record)} lacks {', '.join(missing)}, and it was not dropped by retention"
                report.add(META, "families", what, RESTORE)
            elif len(missing) < len(names):
                report.notes.append(f"{_name(record)} was being dropped; the rest of it goes at the next start")
        live[zone] = found
    strays = [name for name in families if family_parts(name) is not None and name not in known]
    if strays:
        report.notes.append(f"{', '.join(strays)}: made ahead, or being ingested or dropped; no message is missing")
    return live


def _name(record: Generation) -> str:
    return f"generation {record.number} of zone {record.zone!r}"
