"""Numbers, sizes and times in words, each with its unit."""

from datetime import datetime
from typing import Final

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


def number(count: float) -> str:
    """In full up to a million, then short."""
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:,.0f}"


def several(count: int, what: str) -> str:
    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def tick(count: float) -> str:
    """As short as an axis needs it."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(count) >= size:
            return f"{count / size:g}{unit}"
    return f"{count:g}"


def size(size_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def binary_size(size_bytes: int) -> str:
    """A power of two."""
    for unit, one in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= one:
            return f"{size_bytes // one} {unit}"
    return f"{size_bytes} B"


def duration(seconds: float) -> str:
    """With two units at most."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    for unit, size_s, below, below_s in (
        ("d", _DAY_S, "h", _HOUR_S),
        ("h", _HOUR_S, "min", _MINUTE_S),
        ("min", _MINUTE_S, "s", 1),
    ):
        if seconds >= size_s:
            rest = int(seconds % size_s // below_s)
            return f"{int(seconds // size_s)} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds:.0f} s"


def share(part: float, whole: float) -> str:
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    return "< 0.1 %" if percent < 0.1 else f"{percent:.1f} %"


def moment(at: datetime | None) -> str:
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M}"


def day(at: datetime) -> str:
    return f"{at:%a} {at.day} {at:%b}"
