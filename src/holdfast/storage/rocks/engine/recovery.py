"""Opens the database after a crash or damage, and reports what is missing.

    read the WAL's frames, cut it at a gap, thin out range tombstones
    open, every record must be good ───── yes ──→ compare with the synced mark
        │ no: copy WAL, MANIFEST and CURRENT to quarantine/<time>/
    open, up to the first bad record ──── yes ──→ compare with the synced mark
        │ no: a file is missing or no file
    repair, then open ─────────────────── yes ──→ report; files that the repair gave up go to the quarantine
        │ no
    UnreadableError

1. A bad tail behind the last sync is what a crash leaves. It is not damage: no batch in it has a receipt.
2. A database that ends before the mark has lost receipts, whichever way it was opened.
3. Files are copied before RocksDB may change them. RocksDB takes a MANIFEST that became shorter for the truth, and
   deletes the tables that it does not name. So the mark knows its length too, and a shorter one means repair.
4. The report is on disk (quarantine/<time>/report.json) before the mark is set to what was found.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocksdict import DBRecoveryMode, Options, Rdict

from holdfast.files.replacement import replace_file
from holdfast.storage.rocks.engine.failures import DiskFullError, FolderHeldError, UnreadableError, is_no_room
from holdfast.storage.rocks.engine.manifest import manifest_of
from holdfast.storage.rocks.engine.open_lock import lock_to_open
from holdfast.storage.rocks.engine.options import (
    DEFAULT,
    LASTING_FAMILIES,
    SharedOptions,
    database_options,
    family_options,
)
from holdfast.storage.rocks.engine.quarantine import Damage, Quarantine
from holdfast.storage.rocks.engine.range_tombstones import thin_wal
from holdfast.storage.rocks.engine.synced_mark import Synced
from holdfast.storage.rocks.engine.wal_scan import find_gap, used_bytes, wal_files

#: In the default family: the number of the last batch, big-endian u64. Never change.
BATCH_KEY: Final = b"batch"

_FILE_NAME: Final = re.compile(r"\d{6,}\.(?:sst|log|blob)|MANIFEST-\d+|CURRENT")
_CURRENT: Final = re.compile(rb"MANIFEST-\d+\n")


@dataclass(slots=True)
class OpenedDatabase:
    """A database that is open, and what was found on the way."""

    database: Rdict
    shared: SharedOptions
    sequence: int
    batch: int
    damage: list[Damage] = field(default_factory=list)
    #: Says what was cut off when the end of the WAL was torn, which is no damage.
    torn_tail: str | None = None


def open_database(path: Path, quarantine: Quarantine, mark: Synced | None, *, mark_is_exact: bool) -> OpenedDatabase:
    """Requires: the folder's lock. Ensures: a writable database that ends with a whole batch, or an error says why."""
    try:
        with lock_to_open(path.parent):
            opened = _open(path, quarantine, mark, mark_is_exact=mark_is_exact)
    except Exception as error:
        if is_no_room(error):
            need_mb = sum(file.stat().st_size for file in wal_files(path)) // 1_000_000 + 16
            raise DiskFullError(
                f"no room to open {path}: recovery writes the WAL's contents into tables. Free about {need_mb} MB"
            ) from error
        raise
    if opened.damage:
        quarantine.report(opened.damage)
    else:
        quarantine.discard()
    return opened


def _open(path: Path, quarantine: Quarantine, mark: Synced | None, *, mark_is_exact: bool) -> OpenedDatabase:
    shared = SharedOptions()
    damage: list[Damage] = []
    torn_tail = None
    repaired = False
    if (path / "CURRENT").exists() or wal_files(path) or list(path.glob("*.sst")):
        torn_tail = _cut_at_gap(path, quarantine)
        thin_wal(path)
        damage += _mend_current(path, quarantine)
        repaired = any(found.kind == "repaired" for found in damage)
        if not repaired and _manifest_became_shorter(path, mark):
            damage.append(_repair(path, quarantine, "the MANIFEST is shorter than it was at the last sync"))
            repaired = True
    try:
        database = _try(path, shared, DBRecoveryMode.absolute_consistency())
    except Exception as error:
        _pass_on(error, path)
        first = str(error)
        quarantine.keep(path)
        torn_tail = f"{first} ({_blame(first, path)})" if torn_tail is None else f"{torn_tail}; {first}"
        try:
            database = _try(path, shared, DBRecoveryMode.point_in_time())
        except Exception as again:
            _pass_on(again, path)
            damage.append(_repair(path, quarantine, str(again)))
            repaired = True
            try:
                database = _try(path, shared, DBRecoveryMode.point_in_time())
            except Exception as last:
                _pass_on(last, path)
                raise UnreadableError(
                    f"{path} cannot be opened ({first}), and after a repair it still cannot ({last}). The files as "
                    f"they were found are in {quarantine.folder}. Restore a backup into an empty folder: "
                    "holdfast restore BACKUP --data FOLDER"
                ) from last
    sequence = database.latest_sequence_number()
    batch = read_batch(database)
    short = _compare(mark, sequence, batch, torn_tail, path)
    if short is not None:
        quarantine.keep(path)
        damage.append(short)
    if torn_tail is not None and mark is None and not repaired:
        detail = f"{torn_tail}; there was no synced mark to tell a torn tail from damage"
        damage.append(Damage("unknown tail", "WAL", detail, None))
    if torn_tail is not None and not mark_is_exact:
        torn_tail += "; the machine was restarted, so the last second before it cannot be judged"
    return OpenedDatabase(database, shared, sequence, batch, damage, None if damage else torn_tail)


