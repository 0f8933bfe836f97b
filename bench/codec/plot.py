"""The plot: horizontal bars per way to decode and encode, drawn as plain SVG.

One panel per kind of work, each with its own scale, because an object costs many times what a scan costs.
"""

from __future__ import annotations

from bench import svg
from bench.codec import rows
from bench.codec.collect import Results
from bench.codec.table import HEADINGS, present
from bench.codec.variants import COMPILED, GROUP, INTERPRETED

COLOURS = {INTERPRETED: "#b8bec8", COMPILED: "#5b8fd6", GROUP: "#1f4e9e"}

_WIDTH = 860
_LABEL_WIDTH = 190
#: Room at the right end for a number behind the longest bar.
_NUMBER_WIDTH = 90
_BAR = 13
_GAP = 14
_TOP = 84

#: Heading of a panel, and the first part of the keys of its bars.
PANELS = (
    ("Decode: scan in place", "decode/scan/"),
    ("Decode: to an object", "decode/object/"),
    ("Encode: from parts", "encode/parts/"),
    ("Encode: from an object", "encode/object/"),
)
_SHAPES = tuple(shape for shape in rows.SHAPES if shape.qos == 1)


def draw(results: Results) -> str:
    """The whole picture."""
    forms = present(results)
    body: list[str] = []
    y = _TOP
    for heading, prefix in PANELS:
        bars = [(shape.label.replace(", QoS 1", ""), f"{prefix}{shape.key}") for shape in _SHAPES]
        y = _panel(body, y, heading, bars, results, forms)
    bars = [("frame, scan, route", rows.ROUTE_KEY)]
    y = _panel(body, y, "Decode and route: MQTT 3.1.1, 64 B, topic in the cache", bars, results, forms)
    return "\n".join([*_head(y, forms), *body, "</svg>", ""])


def _head(height: int, forms: list[str]) -> list[str]:
    title = "Processor time per PUBLISH at QoS 1, µs (shorter is better)"
    entries = [(HEADINGS[form], COLOURS[form]) for form in forms]
    return [
        *svg.head(_WIDTH, height),
        svg.text(24, 32, title, size=17, weight="bold"),
        *svg.legend(58, entries, "each panel has its own scale"),
    ]


def _panel(
    body: list[str], y: int, heading: str, bars: list[tuple[str, str]], results: Results, forms: list[str]
) -> int:
    """Draw one panel from `y` downwards; where the next one may begin."""
    body.append(svg.text(24, y + 14, heading, weight="bold"))
    y += 28
    longest = max(results[form][key] for _, key in bars for form in forms)
    for label, key in bars:
        middle = y + _BAR * len(forms) // 2 + 5
        body.append(svg.text(_LABEL_WIDTH + 14, middle, label, anchor="end"))
        for form in forms:
            value = results[form][key]
            length = max(1.0, value / longest * (_WIDTH - _LABEL_WIDTH - 24 - _NUMBER_WIDTH))
            x = _LABEL_WIDTH + 24
            body.append(svg.bar(x, y, length, _BAR - 1, COLOURS[form]))
            body.append(svg.text(x + length + 6, y + _BAR - 3, f"{value:.2f}", size=11, colour=svg.FAINT))
            y += _BAR
        y += _GAP
    return y + _GAP
