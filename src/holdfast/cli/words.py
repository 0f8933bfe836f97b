"""Sizes and times in words for people."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def size_in_words(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def iso_time(us: int) -> str:
    """µs since 1970 as ISO 8601 in UTC, always of one width."""
    return (_EPOCH + timedelta(microseconds=us)).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
