"""The plot: messages per second of each reader, as plain SVG."""

from __future__ import annotations

from bench import svg
from bench.parallel import rows
from bench.parallel.collect import Results
from bench.storage.table import number

_WIDTH = 860
_LABEL_WIDTH = 330
_NUMBER_WIDTH = 130
_LINE = 24
_TOP = 84
_COLOURS = {"mqtt": "#d08a2e", "path": "#1f4e9e", "flight": "#4a86d8"}


def draw(results: Results) -> str:
    """The whole picture."""
    rates = {reader.key: results[f"{reader.key}/rate"] for reader in rows.READERS}
    longest = max(rates.values())
    x = _LABEL_WIDTH + 10
    body = [svg.text(24, 62, "Messages per second on two cores; longer is better", weight="bold")]
    y = _TOP
    for reader in rows.READERS:
        rate = rates[reader.key]
        length = max(1.0, rate / longest * (_WIDTH - x - _NUMBER_WIDTH))
        told = f"{number(rate, rows.MEASURED['rate'])}  {rate / rates[rows.SINGLE]:.1f}x"
        body.append(svg.text(_LABEL_WIDTH, y + 13, reader.label.replace("`", ""), anchor="end"))
        body.append(svg.bar(x, y, length, 16, _COLOURS[reader.kind]))
        body.append(svg.text(x + length + 6, y + 13, told, size=11, colour=svg.FAINT))
        y += _LINE
    head = [*svg.head(_WIDTH, y + 8), svg.text(24, 32, "Reading one history in parallel", size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])
