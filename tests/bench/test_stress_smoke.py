"""The benchmark of clients in trouble runs, and its table and its report hold every row, whatever the figures are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.stress import plot, table
from bench.stress.scenarios import QUICK, SCENARIOS

#: One that is deaf, one with backlogs, one with publishers for each session, and scans of retained messages.
_SOME = ("deaf", "return", "owed-each", "scan")


@pytest.mark.slow
def test_a_quick_run_prints_and_reports_every_row(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "stress", "--quick", "--troubles", ",".join(_SOME)]
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}

    done = subprocess.run(
        [*command, "--reports", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "bench-stress.json").read_text(encoding="utf-8"))["values"]
    assert sorted(values) == sorted(_SOME)
    assert not [(key, name) for key, found in values.items() for name, value in found.items() if not value > 0]
    assert values["return"]["messages"] == QUICK.clients * QUICK.backlog
    assert not [scenario.label for scenario in SCENARIOS if scenario.key in _SOME and scenario.label not in done.stdout]
    assert (tmp_path / "bench-stress.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_the_table_and_the_picture_hold_every_row() -> None:
    names = ("messages", "seconds", "before_bytes", "peak_bytes", "after_bytes")
    late = [f"{when}_{which}_ms" for when in ("before", "during") for which in ("p50", "p99")]
    results = {scenario.key: dict.fromkeys([*names, *late], 2.0**21) for scenario in SCENARIOS}

    shown = table.lines(results, SCENARIOS)

    assert [line[0] for line in shown] == [scenario.label for scenario in SCENARIOS]
    assert {len(line) for line in shown} == {len(table.HEADINGS)}
    assert all(scenario.label in plot.draw(results, SCENARIOS) for scenario in SCENARIOS)
