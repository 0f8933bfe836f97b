"""RocksDB's MANIFEST: which file it is, and how long. It only grows, so a shorter one has lost something."""

import os
from pathlib import Path
from typing import Final


def manifest_of(database: Path) -> tuple[int, int]:
    """(number, bytes) of the MANIFEST in use; zeros when that cannot be told."""
    try:
        name = (database / "CURRENT").read_text().strip()
        return int(name.removeprefix("MANIFEST-")), (database / name).stat().st_size
    except (OSError, ValueError):
        return 0, 0


class ManifestWatch:
    """The length that is on disk for certain. Cheap enough to ask after every sync: one system call on an open file."""

    def __init__(self, database: Path) -> None:
        self._database: Final = database
        self._number = 0
        self._descriptor = -1
        self._synced_bytes = -1

    def synced(self) -> tuple[int, int]:
        """(number, bytes). Survives: a power loss. Zeros while RocksDB begins another one."""
        if self._descriptor >= 0 and os.fstat(self._descriptor).st_nlink == 0:
            # RocksDB has begun another one, and removed this.
            self.close()
        if self._descriptor < 0:
            self._open()
            if self._descriptor < 0:
                return 0, 0
        size_bytes = os.fstat(self._descriptor).st_size
        if size_bytes != self._synced_bytes:
            # RocksDB may be in the middle of a sync.
            os.fsync(self._descriptor)
            self._synced_bytes = size_bytes
        return self._number, size_bytes

    def _open(self) -> None:
        self._number, _size_bytes = manifest_of(self._database)
        self._synced_bytes = -1
        if self._number:
            try:
                self._descriptor = os.open(self._database / f"MANIFEST-{self._number:06d}", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                self._number = 0

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
