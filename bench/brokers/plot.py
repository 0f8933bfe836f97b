"""The plot: horizontal bars of messages per second, scenario by scenario, drawn as plain SVG."""

from __future__ import annotations

from collections.abc import Sequence

from bench import svg
from bench.brokers.collect import Results
from bench.brokers.peers import RELAY, Peer
from bench.brokers.scenarios import RATE, Scenario
from bench.brokers.table import number, rate

_COLOURS = ("#1f4e9e", "#d08a2e", "#4f9d69", "#b8bec8", "#8d6bb0", "#5b8fd6", "#c25b56")
_WIDTH = 860
_LABEL_WIDTH = 300
#: Room at the right end for the numbers behind the longest bar.
_NUMBER_WIDTH = 130
_BAR = 13
_GAP = 12
_TOP = 84


def draw(results: Results, scenarios: Sequence[Scenario], peers: Sequence[Peer]) -> str:
    """The whole picture: every row that is a rate."""
    shown = [peer for peer in peers if peer.name != RELAY]
    colours = {peer.name: _COLOURS[place % len(_COLOURS)] for place, peer in enumerate(shown)}
    body: list[str] = []
    y = _TOP
    for scenario in scenarios:
        for row in scenario.rows:
            if row.figure != RATE:
                continue
            rates = {peer.name: results.median(peer.name, scenario.key, row.part, RATE) for peer in shown}
            longest = max([value for value in rates.values() if value], default=1.0)
            body.append(svg.text(_LABEL_WIDTH, y + _BAR * len(shown) / 2 + 4, row.label, anchor="end"))
            for peer in shown:
                value = rates[peer.name]
                x = _LABEL_WIDTH + 10
                if value:
                    length = max(1.0, value / longest * (_WIDTH - x - _NUMBER_WIDTH))
                    cpu_us = results.median(peer.name, scenario.key, row.part, "cpu_us") or 0.0
                    words = f"{rate(value)}/s, {number(cpu_us)} µs"
                    body.append(svg.bar(x, y, length, _BAR - 1, colours[peer.name]))
                    x += int(length) + 6
                else:
                    words = "-"
                body.append(svg.text(x, y + _BAR - 3, words, size=11, colour=svg.FAINT))
                y += _BAR
            y += _GAP
    title = "Messages per second, and CPU time of the broker for each (longer bars are better)"
    entries = [(peer.title, colours[peer.name]) for peer in shown]
    head = [
        *svg.head(_WIDTH, y + _GAP),
        svg.text(24, 32, title, size=17, weight="bold"),
        *svg.legend(58, entries, "each row has its own scale"),
    ]
    return "\n".join([*head, *body, "</svg>", ""])
