"""Small file systems of their own for tests: one that fills up, and one whose power can be cut.

Both need root and the right to mount. Without it a test skips and says so; in CI it fails.
"""

import fcntl
import os
import struct
import subprocess
from pathlib import Path

import pytest

#: FS_IOC_SHUTDOWN of ext4 with NOLOGFLUSH: from this instant nothing reaches the device any more, not even the journal.
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        problem = f"{' '.join(command)}: {result.stderr.strip()}"
        if "CI" in os.environ:
            pytest.fail(problem)
        pytest.skip(f"needs root and the right to mount: {problem}")


class SmallDisk:
    """A tmpfs of a fixed size."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "holdfast-test", str(folder))

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize

    def fill(self, *, leave_bytes: int = 0) -> Path:
        """Another program takes the room."""
        ballast = self.folder / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free_bytes - leave_bytes)
        return ballast

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


class FragileDisk:
    """An ext4 file system in a file. After `cut_power` it holds what was synced, and by chance some more."""

    def __init__(self, folder: Path, size_mb: int = 2048) -> None:
        self.image = folder / "disk.img"
        self.folder = folder / "disk"
        self.folder.mkdir()
        # A sparse file: it takes only what is written.
        with self.image.open("wb") as file:
            file.truncate(size_mb << 20)
        _run("mkfs.ext4", "-q", "-F", str(self.image))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.folder))

    def cut_power(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def restart(self) -> None:
        """Requires: nobody has a file open on it."""
        subprocess.run(["umount", str(self.folder)], check=True)
        self._mount()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False)
