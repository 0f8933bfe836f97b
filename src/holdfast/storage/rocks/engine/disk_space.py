"""How full the disk is, as one of three states with hysteresis.

    free   ────────── low ─────────── full ──────── 0
    state      ok      │      low       │    full
    back       ok at low + margin       low at full + margin

A state is entered at its mark and left only a margin above it, so that a disk that hovers at a mark raises
one alarm and not a hundred. The decision is pure; `DiskWatch` asks the file system.

`FreeSpace` is for the writer: it asks the file system so rarely that every write can ask it.
"""

import os
import shutil
from enum import IntEnum
from pathlib import Path
from typing import Final

from holdfast.model.errors import SettingsError

#: How long a reading of `FreeSpace` is good for: seconds, and bytes written.
_READING_S: Final = 0.05
_READING_BYTES: Final = 8 << 20


class DiskState(IntEnum):
    """Ordered by severity."""

    OK = 0
    #: Raise an alarm, break leases, drop what retention allows.
    LOW = 1
    #: Refuse messages that have to be stored. Reads go on.
    FULL = 2


class Watermarks:
    """Free space below which a state begins: a number of bytes or a share of the disk, whichever is larger."""

    def __init__(
        self,
        *,
        low_bytes: int = 2 << 30,
        full_bytes: int = 512 << 20,
        low_percent: float = 10.0,
        full_percent: float = 3.0,
        margin_percent: float = 1.0,
    ) -> None:
        if full_bytes > low_bytes:
            raise SettingsError(
                f"disk full mark {full_bytes} bytes is above the low mark {low_bytes}; it must be below"
            )
        if not 0 <= full_percent <= low_percent <= 100:
            raise SettingsError(
                f"disk marks must obey 0 <= full <= low <= 100 percent, not full {full_percent}, low {low_percent}"
            )
        if margin_percent < 0:
            raise SettingsError(f"the disk margin must not be negative, not {margin_percent} percent")
        self.low_bytes: Final = low_bytes
        self.full_bytes: Final = full_bytes
        self.low_percent: Final = low_percent
        self.full_percent: Final = full_percent
        self.margin_percent: Final = margin_percent

    def low(self, total_bytes: int) -> int:
        return self._mark(self.low_bytes, self.low_percent, total_bytes)

    def full(self, total_bytes: int) -> int:
        return self._mark(self.full_bytes, self.full_percent, total_bytes)

    def margin(self, total_bytes: int) -> int:
        return int(total_bytes * self.margin_percent / 100)

    def _mark(self, size_bytes: int, percent: float, total_bytes: int) -> int:
        # On a small disk the bytes alone would exceed what there is, and the state could never be left.
        return min(max(size_bytes, int(total_bytes * percent / 100)), total_bytes // 2)


def next_state(state: DiskState, free_bytes: int, total_bytes: int, marks: Watermarks) -> DiskState:
    """The state after `free_bytes` was seen in `state`."""
    full, low, margin = marks.full(total_bytes), marks.low(total_bytes), marks.margin(total_bytes)
    if free_bytes < full or (state is DiskState.FULL and free_bytes < full + margin):
        return DiskState.FULL
    if free_bytes < low or (state is not DiskState.OK and free_bytes < low + margin):
        return DiskState.LOW
    return DiskState.OK


class FreeSpace:
    """Free bytes of the file system that a descriptor is on. A reading is good for a moment, or for some writes.

    What other programs write meanwhile is not seen, which is why writers keep a reserve.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._free_bytes = 0
        self._used_bytes = 0
        self._read_s = float("-inf")

    def read(self, now_s: float, need_bytes: int) -> int:
        """Asks again when the reading is old, or says less than what is needed."""
        free_bytes = self._free_bytes - self._used_bytes
        if now_s - self._read_s >= _READING_S or self._used_bytes >= _READING_BYTES or free_bytes < need_bytes:
            disk = os.fstatvfs(self._descriptor)
            free_bytes = self._free_bytes = disk.f_bavail * disk.f_frsize
            self._used_bytes = 0
            self._read_s = now_s
        return free_bytes

    def forget(self) -> None:
        """The next reading asks the file system."""
        self._read_s = float("-inf")

    def use(self, size_bytes: int) -> None:
        """So much was written since the reading."""
        self._used_bytes += size_bytes


class DiskWatch:
    """The state of the file system that a folder lies on."""

    def __init__(self, folder: Path, marks: Watermarks) -> None:
        self._folder: Final = folder
        self._marks: Final = marks
        self.state = DiskState.OK
        self.free_bytes = 0
        self.total_bytes = 0

    def check(self) -> DiskState:
        usage = shutil.disk_usage(self._folder)
        self.free_bytes, self.total_bytes = usage.free, usage.total
        self.state = next_state(self.state, usage.free, usage.total, self._marks)
        return self.state
