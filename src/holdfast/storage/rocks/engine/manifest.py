"""RocksDB's MANIFEST: which file it is, and how long. It only grows, so a shorter one has lost something."""

import os
from pathlib import Path
from typing import Final

from holdfast.files.replacement import sync_path


def manifest_of(database: Path) -> tuple[int, int]:
    """(number, bytes) of the MANIFEST in use; zeros when that cannot be told."""
    try:
        name = (database / "CURRENT").read_text().strip()
        return int(name.removeprefix("MANIFEST-")), (database / name).stat().st_size
    except (OSError, ValueError):
        return 0, 0


#: How often the file is looked at. Its length may be so much older than the sync that it is noted with: it only grows.
_LOOK_S: Final = 0.1


class ManifestWatch:
    """The length that is on disk for certain. Cheap enough to ask after every sync."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._number = 0
        self._path = database
        self._synced_bytes = -1
        self._looked_s = float("-inf")

    def synced(self, now_s: float) -> tuple[int, int]:
        """(number, bytes). Survives: a power loss."""
        if now_s - self._looked_s < _LOOK_S:
            return self._number, self._synced_bytes
        self._looked_s = now_s
        try:
            size_bytes = os.stat(self._path).st_size if self._number else -1
        except FileNotFoundError:
            size_bytes = -1
        if size_bytes < 0:
            # At first, and when RocksDB has begun another one.
            self._number, size_bytes = manifest_of(self._database)
            self._path = self._database / f"MANIFEST-{self._number:06d}"
        if size_bytes != self._synced_bytes and self._number:
            try:
                # RocksDB may be in the middle of its own sync.
                sync_path(self._path)
            except FileNotFoundError:
                # RocksDB has begun another one just now: the next look finds it.
                self._number = size_bytes = 0
                self._looked_s = float("-inf")
        self._synced_bytes = size_bytes
        return self._number, size_bytes
