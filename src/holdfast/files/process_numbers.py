"""Processor time, memory and open files of a process, as the system tells them by `/proc`."""

import os
import time
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: In `/proc/PID/stat`, behind the name of the program, which is in parentheses.
_USER_TICKS: Final = 11
_SYSTEM_TICKS: Final = 12


def process_numbers(pid: int | None = None) -> dict[str, float]:
    """Numbers of this process or of another one, by the names of metrics; what the system does not tell is left out."""
    numbers: dict[str, float] = {}
    folder = _PROCESSES / ("self" if pid is None else str(pid))
    if pid is None:
        numbers["process_cpu_seconds_total"] = time.process_time()
    try:
        if pid is not None:
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
            numbers["process_cpu_seconds_total"] = ticks / _TICKS
        numbers["process_resident_memory_bytes"] = int((folder / "statm").read_text().split()[1]) * _PAGE_BYTES
        # Counting names would take long with many connections; since Linux 6.2 the size of the folder is the number.
        files = (folder / "fd").stat().st_size
        if files:
            numbers["process_open_fds"] = files
    except (OSError, ValueError, IndexError):
        pass
    return numbers
