"""The benchmark of parallel readers runs, and its table and its report hold every row, whatever the figures are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.parallel import command, plot, rows


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_quick_run_prints_and_reports_every_row(tmp_path: Path) -> None:
    called = [sys.executable, "-m", "bench", "parallel", "--quick", "--reports", str(tmp_path)]
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}

    done = subprocess.run(
        called, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "bench-parallel.json").read_text(encoding="utf-8"))["values"]
    assert sorted(values) == sorted(rows.keys())
    assert not [key for key, value in values.items() if key.endswith("/rate") and not value > 0]
    assert not [reader.label for reader in rows.READERS if reader.label not in done.stdout]
    assert (tmp_path / "bench-parallel.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_the_table_and_the_picture_compare_with_one_subscriber() -> None:
    results = dict.fromkeys(rows.keys(), 1000.0) | {"single/rate": 500.0}

    [block] = command.blocks(results)

    assert [line[0] for line in block.lines] == [reader.label for reader in rows.READERS]
    assert [line[2] for line in block.lines] == ["1.00x", *["2.00x"] * (len(rows.READERS) - 1)]
    assert {len(line) for line in block.lines} == {len(block.headings)}
    assert plot.draw(results).count("2.0x") == len(rows.READERS) - 1
