"""The plot: messages per second, gathered, by backend and by the number of clients, as plain SVG."""

from __future__ import annotations

from bench import svg
from bench.queues import rows
from bench.queues.collect import Results
from bench.storage.rows import PER_SECOND
from bench.storage.table import number

COLOURS = ("#1f4e9e", "#4f9d69", "#d08a2e")

_WIDTH = 860
_LABEL_WIDTH = 300
#: Room at the right end for a number behind the longest bar.
_NUMBER_WIDTH = 90
_BAR = 13
_GAP = 10


def draw(results: Results, clients: tuple[int, ...]) -> str:
    """The whole picture."""
    labels = {**rows.BACKENDS, rows.TBMQ: rows.TBMQ_LABEL}
    there = [backend for backend in labels if f"{backend}/{clients[0]}/batched" in results]
    body: list[str] = []
    names = [f"{count:,} client{'s' if count > 1 else ''}" for count in clients]
    body += svg.legend(60, list(zip(names, COLOURS, strict=False)), "longer is better")
    longest = max((results[f"{backend}/{count}/batched"] for backend in there for count in clients), default=1.0)
    x = _LABEL_WIDTH + 10
    y = 80
    for backend in there:
        body.append(svg.text(_LABEL_WIDTH, y + 2 * _BAR - 3, labels[backend], anchor="end"))
        for count, colour in zip(clients, COLOURS, strict=False):
            value = results[f"{backend}/{count}/batched"]
            length = max(1.0, value / longest * (_WIDTH - x - _NUMBER_WIDTH))
            body.append(svg.bar(x, y, length, _BAR - 1, colour))
            words = number(value, PER_SECOND)
            body.append(svg.text(x + length + 6, y + _BAR - 3, words, size=11, colour=svg.FAINT))
            y += _BAR
        y += _GAP
    title = "Client queues: messages appended per second, gathered"
    head = [*svg.head(_WIDTH, y + 10), svg.text(24, 32, title, size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])
