"""The plot: memory before, at its peak and after, a group of bars for each trouble, drawn as plain SVG."""

from __future__ import annotations

from collections.abc import Sequence

from bench import svg
from bench.stress.scenarios import Scenario
from bench.stress.table import Results

_COLOURS = (
    ("before_bytes", "before", "#9db9e3"),
    ("peak_bytes", "peak", "#1f4e9e"),
    ("after_bytes", "after", "#5b8fd6"),
)
_WIDTH = 980
_LABEL_WIDTH = 330
_NUMBER_WIDTH = 80
_BAR = 12
_TOP = 84


def draw(results: Results, scenarios: Sequence[Scenario]) -> str:
    most = max(results[scenario.key]["peak_bytes"] for scenario in scenarios)
    room = _WIDTH - _LABEL_WIDTH - _NUMBER_WIDTH
    body: list[str] = []
    y = _TOP
    for scenario in scenarios:
        body.append(svg.text(_LABEL_WIDTH - 10, y + 1.5 * _BAR + 4, scenario.label, size=12, anchor="end"))
        for name, _words, colour in _COLOURS:
            value = results[scenario.key][name]
            length = max(1.0, value / most * room)
            body.append(svg.bar(_LABEL_WIDTH, y, length, _BAR - 1, colour))
            words = f"{value / 2**20:,.0f} MB"
            body.append(svg.text(_LABEL_WIDTH + length + 6, y + _BAR - 2, words, size=10, colour=svg.FAINT))
            y += _BAR
        y += _BAR
    head = [
        *svg.head(_WIDTH, y),
        svg.text(24, 32, "Memory of the broker in trouble (shorter is better)", size=17, weight="bold"),
        *svg.legend(58, [(words, colour) for _name, words, colour in _COLOURS], ""),
    ]
    return "\n".join([*head, *body, "</svg>", ""])
