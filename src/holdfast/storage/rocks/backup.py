"""Backups of a data folder that no broker has open, and the way back.

    <backup>/
      backup.json     format, when, the last batch in it, and every file with size and SHA-256
      rocks/…         a database that can be opened: tables, MANIFEST, CURRENT, the WAL's part
      erasures.json   what was erased, if anything was
      blocks.jsonl    who is not let in, if anybody is

`holdfast backup` opens the database itself, so the broker has to be stopped. A checkpoint is made in the data folder,
where tables are hard links and cost nothing. From there each file goes to the backup by the cheapest way that is right:

1. it is linked from the previous backup, if that has a file of the same name, size and checksum;
2. it is linked from the checkpoint, on the same file system;
3. it is copied.

A backup is complete when backup.json is there; that file is written last. Tables never change, so a link is as
good as a copy against mistakes and crashes, though not against a dying disk: keep backups on another one.
"""

import errno
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from holdfast.files.block_file import FILE_NAME as BLOCKS_NAME
from holdfast.files.private import FOLDER_MODE, make_private_folder
from holdfast.files.replacement import replace_json, sync_path
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.storage.rocks.checkpoint import DATABASE_NAME, create_checkpoint
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.erasure_file import FILE_NAME as ERASURES_NAME

MANIFEST_NAME: Final = "backup.json"
#: Never change the meaning of a number. A reader refuses numbers that it does not know.
_FORMAT: Final = 1
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupFile:
    """One file of a backup."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup."""

    folder: Path
    made: str
    batch: int
    files: tuple[BackupFile, ...]
    #: How many bytes were copied; the rest are links.
    copied_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def create_backup(engine: Engine, folder: Path, *, previous: Path | None = None) -> Backup:
    """Requires: a folder that is empty or absent. Ensures: every batch that has a receipt now is in the backup.

    Takes long: call it from a separate thread. The engine's thread is held up only while RocksDB links its files.
    """
    _refuse_content(folder, "a backup needs an empty folder")
    earlier = {file.name: file for file in read_backup(previous).files} if previous is not None else {}
    staging = engine.folder / "checkpoint"
    shutil.rmtree(staging, ignore_errors=True)
    batch = engine.synced
    create_checkpoint(engine, staging)
    try:
        make_private_folder(folder)
        target = folder / DATABASE_NAME
        target.mkdir(FOLDER_MODE, exist_ok=True)
        files: list[BackupFile] = []
        copied_bytes = 0
        for path in sorted(staging.iterdir()):
            file = BackupFile(path.name, path.stat().st_size, checksum(path))
            old = previous / DATABASE_NAME / file.name if previous is not None else None
            if old is not None and earlier.get(file.name) == file and _link(old, target / file.name):
                pass
            elif not _link(path, target / file.name):
                _copy(path, target / file.name)
                copied_bytes += file.size_bytes
            files.append(file)
        sync_path(target)
        for name in (ERASURES_NAME, BLOCKS_NAME):
            if (engine.folder / name).exists():
                _copy(engine.folder / name, folder / name)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        backup = Backup(folder, made, batch, tuple(files), copied_bytes)
        _write_manifest(backup)
        return backup
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def read_backup(folder: Path) -> Backup:
    """What a backup says about itself."""
    path = folder / MANIFEST_NAME
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        if fields["format"] != _FORMAT:
            raise PermanentError(f"{path} has format {fields['format']}; this version reads format {_FORMAT}")
        files = tuple(BackupFile(file["name"], file["size_bytes"], file["sha256"]) for file in fields["files"])
        return Backup(folder, fields["made"], fields["batch"], files)
    except FileNotFoundError:
        raise PermanentError(f"{folder} is not a complete backup: it has no {MANIFEST_NAME}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise PermanentError(f"{path} is damaged: {error!r}") from error


def verify_backup(folder: Path) -> list[str]:
    """What is wrong with a backup, a line for each file; nothing when every byte is as it was."""
    problems: list[str] = []
    backup = read_backup(folder)
    for file in backup.files:
        path = folder / DATABASE_NAME / file.name
        if not path.is_file():
            problems.append(f"{file.name} is missing")
        elif path.stat().st_size != file.size_bytes:
            problems.append(f"{file.name} has {path.stat().st_size} bytes, it had {file.size_bytes}")
        elif checksum(path) != file.sha256:
            problems.append(f"{file.name} has another checksum than it had")
    named = {file.name for file in backup.files}
    present = sorted(path.name for path in (folder / DATABASE_NAME).glob("*"))
    problems += [f"{name} does not belong to it" for name in present if name not in named]
    return problems


def restore_backup(backup_folder: Path, folder: Path) -> Backup:
    """Requires: an empty or absent data folder. Ensures: a node can start in it, with what the backup held.

    Copies, never links: the restored node must not share a file with its backup.
    """
    _refuse_content(folder, "a backup is restored into an empty folder")
    problems = verify_backup(backup_folder)
    if problems:
        raise PermanentError(f"the backup {backup_folder} is damaged: {'; '.join(problems)}. Use an older one")
    backup = read_backup(backup_folder)
    # Under another name until it is whole, so that a node never starts on half a database.
    partial = folder / f"{DATABASE_NAME}.partial"
    make_private_folder(folder)
    partial.mkdir(FOLDER_MODE, exist_ok=True)
    for file in backup.files:
        _copy(backup_folder / DATABASE_NAME / file.name, partial / file.name)
    sync_path(partial)
    for name in (ERASURES_NAME, BLOCKS_NAME):
        if (backup_folder / name).exists():
            # Before there is a database: no reader may see it without, and no broker may start without.
            _copy(backup_folder / name, folder / name)
    partial.rename(folder / DATABASE_NAME)
    sync_path(folder)
    return backup


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_content(folder: Path, rule: str) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} is not empty; {rule}")


def _link(source: Path, target: Path) -> bool:
    """Only tables: the other files of a checkpoint may be open for writing under their first name."""
    if source.suffix not in (".sst", ".blob"):
        return False
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOENT):
            return False
        raise
    return True


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, _CHUNK_BYTES)
        writer.flush()
        os.fsync(writer.fileno())


def _write_manifest(backup: Backup) -> None:
    content = {
        "format": _FORMAT,
        "made": backup.made,
        "batch": backup.batch,
        "files": [{"name": f.name, "size_bytes": f.size_bytes, "sha256": f.sha256} for f in backup.files],
    }
    replace_json(backup.folder / MANIFEST_NAME, content, indent=1)
