"""How a report writes things: numbers, sizes and times with their units as text, tables and tiles as HTML."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Final

from holdfast.model.time import DAY_S

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600


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
        ("d", DAY_S, "h", _HOUR_S),
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


# ---- tables and tiles, as HTML


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = ()) -> str:
    """Cells are HTML. `numeric` columns are aligned to the right."""
    right = set(numeric)
    kinds = [' class="n"' if i in right else "" for i in range(len(heads))]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(heads, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def name(text: str) -> str:
    """A topic, a client, a pattern: long ones are cut, and shown whole when pointed at."""
    # What divides a mount point from a client id cannot be shown.
    shown = escape(text.replace("\0", "␀"))
    return f'<code title="{shown}">{shown}</code>'


def shared(part: float, whole: float, kind: str = "c1", *, with_number: bool = True) -> str:
    """A share with its bar, or the bar alone."""
    percent = 100 * part / whole if whole else 0.0
    track = f'<span class="track"><i class="{kind}" style="width:{max(percent, 0.5):.1f}%"></i></span>'
    return f'<span class="share">{track}{f"<b>{share(part, whole)}</b>" if with_number else ""}</span>'


def tiles(found: Iterable[tuple[str, str, str]]) -> str:
    """Large numbers: what, how much, and a remark."""
    cells = "".join(
        f"<div><span>{escape(what)}</span><strong>{escape(much)}</strong><em>{escape(remark)}</em></div>"
        for what, much, remark in found
    )
    return f'<div class="tiles">{cells}</div>'


def strip(parts: Sequence[tuple[str, float, str]]) -> str:
    """Parts of a whole in one line: name, count, class of the colour."""
    whole = sum(count for _name, count, _kind in parts)
    shown = [part for part in parts if part[1]]
    pieces = "".join(f'<i class="{kind}" style="flex:{count / whole:.4f}"></i>' for _name, count, kind in shown)
    keys = "".join(
        f'<li><i class="{kind}"></i>{escape(name)} <b>{share(count, whole)}</b></li>' for name, count, kind in shown
    )
    return f'<div class="strip">{pieces}</div><ul class="legend">{keys}</ul>'
