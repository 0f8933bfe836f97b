"""Damaged files, kept as they were found, with a report of what was wrong.

<data folder>/quarantine/2026-03-01T10-15-00/   report.json and the files as they were found
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from holdfast.files.private import FOLDER_MODE
from holdfast.files.replacement import replace_json
from holdfast.storage.rocks.engine.failures import is_no_room
from holdfast.storage.rocks.engine.wal_scan import wal_files

QUARANTINE_NAME: Final = "quarantine"
_REPORT_NAME: Final = "report.json"


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong with the stored data."""

    kind: str
    file: str
    detail: str
    #: Batches [lo, hi) that had receipts and are gone; None when that cannot be told.
    lost_range: tuple[int, int] | None

    def __str__(self) -> str:
        lost = f"; batches {self.lost_range[0]} to {self.lost_range[1] - 1} are lost" if self.lost_range else ""
        return f"{self.kind} in {self.file}: {self.detail}{lost}"


def count_reports(folder: Path) -> int:
    """How many reports of damage lie in the quarantine of a data folder."""
    return sum(1 for _report in (folder / QUARANTINE_NAME).glob(f"*/{_REPORT_NAME}"))


class Quarantine:
    """The copies of one start. It exists on disk only when something was kept."""

    def __init__(self, root: Path, name: str | None = None) -> None:
        self.folder: Final = _unused(root / (name or datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")))
        self._kept = False

    def keep(self, database: Path) -> None:
        """Copies WAL, MANIFEST and CURRENT once; tables are left where they are, RocksDB never changes one."""
        if self._kept:
            return
        self._kept = True
        self.folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        for path in [*wal_files(database), *sorted(database.glob("MANIFEST-*")), database / "CURRENT"]:
            if not path.is_file():
                continue
            target = self.folder / path.name
            try:
                shutil.copy2(path, target)
            except OSError as error:
                if not is_no_room(error):
                    raise
                # RocksDB replaces these files and does not write into them, so a second name keeps the content.
                target.unlink(missing_ok=True)
                os.link(path, target)

    def take_lost(self, database: Path) -> list[str]:
        """Moves here what a repair has put aside. Returns the names."""
        lost = database / "lost"
        names: list[str] = []
        if lost.is_dir():
            for path in sorted(lost.iterdir()):
                # A repair also puts the WAL and the MANIFEST aside; those were copied before.
                if not (self.folder / path.name).exists():
                    shutil.move(str(path), self.folder / path.name)
                    if path.suffix == ".sst":
                        names.append(path.name)
            shutil.rmtree(lost, ignore_errors=True)
        return names

    def report(self, damage: Sequence[Damage]) -> None:
        self.folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        replace_json(self.folder / _REPORT_NAME, [asdict(found) for found in damage], indent=2)

    def discard(self) -> None:
        """What was kept turned out to be no damage."""
        if self._kept:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._kept = False


def _unused(path: Path) -> Path:
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
