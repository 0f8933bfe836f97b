"""Sizes, times and names as text."""

import unicodedata

from holdfast.model.time import datetime_of


def format_size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_time(us: int) -> str:
    """µs since 1970 as ISO 8601 in UTC, always with the same width."""
    return datetime_of(us).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def format_duration(seconds: float) -> str:
    """As text: 5 s, 3 min, 2.5 h, 4.0 d."""
    for unit, size, digits in (("d", 86400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def printable(text: str) -> str:
    """A name as a terminal may show it: characters that move the cursor or turn the line around are written out."""
    return "".join(
        character if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else ascii(character)[1:-1]
        for character in text
    )


def describe_session(session_id: str) -> str:
    """A session id as text: the client id, and its mount point if it has one."""
    mount_point, behind, client = session_id.partition("\0")
    return printable(f"{client} (mount point {mount_point})" if behind else session_id)
