"""The benchmark of layouts runs, and its tables and its report hold every row. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.layouts import arrow_scan
from bench.layouts.sizes import Size
from holdfast.storage.rocks.bench.layout_report import cells, number, rows
from holdfast.storage.rocks.layouts.build import ALL_LAYOUTS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow
def test_a_quick_run_measures_every_row_of_every_layout(tmp_path: Path) -> None:
    done = run("layouts", "--quick", "--reports", str(tmp_path), "--disk", str(tmp_path))

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "bench-layouts.json").read_text(encoding="utf-8"))
    assert len(report["sizes"]) == 2
    wanted = {key for row in [*rows(), *arrow_scan.ROWS] for key in row.keys}
    for size in report["sizes"]:
        assert tuple(size["layouts"]) == ALL_LAYOUTS
        for figures in size["layouts"].values():
            assert wanted <= figures.keys()
            assert figures["all_found"] == size["messages"]
    assert not [row.label for row in rows() if row.label not in done.stdout]
    assert (tmp_path / "bench-layouts.svg").read_text(encoding="utf-8").endswith("</svg>\n")
    assert not list(tmp_path.glob("holdfast-bench-*"))


def test_every_row_has_figures_of_its_own() -> None:
    keys = [key for row in rows() for key in row.keys]

    assert len(set(keys)) == len(keys)


def test_a_row_shows_its_figures_with_their_units() -> None:
    row = next(row for row in rows() if row.keys == ("topic_first_ms", "topic_us"))

    assert cells(row, [{"topic_first_ms": 0.151, "topic_us": 1234.5}]) == ["0.15 ms, 1,234 µs"]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (2.34, "µs", "2.34 µs"),
        (0.012, "ms", "12.0 µs"),
        (24_000.0, "µs", "24 ms"),
        (3e6, "µs", "3 s"),
        (1.9, "x", "1.90x"),
        (101.4, "B", "101 B"),
    ],
)
def test_numbers_are_short_and_have_a_unit(value: float, unit: str, shown: str) -> None:
    assert number(value, unit) == shown


@pytest.mark.parametrize("text", ["", "1000", "x", "10x", "0x5", "1e6x10"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match="no size"):
        Size.parse(text)
