"""Sizes and times as text."""

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
