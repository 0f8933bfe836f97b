"""Tables of a report, as HTML: the largest first, numbers aligned, and a bar where a share says more."""

from collections.abc import Iterable, Sequence
from html import escape

from holdfast.pipeline.report import words


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
    return f'<span class="share">{track}{f"<b>{words.share(part, whole)}</b>" if with_number else ""}</span>'


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
        f'<li><i class="{kind}"></i>{escape(name)} <b>{words.share(count, whole)}</b></li>'
        for name, count, kind in shown
    )
    return f'<div class="strip">{pieces}</div><ul class="legend">{keys}</ul>'
