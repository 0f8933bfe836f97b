"""The plot: rows per second of a query, as plain SVG."""

from __future__ import annotations

from bench import svg
from bench.spark import rows
from bench.spark.collect import Results
from bench.storage.table import number

_WIDTH = 860
_LABEL_WIDTH = 390
_NUMBER_WIDTH = 110
_LINE = 24
_TOP = 84
_COLOURS = {"path": "#1f4e9e", "sql": "#123a7a", "flight": "#4a86d8", "parquet": "#8a8a8a", "json": "#d08a2e"}


def draw(results: Results) -> str:
    """The whole picture. A count of Parquet reads no rows, and would dwarf the others."""
    shown = [query for query in rows.QUERIES if query.key != "parquet_count"]
    longest = max(results[f"query/{query.key}/rate"] for query in shown)
    x = _LABEL_WIDTH + 10
    body = [svg.text(24, 62, "Rows per second on two cores; longer is better", weight="bold")]
    y = _TOP
    for query in shown:
        value = results[f"query/{query.key}/rate"]
        length = max(1.0, value / longest * (_WIDTH - x - _NUMBER_WIDTH))
        body.append(svg.text(_LABEL_WIDTH, y + 13, query.label, anchor="end"))
        body.append(svg.bar(x, y, length, 16, _COLOURS[query.source]))
        body.append(svg.text(x + length + 6, y + 13, number(value, rows.PER_SECOND), size=11, colour=svg.FAINT))
        y += _LINE
    head = [*svg.head(_WIDTH, y + 8), svg.text(24, 32, "Spark over history", size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])
