"""Pieces of a picture, as plain SVG. Colours are names of classes, so that the page's light or dark decides them."""

from collections.abc import Iterable
from html import escape


def picture(width: int, height: int, label: str, pieces: Iterable[str]) -> str:
    """As wide as the page lets it; `label` is for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'preserveAspectRatio="xMidYMid meet">{"".join(pieces)}</svg>'
    )


def bar(
    x: float, y: float, width: float, height: float, kind: str, *, opacity: float = 1.0, round_px: float = 0
) -> str:
    more = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
    more += f' rx="{round_px:g}"' if round_px else ""
    size = f'width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}{more}/>'


def text(x: float, y: float, words: str, kind: str = "t", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def told(title: str, pieces: Iterable[str]) -> str:
    """Pieces that say something when pointed at."""
    return f"<g><title>{escape(title)}</title>{''.join(pieces)}</g>"
