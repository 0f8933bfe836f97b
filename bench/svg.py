"""Pieces of a picture, as plain SVG."""

from __future__ import annotations

from html import escape

INK = "#1f2733"
FAINT = "#667080"


def head(width: int, height: int) -> list[str]:
    """The picture's beginning, with its white ground."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, sans-serif">',
        bar(0, 0, width, height, "#ffffff"),
    ]


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" fill="{colour}"/>'


def text(
    x: float, y: float, words: str, *, size: int = 13, weight: str = "normal", colour: str = INK, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def legend(y: float, entries: list[tuple[str, str]], remark: str) -> list[str]:
    """Colours and what they stand for, in one line, then a remark."""
    lines: list[str] = []
    x = 24
    for name, colour in entries:
        lines += [bar(x, y - 10, 12, 12, colour), text(x + 18, y, name)]
        x += 40 + 8 * len(name)
    return [*lines, text(x, y, remark, colour=FAINT)]
