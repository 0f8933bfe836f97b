"""Shipments: generations that were made elsewhere, as tables on their way into the log.

RocksDB belongs to one process. A job on Spark that makes generations puts finished tables here, and the process that
has the data folder open ingests them (`ingestion.py`): the broker if it runs, else the job itself.

    <data folder>/incoming/<id>/
      tables/*.sst      sorted tables of RocksDB
      manifest.json     what is to become of them; written last, so without it there is no shipment
      seen              it is being ingested
      refused.json      {"why": …}: it does not fit, and nothing of it was taken

    manifest   {"version": 1, "id": …, "made_us": …, "entries": [
                  {"zone": hex | null, "record": hex, "replaces": hex | null,                  records/generations.py
                   "tables": {"<shard>": ["<file>", …]}, "heads": {"<shard>": [position, serial]}}]}

1. A shipment is taken as a whole or not at all, and once: its records say so afterwards, not these files.
2. An entry with `zone` brings a generation of a lane; one with `replaces` another edition of a generation that is
   there, or was dropped, exactly as it is written there.
3. Records here have no edition yet: it is given when they are ingested.
4. The folder goes when the records are synced. Until then its tables are complete.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.files.lock import FileLock
from holdfast.files.private import FOLDER_MODE
from holdfast.files.replacement import read_json, replace_json, sync_path
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.generations import Generation, ZoneRecord, decode_generation, decode_zone, encode_generation
from holdfast.records.generations import encode_zone as _encode_zone
from holdfast.records.meta_keys import generation_key, zone_key
from holdfast.records.positions import ShardHead

FOLDER_NAME: Final = "incoming"
#: Never change: in the files.
_VERSION: Final = 1
_MANIFEST: Final = "manifest.json"
_SEEN: Final = "seen"
_REFUSED: Final = "refused.json"
_LOCK: Final = "lock"
TABLES: Final = "tables"
#: A name is that of a folder, too.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class ShipmentEntry:
    """One generation of a shipment."""

    record: Generation
    #: The files of each shard, by their names in `tables`.
    tables: dict[int, tuple[str, ...]]
    #: The lane that it belongs to, as its record is to be; None for another edition of what is known.
    zone: ZoneRecord | None = None
    #: Where the shards of a lane end with it.
    heads: dict[int, ShardHead] | None = None
    #: What it takes the place of, as it is stored.
    replaces: Generation | None = None


@dataclass(frozen=True)
class Shipment:
    """What a folder of `incoming` brings."""

    folder: Path
    id: str
    entries: tuple[ShipmentEntry, ...]

    def table(self, name: str) -> Path:
        return self.folder / TABLES / name

    # ---- what becomes of it

    def note_seen(self) -> None:
        (self.folder / _SEEN).touch()

    def refuse(self, why: str) -> None:
        replace_json(self.folder / _REFUSED, {"why": why})

    def remove(self) -> None:
        """Ensures: there is no shipment from the first moment on, even if its files take longer."""
        (self.folder / _MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def incoming(data: Path) -> Path:
    return data / FOLDER_NAME


def make_folder(data: Path, name: str) -> Path:
    """An empty folder for a shipment; what an earlier attempt left there is gone."""
    folder = incoming(data) / name
    try:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / TABLES).mkdir(parents=True)
    except OSError as error:
        raise TransientError(f"{folder} cannot be made: {error.strerror}") from error
    return folder


@contextmanager
def shipment_folder(data: Path, name: str) -> Iterator[Path]:
    """A folder for a shipment, locked while it is made: no other process makes the same one, or removes it."""
    root = incoming(data)
    root.mkdir(FOLDER_MODE, exist_ok=True)
    with FileLock(root / f".{name}.{_LOCK}") as lock:
        if not lock.acquire(wait_s=0):
            raise PermanentError(f"{name} is under way already, by another process; wait for it")
        yield root / name


def sweep(data: Path) -> int:
    """Remove what was begun and never finished, by processes that are gone; how many folders that were."""
    swept = 0
    for folder in _folders(data):
        if (folder / _MANIFEST).exists():
            continue
        try:
            with shipment_folder(data, folder.name):
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
        except PermanentError:
            continue  # it is being made
    return swept


def ship(folder: Path, entries: list[ShipmentEntry], made_us: int) -> Shipment:
    """Make a shipment of what is in a folder. Survives: a power loss, as a whole or not at all."""
    sync_path(folder / TABLES)
    shipment = Shipment(folder, folder.name, tuple(entries))
    content = {
        "version": _VERSION,
        "id": shipment.id,
        "made_us": made_us,
        "entries": [_entry_json(entry) for entry in entries],
    }
    replace_json(folder / _MANIFEST, content)
    sync_path(folder.parent)
    return shipment


def waiting_shipments(data: Path) -> list[str]:
    """Names of the shipments that are there and not refused, in the order in which they are taken."""
    return [
        folder.name for folder in _folders(data) if (folder / _MANIFEST).exists() and not (folder / _REFUSED).exists()
    ]


def read_shipment(data: Path, name: str) -> Shipment:
    """PermanentError if its manifest is none."""
    folder = incoming(data) / name
    try:
        content = read_json(folder / _MANIFEST, _VERSION)
        return Shipment(folder, name, tuple(_entry(entry) for entry in content["entries"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PermanentError(f"{folder} is no shipment: {error}") from error


def was_seen(data: Path, name: str) -> bool:
    return (incoming(data) / name / _SEEN).exists()


def is_waiting(data: Path, name: str) -> bool:
    return (incoming(data) / name / _MANIFEST).exists()


def refusal(data: Path, name: str) -> str | None:
    """Why a shipment was not taken, if it was not."""
    try:
        return str(json.loads((incoming(data) / name / _REFUSED).read_bytes())["why"])
    except FileNotFoundError:
        return None


def _folders(data: Path) -> list[Path]:
    try:
        return sorted(path for path in incoming(data).iterdir() if path.is_dir() and NAME.fullmatch(path.name))
    except FileNotFoundError:
        return []


def _entry_json(entry: ShipmentEntry) -> dict[str, object]:
    return {
        "zone": None if entry.zone is None else _keyed(zone_key(entry.zone.name), _encode_zone(entry.zone)),
        "record": _generation_json(entry.record),
        "replaces": None if entry.replaces is None else _generation_json(entry.replaces),
        "tables": {str(shard): list(names) for shard, names in entry.tables.items()},
        "heads": {str(shard): [head.position_us, head.serial] for shard, head in (entry.heads or {}).items()},
    }


def _entry(content: Any) -> ShipmentEntry:
    record = decode_generation(*_pair(content["record"]))
    if not record.end_us:
        raise PermanentError(
            f"generation {record.number} of zone {record.zone!r} is open; only sealed ones are ingested"
        )
    names = [name for files in content["tables"].values() for name in files]
    if not all(NAME.fullmatch(name) for name in names):
        raise PermanentError("a table's name leads elsewhere")
    return ShipmentEntry(
        record,
        {int(shard): tuple(files) for shard, files in content["tables"].items()},
        None if content["zone"] is None else decode_zone(*_pair(content["zone"])),
        {int(shard): ShardHead(at[0], at[1], 1) for shard, at in content["heads"].items()},
        None if content["replaces"] is None else decode_generation(*_pair(content["replaces"])),
    )


def _generation_json(record: Generation) -> list[str]:
    return _keyed(generation_key(record.zone, record.number), encode_generation(record))


def _keyed(key: bytes, value: bytes) -> list[str]:
    return [key.hex(), value.hex()]


def _pair(content: Any) -> tuple[bytes, bytes]:
    key, value = content
    return bytes.fromhex(key), bytes.fromhex(value)