def _cut_at_gap(path: Path, quarantine: Quarantine) -> str | None:
    """RocksDB would go on behind a gap, and keep a batch without those before it."""
    files = wal_files(path)
    gap = find_gap(files)
    if gap is None:
        return None
    quarantine.keep(path)
    os.truncate(gap.file, gap.end)
    for later in files[files.index(gap.file) + 1 :]:
        later.unlink()
    return f"the WAL leaves out sequence numbers {gap.lo} to {gap.hi - 1}; it was cut there ({gap.file.name})"


def _compare(mark: Synced | None, sequence: int, batch: int, error: str | None, path: Path) -> Damage | None:
    if mark is None or sequence >= mark.sequence:
        return None
    lost = (batch + 1, mark.batch + 1) if batch < mark.batch else None
    detail = f"sequence numbers {sequence + 1} to {mark.sequence} were synced and are gone"
    return Damage("lost records", _blame(error or "", path), f"{detail}: {error}" if error else detail, lost)


def _try(path: Path, shared: SharedOptions, mode: DBRecoveryMode) -> Rdict:
    present = Rdict.list_cf(str(path), Options(raw_mode=True)) if (path / "CURRENT").exists() else []
    names = {*present, *LASTING_FAMILIES, DEFAULT}
    families = {name: family_options(name, shared) for name in names}
    return Rdict(str(path), database_options(shared, mode), families)


def read_batch(database: Rdict) -> int:
    value = database.get(BATCH_KEY)
    return int.from_bytes(value, "big") if isinstance(value, bytes) else 0


def _mend_current(path: Path, quarantine: Quarantine) -> list[Damage]:
    """CURRENT only names the MANIFEST. When the name is unreadable, the newest MANIFEST is the one."""
    current = path / "CURRENT"
    content = current.read_bytes() if current.exists() else b""
    if _CURRENT.fullmatch(content) and (path / content.decode().strip()).exists():
        return []
    manifests = sorted(path.glob("MANIFEST-*"))
    quarantine.keep(path)
    if not manifests:
        return [_repair(path, quarantine, "there is no MANIFEST")]
    replace_file(current, f"{manifests[-1].name}\n".encode())
    detail = f"it named {content[:40]!r}; now it names {manifests[-1].name}"
    return [Damage("bad CURRENT", "CURRENT", detail, None)]


def _manifest_became_shorter(path: Path, mark: Synced | None) -> bool:
    if mark is None or not mark.manifest_number:
        return False
    number, size_bytes = manifest_of(path)
    if number != mark.manifest_number:
        return number < mark.manifest_number
    # RocksDB reads up to zeros, and deletes the tables that it has not read of.
    return min(size_bytes, used_bytes(path / f"MANIFEST-{number:06d}")) < mark.manifest_bytes


def _repair(path: Path, quarantine: Quarantine, reason: str) -> Damage:
    """RocksDB builds a new MANIFEST from the tables and the WAL. A family is known to it by its tables (`engine`)."""
    quarantine.keep(path)
    try:
        Rdict.repair(str(path), database_options(SharedOptions(), DBRecoveryMode.point_in_time()))
    except Exception as error:
        _pass_on(error, path)
        raise UnreadableError(
            f"{path} is damaged ({reason}) and cannot be repaired ({error}). The files as they were found are in "
            f"{quarantine.folder}. Restore a backup into an empty folder: holdfast restore BACKUP --data FOLDER"
        ) from error
    given_up = quarantine.take_lost(path)
    detail = f"{reason}; RocksDB repaired it"
    if given_up:
        detail += f" without {', '.join(given_up)}, which are kept in {quarantine.folder}"
    return Damage("repaired", _blame(reason, path), detail, None)


def _blame(text: str, path: Path) -> str:
    """The file that an error names, or the WAL, which RocksDB does not name."""
    return named_file(text) or ", ".join(file.name for file in wal_files(path)) or "WAL"


def named_file(text: str) -> str | None:
    found = _FILE_NAME.search(text)
    return found.group() if found else None


def _pass_on(error: Exception, path: Path) -> None:
    """Raises what is no damage. A repair for want of descriptors or rights would give up tables that are good."""
    text = str(error)
    if is_no_room(error):
        raise error
    if "lock hold by current process" in text or "While lock file" in text:
        raise FolderHeldError(f"the database is open already: {text}") from error
    if not text.startswith("Corruption") and "No such file" not in text:
        raise UnreadableError(f"{path} cannot be opened, and a repair would not help: {text}") from error
