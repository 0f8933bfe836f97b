"""The plot: how much of each budget is used, as plain SVG; what goes beyond the line has missed it."""

from __future__ import annotations

from bench import svg
from bench.console import rows
from bench.console.rows import Budget

_WIDTH = 980
_LABEL_WIDTH = 470
_NUMBER_WIDTH = 90
_LINE = 20
_MET, _MISSED = "#1f4e9e", "#c0392b"
#: A bar that is longer is cut; its number says how long it would be.
_LONGEST = 2.0


def used(budget: Budget, results: dict[str, float]) -> float | None:
    """The share of the budget that is used: at most 1 if it is met; None without a budget."""
    if budget.bound is None:
        return None
    value = budget.value(results)
    if not budget.at_least:
        return value / budget.bound
    return budget.bound / value if value > 0 else _LONGEST


def draw(results: dict[str, float]) -> str:
    """The whole picture."""
    x = _LABEL_WIDTH + 10
    unit = (_WIDTH - x - _NUMBER_WIDTH) / _LONGEST
    body: list[str] = []
    y = 56
    for heading, table in rows.TABLES.items():
        body.append(svg.text(24, y + 14, heading, weight="bold"))
        y += 26
        for budget in rows.measured(table, results):
            share = used(budget, results)
            if share is None:
                continue
            length = min(_LONGEST, max(share, 0.005)) * unit
            body.append(svg.text(_LABEL_WIDTH, y + 12, budget.label.replace("`", ""), size=11, anchor="end"))
            body.append(svg.bar(x, y, length, 14, _MET if share <= 1 else _MISSED))
            body.append(svg.text(x + length + 6, y + 12, f"{share:.0%}", size=11, colour=svg.FAINT))
            y += _LINE
        y += 8
    body.append(svg.bar(x + unit, 50, 1, y - 56, svg.INK))
    title = "Budgets of the console: share that is used; beyond the line is missed"
    head = [*svg.head(_WIDTH, y + 8), svg.text(24, 32, title, size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])
