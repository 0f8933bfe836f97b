"""The plot: messages per second of both clusters, as plain SVG."""

from __future__ import annotations

import math

from bench import svg
from bench.cluster import rows
from bench.storage.rows import PER_SECOND
from bench.storage.table import number

_WIDTH = 860
_LABEL_WIDTH = 330
_NUMBER_WIDTH = 130
_TOP = 84
_BAR = 16
_COLOURS = {rows.OURS: "#1f4e9e", rows.NATS: "#d08a2e"}
_TITLES = {rows.OURS: "Holdfast, three nodes", rows.NATS: "NATS with MQTT, three servers"}


def draw(results: dict[str, float]) -> str:
    """The whole picture."""
    rates = {key: value for key, value in results.items() if key.endswith("/rate") and not math.isnan(value)}
    x = _LABEL_WIDTH + 10
    body = svg.legend(62, [(_TITLES[peer], _COLOURS[peer]) for peer in _COLOURS], "messages per second")
    longest = max(rates.get(f"{peer}/{row.key}/rate", 0.0) for row in rows.LOADS for peer in _COLOURS) or 1.0
    y = _TOP
    for row in rows.LOADS:
        body.append(svg.text(_LABEL_WIDTH, y + 20, row.label, anchor="end"))
        for peer, colour in _COLOURS.items():
            rate = rates.get(f"{peer}/{row.key}/rate", 0.0)
            length = max(1.0, rate / longest * (_WIDTH - x - _NUMBER_WIDTH))
            body.append(svg.bar(x, y, length, _BAR, colour))
            body.append(svg.text(x + length + 6, y + 13, number(rate, PER_SECOND), size=11, colour=svg.FAINT))
            y += _BAR + 2
        y += 12
    head = [*svg.head(_WIDTH, y + 8), svg.text(24, 32, "Three nodes as one broker", size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])
