"""The plot: rows per second of each job, as plain SVG."""

from __future__ import annotations

from bench import svg
from bench.jobs import rows
from bench.jobs.collect import Results
from bench.storage.table import number

_WIDTH = 860
_LABEL_WIDTH = 390
_NUMBER_WIDTH = 110
_LINE = 24
_TOP = 84


def draw(results: Results) -> str:
    """The whole picture."""
    rates = {job: results[f"job/{job.key}/rate"] for job in rows.JOBS}
    longest = max(rates.values())
    x = _LABEL_WIDTH + 10
    body = [svg.text(24, 62, "Rows per second on two cores; longer is better", weight="bold")]
    y = _TOP
    for job, value in rates.items():
        length = max(1.0, value / longest * (_WIDTH - x - _NUMBER_WIDTH))
        body.append(svg.text(_LABEL_WIDTH, y + 13, job.label.replace("`", ""), anchor="end"))
        body.append(svg.bar(x, y, length, 16, "#8a8a8a" if job.key == "copy" else "#1f4e9e"))
        body.append(svg.text(x + length + 6, y + 13, number(value, rows.PER_SECOND), size=11, colour=svg.FAINT))
        y += _LINE
    head = [*svg.head(_WIDTH, y + 8), svg.text(24, 32, "Spark's jobs over history", size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])
