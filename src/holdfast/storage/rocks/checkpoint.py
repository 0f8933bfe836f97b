"""A checkpoint of a database that is in use, and how a node takes the checkpoint of another one for its own database.

    <data folder>/
      checkpoints/<id>/   this node's, while another one is installed from it; its tables are hard links
      install.json        an installation that is wanted or nearly done: its step, and why
      install/            what is installed: `manifest`, and `rocks/` as far as it has come
      replaced/           the database that was replaced, until the installation is complete

    step     what is there                               what a start does
    ───────  ──────────────────────────────────────────  ────────────────────────────────────────────────────────
    wanted   the old database, perhaps a part of a new   the rest is fetched (`cluster/checkpoint/install`)
    staged   all of the new one, synced, in `install/`   `complete_installation`, before anything is opened

1. The old database is in its place until the new one is complete and on disk.
2. `synced` is of the old database, so it goes before the new one is opened: its numbers would look like damage. `heads`
   stays until the node publishes others: readers beside it do not believe what is above the database.
3. Everything else in the folder is this node's own, and stays: its id, the store of its NATS server, locks, events.
4. `complete_installation` may end at any step. Called again, it goes on from there.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rocksdict import Checkpoint

from holdfast.files.private import FOLDER_MODE
from holdfast.files.replacement import read_json, replace_json, sync_path
from holdfast.model.errors import PermanentError
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.open_lock import lock_to_open
from holdfast.storage.rocks.engine.synced_mark import MARK_NAME

#: Names in the data folder. Never change those that a killed process may leave behind.
DATABASE_NAME: Final = "rocks"
CHECKPOINTS_NAME: Final = "checkpoints"
STAGING_NAME: Final = "install"
_STEP_NAME: Final = "install.json"
_REPLACED_NAME: Final = "replaced"
_QUARANTINE_NAME: Final = "quarantine"
_VERSION: Final = 1
_WANTED: Final = "wanted"
_STAGED: Final = "staged"

#: Told the name of a step when it is done.
Reached = Callable[[str], None]


def create_checkpoint(engine: Engine, target: Path) -> None:
    """Make a database in a folder that does not exist, on the same file system: all that is written by now.

    Takes long: call it from a separate thread. The loop is held up only while RocksDB links its files.
    """
    engine.flush()
    Checkpoint(engine.family("default")).create_checkpoint(str(target))


@dataclass(frozen=True)
class Installation:
    """An installation that is wanted, or staged."""

    step: str
    why: str
    #: Whether the database that is replaced is kept: it has come to something else than others.
    keep_replaced: bool = False

    @property
    def is_staged(self) -> bool:
        return self.step == _STAGED


def find_installation(folder: Path) -> Installation | None:
    """The installation that a folder waits for. PermanentError: its file cannot be read."""
    path = folder / _STEP_NAME
    try:
        content = read_json(path, _VERSION)
        found = Installation(str(content["step"]), str(content["why"]), bool(content["keep_replaced"]))
        if found.step not in (_WANTED, _STAGED):
            raise ValueError(f"its step is {found.step!r}")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise PermanentError(f"{path} cannot be read: {error}; right would be the step of an installation") from error
    return found


def want_installation(folder: Path, why: str, *, keep_replaced: bool = False) -> None:
    """Have the next start install a checkpoint, whatever it finds. Survives: a power loss."""
    _write_step(folder, Installation(_WANTED, why, keep_replaced))


def note_staged(folder: Path, why: str) -> None:
    """Requires: `install/rocks` is complete and on disk. Ensures: from here on it is the node's database."""
    wanted = find_installation(folder)
    keep = wanted is not None and wanted.keep_replaced
    _write_step(folder, Installation(_STAGED, why, keep))


def _write_step(folder: Path, found: Installation) -> None:
    content = {"version": _VERSION, "step": found.step, "why": found.why, "keep_replaced": found.keep_replaced}
    replace_json(folder / _STEP_NAME, content)


def complete_installation(folder: Path, reached: Reached = lambda _step: None) -> bool:
    """Put a staged database into its place; whether there was one. Also removes checkpoints of an earlier run.

    SettingsError: another process has the folder. OSError: it cannot be done now, and may be called again.
    """
    if not folder.is_dir():
        return False
    lock = FolderLock.acquire(folder)
    try:
        shutil.rmtree(folder / CHECKPOINTS_NAME, ignore_errors=True)
        found = find_installation(folder)
        if found is None or not found.is_staged:
            return False
        # Readers beside the node open their secondaries of the one or of the other.
        with lock_to_open(folder):
            _swap(folder, reached)
        _clean_up(folder, keep_replaced=found.keep_replaced)
        reached("install.cleaned")
        (folder / _STEP_NAME).unlink()
        sync_path(folder)
    finally:
        lock.release()
    return True


def _swap(folder: Path, reached: Reached) -> None:
    staged, database, replaced = folder / STAGING_NAME / DATABASE_NAME, folder / DATABASE_NAME, folder / _REPLACED_NAME
    if not staged.is_dir():
        # An earlier call has come further.
        return
    (folder / MARK_NAME).unlink(missing_ok=True)
    if database.exists():
        # What is there already is of an installation before this one.
        shutil.rmtree(replaced, ignore_errors=True)
        database.rename(replaced)
        sync_path(folder)
        reached("install.moved")
    staged.rename(database)
    sync_path(folder)
    reached("install.swapped")


def _clean_up(folder: Path, *, keep_replaced: bool) -> None:
    replaced = folder / _REPLACED_NAME
    if keep_replaced and replaced.is_dir():
        quarantine = folder / _QUARANTINE_NAME
        quarantine.mkdir(FOLDER_MODE, exist_ok=True)
        replaced.rename(quarantine / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-replaced")
        sync_path(quarantine)
    shutil.rmtree(replaced, ignore_errors=True)
    shutil.rmtree(folder / STAGING_NAME, ignore_errors=True)
