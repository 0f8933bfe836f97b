"""Whether a file has changed since it was read last, without reading it."""

from pathlib import Path

#: Time of change, size, file number.
Stamp = tuple[int, int, int]


def file_stamp(path: Path) -> Stamp | None:
    """Differs from an earlier one if the file was changed or replaced; None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
