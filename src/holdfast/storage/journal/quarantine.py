"""Queues that cannot be read are moved to quarantine unchanged, and the client gets a new queue.

    <root>/quarantine/20260301T101500123456-4tDAhd…/    the queue's folder, and report.json
                                                        also damaged commit files

The new queue begins above every serial that the old one may have given out, so that none is used twice.
"""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from holdfast.files.folders import make_folders
from holdfast.files.private import FOLDER_MODE
from holdfast.files.replacement import replace_json, sync_path
from holdfast.model.errors import PermanentError
from holdfast.model.time import datetime_of
from holdfast.storage.journal.queue.state_file import QueueState, load_state_file
from holdfast.storage.journal.queue_folders import queue_id

_log = structlog.get_logger()

QUARANTINE_NAME: Final = "quarantine"
REPORT_NAME: Final = "report.json"
#: A queue has given out fewer serials than this since its last readable state: states are written with every commit.
_JUMP: Final = 1 << 20


def set_aside(root: Path, folder: Path, client_id: str, why: str, now_us: int) -> QueueState:
    """Move a queue to quarantine. Returns the first state of the client's new queue."""
    after = QueueState()
    with suppress(PermanentError, FileNotFoundError, StopIteration):
        last = next(load_state_file(folder).states)
        after = QueueState(serial=last.serial + _JUMP, number=last.number, given=last.serial + _JUMP)
    target = _place(root, queue_id(client_id), now_us)
    with suppress(FileNotFoundError):
        folder.replace(target)
    _report(target, {"client": client_id, "why": why, "folder": str(folder.relative_to(root))})
    _log.error("a queue cannot be read and was set aside", client=client_id, why=why, now_in=str(target))
    return after


def set_aside_commits(root: Path, path: Path, why: str, now_us: int) -> None:
    """Keep a copy of a damaged commit file; its readable part is still used."""
    target = _place(root, "commits", now_us)
    target.mkdir(FOLDER_MODE)
    shutil.copy2(path, target / path.name)
    _report(target, {"file": path.name, "why": why})
    _log.error("changes of queues were damaged on disk", file=path.name, why=why, copy=str(target))


def quarantined(root: Path) -> list[dict[str, str]]:
    """The content of the quarantine: the place of each, and the fields of its report."""
    found: list[dict[str, str]] = []
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(root / QUARANTINE_NAME)):
            folder = root / QUARANTINE_NAME / name
            report: dict[str, str] = {}
            with suppress(OSError, ValueError):
                report = json.loads((folder / REPORT_NAME).read_bytes())
            found.append({"place": str(folder), **report})
    return found


def _place(root: Path, name: str, now_us: int) -> Path:
    make_folders(root / QUARANTINE_NAME)
    stamp = datetime_of(now_us).strftime("%Y%m%dT%H%M%S%f")
    place, count = root / QUARANTINE_NAME / f"{stamp}-{name}", 1
    while place.exists():
        count += 1
        place = place.with_name(f"{stamp}-{name}-{count}")
    return place


def _report(target: Path, report: dict[str, str]) -> None:
    target.mkdir(FOLDER_MODE, exist_ok=True)
    replace_json(target / REPORT_NAME, report, indent=2)
    sync_path(target.parent)
