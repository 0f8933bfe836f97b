"""The benchmark of the pure packages runs, and its table and report hold every row. How fast it is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.checkout import ROOT, compiled_obstacle
from bench.codec import rows
from bench.codec.variants import COMPILED, INTERPRETED


@pytest.mark.slow
def test_a_quick_run_prints_and_reports_every_row(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "codec", "--quick", "--no-group", "--reports", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    expected = rows.all_rows(rows.QUICK_SIZES)
    forms = [INTERPRETED] if compiled_obstacle(ROOT) else [INTERPRETED, COMPILED]
    assert [row["key"] for row in report["rows"]] == [row.key for row in expected]
    missing = [(row["key"], form) for row in report["rows"] for form in forms if not isinstance(row.get(form), float)]
    assert not missing
    assert not [row.label for row in expected if row.label not in done.stdout]
    assert all(form in done.stdout for form in forms)
    assert (tmp_path / "bench.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_every_row_has_a_key_of_its_own() -> None:
    keys = [row.key for row in rows.all_rows(rows.SIZES)]

    assert len(set(keys)) == len(keys)


def test_plain_python_in_the_compiled_tree_is_an_obstacle_that_says_why(tmp_path: Path) -> None:
    (tmp_path / ".compiled").mkdir()
    (tmp_path / ".compiled" / "NOT_COMPILED").write_text("no-compiler: no working C compiler\n", encoding="utf-8")

    obstacle = compiled_obstacle(tmp_path)

    assert obstacle is not None
    assert "no working C compiler" in obstacle


def test_a_stale_compiled_tree_is_an_obstacle(tmp_path: Path) -> None:
    for tree, text in (("src", "new\n"), (".compiled", "old\n")):
        (tmp_path / tree / "holdfast").mkdir(parents=True)
        (tmp_path / tree / "holdfast" / "wire.py").write_text(text, encoding="utf-8")

    obstacle = compiled_obstacle(tmp_path)

    assert obstacle is not None
    assert "out of date" in obstacle
