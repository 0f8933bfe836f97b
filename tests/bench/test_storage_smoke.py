"""The benchmark of the log on disk runs, and its tables and its report hold every row, whatever the figures are."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.storage import rows, table
from bench.storage.collect import QUICK
from bench.storage.command import parse_stored
from bench.storage.segment_steps import StepTimes
from bench.storage.store import Store
from holdfast.model.ids import ClientId
from holdfast.model.message import Message


@pytest.mark.slow
def test_a_quick_run_prints_and_reports_every_row(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "storage", "--quick", "--reports", str(tmp_path), "--disk", str(tmp_path)]
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}

    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "bench-storage.json").read_text(encoding="utf-8"))["values"]
    assert sorted(values) == sorted(rows.keys(QUICK.stored))
    assert not [key for key, value in values.items() if not value > 0]
    assert not [row.label for row in rows.STORED if row.label not in done.stdout]
    assert (tmp_path / "bench-storage.svg").read_text(encoding="utf-8").endswith("</svg>\n")
    assert not list(tmp_path.glob("holdfast-bench-*"))


def test_tables_hold_every_value() -> None:
    sizes = (1_000_000, 10_000_000)
    results = {key: 1000.0 + place for place, key in enumerate(rows.keys(sizes))}

    commits, stored, slices, kept = table.blocks(results, sizes)

    assert len(commits.lines) == len(rows.COMMITS)
    assert len(stored.lines) == len(rows.STORED)
    assert len(slices.lines) == len(rows.MOMENTS)
    assert len(kept.lines) == len(rows.PAYLOADS)
    for block in (commits, stored, slices, kept):
        assert {len(line) for line in block.lines} == {len(block.headings)}


def test_steps_are_timed_by_whether_they_stored_something(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    heard: list[str] = []
    written = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        store.write([Message(b"a", b"payload", 1, ClientId("c"), 1)])
        written.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def run(steps: StepTimes) -> None:
        await steps

    async def main() -> StepTimes:
        steps = StepTimes(store, work())
        running = asyncio.create_task(run(steps))
        await written.wait()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return steps

    steps = asyncio.run(main())
    store.close()

    assert (len(steps.other_ms), len(steps.storing_ms), heard) == (1, 1, ["cancelled"])


def test_a_goal_says_whether_more_or_less_is_better() -> None:
    results = dict.fromkeys(rows.keys((1,)), 1.0)
    goals = {line[0]: line[-1] for line in table.blocks(results, (1,))[1].lines}

    assert goals["open after kill -9"] == "≤ 2.00 s"
    assert goals["replay of `#` from disk"] == "≥ 300k/s"
    assert goals["open after a clean end"] == "≤ 2.00 s"


@pytest.mark.parametrize("text", ["", "many", "1,", "0", "-5"])
def test_an_amount_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match="no list of numbers"):
        parse_stored(text)
