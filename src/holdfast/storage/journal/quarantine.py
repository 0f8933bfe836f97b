"""Queues that cannot be read are set aside, as they were found, and the client begins a new one.

    <root>/quarantine/20260301T101500123456-4tDAhd…/    the queue's folder, and report.json
                                                        commit files that were damaged lie here, too

The new queue goes on above every serial that the old one is known to have given out, so that none is used again.
"""

import json
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.files import make_folders, sync_path
from holdfast.storage.journal.folders import queue_id
from holdfast.storage.journal.queue_state import QueueState
from holdfast.storage.journal.state_file import load_state_file
from holdfast.storage.private_files import FOLDER_MODE

_log = structlog.get_logger()

QUARANTINE_NAME: Final = "quarantine"
REPORT_NAME: Final = "report.json"
#: A queue cannot have given out more serials since its last readable state than this: states are written every turn.
_JUMP: Final = 1 << 20


def set_aside(root: Path, folder: Path, client_id: str, why: str, now_us: int) -> QueueState:
    """Move a queue away. The state that the client's next queue begins with."""
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
    """Keep a copy of a damaged commit file; what is readable in it is used all the same."""
    target = _place(root, "commits", now_us)
    target.mkdir(FOLDER_MODE)
    shutil.copy2(path, target / path.name)
    _report(target, {"file": path.name, "why": why})
    _log.error("changes of queues were damaged on disk", file=path.name, why=why, copy=str(target))


def quarantined(root: Path) -> list[dict[str, str]]:
    """What was set aside, for people: each with `place`, and what its report says."""
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
    stamp = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now_us)).strftime("%Y%m%dT%H%M%S%f")
    place, count = root / QUARANTINE_NAME / f"{stamp}-{name}", 1
    while place.exists():
        count += 1
        place = place.with_name(f"{stamp}-{name}-{count}")
    return place


def _report(target: Path, report: dict[str, str]) -> None:
    target.mkdir(FOLDER_MODE, exist_ok=True)
    with (target / REPORT_NAME).open("w", encoding="utf-8") as file:
        json.dump(report, file, indent=2, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    sync_path(target)
    sync_path(target.parent)
