"""The benchmark of the console runs, and its tables and its report hold every row, whatever the figures are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.console import command, plot, rows
from bench.console.browser import find_browser
from bench.storage.rows import MILLISECONDS, PER_SECOND

#: What a difference may be.
_MAY_BE_NEGATIVE = {"memory/broker_mb", "browser/heap_growth_mb"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_quick_run_prints_and_reports_every_row(tmp_path: Path) -> None:
    called = [sys.executable, "-m", "bench", "console", "--quick", "--reports", str(tmp_path)]
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}

    done = subprocess.run(
        called, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "bench-console.json").read_text(encoding="utf-8"))["values"]
    has_browser = find_browser() is not None
    assert sorted(values) == sorted(rows.keys(browser=has_browser))
    assert not [key for key, value in values.items() if not value > 0 and key not in _MAY_BE_NEGATIVE]
    assert not [budget.label for budget in rows.measured(rows.BUDGETS, values) if budget.label not in done.stdout]
    assert (tmp_path / "bench-console.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_tables_and_picture_hold_every_budget() -> None:
    results = {key: 1000.0 + place for place, key in enumerate(rows.keys())}

    blocks = command.blocks(results)

    assert [line[0] for block in blocks for line in block.lines] == [budget.label for budget in rows.BUDGETS]
    assert {len(line) for block in blocks for line in block.lines} == {len(block.headings) for block in blocks}
    picture = plot.draw(results)
    assert not [row.label for row in rows.SIZES if row.label.replace("`", "") not in picture]


@pytest.mark.parametrize(
    ("value", "at_least", "verdict"),
    [(0.99, True, "met"), (0.98, True, "missed"), (0.98, False, "met"), (1.0, False, "missed")],
)
def test_a_ratio_is_judged_by_its_bound(value: float, at_least: bool, verdict: str) -> None:
    budget = rows.Budget("a", "label", PER_SECOND, 0.99, at_least, "b")

    values = {"a": value * 200, "b": 200.0}
    line = command._line(budget, values | rows.ratios(values, (budget,)))

    assert line[1] == f"{value:.3f}x"
    assert line[-1] == verdict


def test_a_figure_without_a_budget_is_neither_met_nor_missed() -> None:
    budget = rows.Budget("a", "label", MILLISECONDS, None)

    assert budget.is_met({"a": 1.0}) is None
    assert plot.used(budget, {"a": 1.0}) is None
    assert command._line(budget, {"a": 1.0})[-2:] == ("", "")
