"""The plot: a panel for each question, a bar for each layout and size, drawn as plain SVG.

Times of reading differ by a factor of ten thousand, so their panels have a logarithmic scale.
"""

from __future__ import annotations

from math import log10

from bench import svg
from bench.layouts.sizes import Results, Size
from holdfast.storage.rocks.bench.layout_report import number

COLOURS = ("#5b8fd6", "#1f4e9e", "#d08a2e", "#4f9d69")

_WIDTH = 980
_COLUMNS = 2
_LABEL_WIDTH = 108
#: Room at the right end for a number behind the longest bar.
_NUMBER_WIDTH = 78
_BAR = 11
_GAP = 6
_TOP = 84

#: Heading, key, unit, and whether its scale is logarithmic.
PANELS = (
    ("Write, with compaction: CPU per message", "write_cpu_us", "µs", False),
    ("On disk: bytes per message", "disk_bytes", "B", False),
    ("One device: first message", "device_first_ms", "ms", True),
    ("One device: CPU for all its messages", "device_whole_ms", "ms", True),
    ("+ in the middle: first message", "line_first_ms", "ms", True),
    ("+ in the middle: CPU per message found", "line_us", "µs", True),
    ("#: first message", "all_first_ms", "ms", True),
    ("#: CPU per message", "all_us", "µs", False),
)


def draw(results: Results) -> str:
    """The whole picture."""
    body: list[str] = []
    width = (_WIDTH - 24) // _COLUMNS
    y = below = _TOP
    for place, (heading, key, unit, logarithmic) in enumerate(PANELS):
        if place % _COLUMNS == 0:
            y = below
        x = 24 + place % _COLUMNS * width
        below = max(below, _panel(body, x, y, width, (heading, key, unit), results, logarithmic=logarithmic))
    entries = [(size.title, COLOURS[place % len(COLOURS)]) for place, size in enumerate(results)]
    title = "The layouts of the log (shorter is better)"
    head = [
        *svg.head(_WIDTH, below),
        svg.text(24, 32, title, size=17, weight="bold"),
        *svg.legend(58, entries, ""),
    ]
    return "\n".join([*head, *body, "</svg>", ""])


def _panel(
    body: list[str], x: int, y: int, width: int, what: tuple[str, str, str], results: Results, *, logarithmic: bool
) -> int:
    """Draw one panel; where the next one below may begin."""
    heading, key, unit = what
    remark = ", logarithmic" if logarithmic else ""
    body.append(svg.text(x, y + 14, f"{heading}, {unit}{remark}", weight="bold"))
    y += 26
    values = [figures[key] for by_layout in results.values() for figures in by_layout.values()]
    room = width - _LABEL_WIDTH - 10 - _NUMBER_WIDTH
    for name in _layouts(results):
        sizes: list[Size] = [size for size, by_layout in results.items() if name in by_layout]
        body.append(svg.text(x + _LABEL_WIDTH, y + _BAR * len(sizes) / 2 + 4, name, size=12, anchor="end"))
        for size in sizes:
            value = results[size][name][key]
            length = max(1.0, _share(value, values, logarithmic=logarithmic) * room)
            colour = COLOURS[list(results).index(size) % len(COLOURS)]
            body.append(svg.bar(x + _LABEL_WIDTH + 10, y, length, _BAR - 1, colour))
            words = number(value, unit)
            body.append(svg.text(x + _LABEL_WIDTH + length + 16, y + _BAR - 2, words, size=10, colour=svg.FAINT))
            y += _BAR
        y += _GAP
    return y + 18


def _layouts(results: Results) -> list[str]:
    return list(dict.fromkeys([name for by_layout in results.values() for name in by_layout]))


def _share(value: float, values: list[float], *, logarithmic: bool) -> float:
    """How long a bar is, from 0 to 1; on a logarithmic scale the shortest one is a twentieth."""
    if not logarithmic:
        return value / max(values)
    least, most = log10(min(values)), log10(max(values))
    return 0.05 + 0.95 * (log10(value) - least) / max(most - least, 1e-9)
