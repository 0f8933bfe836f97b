"""The plot: rows per second of a scan, and what a bystander waits, as plain SVG."""

from __future__ import annotations

from bench import svg
from bench.history import rows
from bench.history.collect import Results
from bench.storage.table import number

_WIDTH = 860
_LABEL_WIDTH = 330
_NUMBER_WIDTH = 110
_LINE = 24
_SCAN, _WAIT = "#1f4e9e", "#d08a2e"


def draw(results: Results) -> str:
    """The whole picture."""
    body: list[str] = []
    scans = [(scan.label.replace("`", ""), results[f"scan/{scan.key}/rate"]) for scan in rows.SCANS]
    y = _bars(body, 56, "Rows per second through Arrow Flight; longer is better", scans, rows.PER_SECOND, _SCAN)
    waits = [(words, results[f"bystander/{moment}/p99_ms"]) for moment, words in rows.MOMENTS.items()]
    title = "What 99 of 100 messages of a bystander wait for their PUBACK, at most; shorter is better"
    y = _bars(body, y + 12, title, waits, rows.MILLISECONDS, _WAIT)
    head = [*svg.head(_WIDTH, y + 8), svg.text(24, 32, "Reading history", size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])


def _bars(body: list[str], y: int, title: str, lines: list[tuple[str, float]], unit: str, colour: str) -> int:
    body.append(svg.text(24, y + 14, title, weight="bold"))
    y += 28
    longest = max(value for _words, value in lines)
    x = _LABEL_WIDTH + 10
    for words, value in lines:
        length = max(1.0, value / longest * (_WIDTH - x - _NUMBER_WIDTH))
        body.append(svg.text(_LABEL_WIDTH, y + 13, words, anchor="end"))
        body.append(svg.bar(x, y, length, 16, colour))
        body.append(svg.text(x + length + 6, y + 13, number(value, unit), size=11, colour=svg.FAINT))
        y += _LINE
    return y
