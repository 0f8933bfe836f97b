"""The benchmark of Spark runs, and its tables and its report hold every row, whatever the figures are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.spark import command, rows


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_quick_run_prints_and_reports_every_row(tmp_path: Path) -> None:
    called = [sys.executable, "-m", "bench", "spark", "--quick", "--reports", str(tmp_path)]
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}

    done = subprocess.run(
        called, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "bench-spark.json").read_text(encoding="utf-8"))["values"]
    assert sorted(values) == sorted(rows.keys())
    assert not [key for key, value in values.items() if not value > 0]
    assert not [query.label for query in rows.QUERIES if query.label not in done.stdout]
    assert (tmp_path / "bench-spark.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_tables_hold_every_value() -> None:
    results = {key: 1000.0 + place for place, key in enumerate(rows.keys())}
    queries, written, device, latency, waits = command.blocks(results)
    assert len(queries.lines) == len(rows.QUERIES)
    assert len(device.lines) == len(rows.DEVICE)
    assert len(waits.lines) == len(rows.MOMENTS)
    for block in (queries, written, device, latency, waits):
        assert {len(line) for line in block.lines} == {len(block.headings)}
