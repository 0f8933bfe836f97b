"""The files of quick tests go into memory, but only where there is enough of it and programs may run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
MEMORY = Path("/dev/shm")
NEEDED_BYTES = 4 << 30


def named_folder() -> str:
    return subprocess.run([ROOT / "scripts/memory_folder"], capture_output=True, text=True, check=True).stdout.strip()


def has_room() -> bool:
    kinds = {partition.mountpoint: partition.fstype for partition in psutil.disk_partitions(all=True)}
    return (
        kinds.get(str(MEMORY)) == "tmpfs"
        and shutil.disk_usage(MEMORY).free >= NEEDED_BYTES
        and psutil.virtual_memory().available >= 2 * NEEDED_BYTES
    )


def test_memory_is_used_where_it_has_room_and_nothing_stays_in_it() -> None:
    before = has_room()
    named = named_folder()
    after = has_room()

    assert named in ("", str(MEMORY))
    if before and after:
        options = next(one.opts for one in psutil.disk_partitions(all=True) if one.mountpoint == str(MEMORY))
        assert named == str(MEMORY) or "noexec" in options or "ro" in options.split(",")
    elif not before and not after:
        assert named == ""
    assert not list(MEMORY.glob("holdfast-??????"))
