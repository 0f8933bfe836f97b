"""The benchmark of brokers runs, and its table and its report hold every row. How fast anything is, no test says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.brokers import jobs, peers, scenarios, system_calls
from bench.checkout import ROOT


@pytest.mark.slow
def test_a_quick_run_measures_every_row_of_holdfast(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "brokers", "--quick", "--peers", "holdfast", "--reports", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "bench-brokers.json").read_text(encoding="utf-8"))
    expected = scenarios.all_rows()
    assert [row["key"] for row in report["rows"]] == [row.key for row in expected]
    missing = {row["key"]: row["peers"]["holdfast"] for row in report["rows"]}
    assert not {key: found for key, found in missing.items() if not isinstance(found["median"], float)}
    assert not [row.label for row in expected if row.label not in done.stdout]
    if shutil.which("strace"):
        assert "System calls a message" in done.stdout
        assert {"scenario", "peer", "messages", "calls"} == set(report["system_calls"][0])
    assert (tmp_path / "bench-brokers.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_every_row_has_a_key_of_its_own() -> None:
    keys = [row.key for row in scenarios.all_rows()]

    assert len(set(keys)) == len(keys)


def test_another_checkout_and_another_layout_are_peers(tmp_path: Path) -> None:
    (tmp_path / "src" / "holdfast").mkdir(parents=True)
    other = peers.find(f"holdfast:timeline@{tmp_path}", install=False)
    assert other.title == f"Holdfast, timeline in {tmp_path.name}"
    assert other.environment["PYTHONPATH"] == str(tmp_path / "src")
    assert "storage.layout=timeline" in other.command(tmp_path, 1)
    assert "interpreted" in other.note, "it has no compiled modules"
    assert "storage.durability=os" in peers.find("holdfast:os", install=False).command(tmp_path, 1)


def test_only_a_broker_with_history_is_asked_for_a_replay(tmp_path: Path) -> None:
    (tmp_path / "src" / "holdfast").mkdir(parents=True)
    [replay] = [scenario.job for scenario in scenarios.SCENARIOS if scenario.key == "replay"]

    assert peers.find(f"holdfast@{tmp_path}", install=False).cannot(replay) == ""
    assert peers.find("relay", install=False).cannot(replace(replay, kind=jobs.CLOSED)) == ""
    assert peers.Peer("other", "Other", lambda _folder, _port: []).cannot(replay) == "no replay"


def test_counts_of_strace_are_calls_by_name() -> None:
    text = """syscall              calls
---------------- ---------
epoll_wait              20
sendto                   5
---------------- ---------
total                   25
"""
    counted = system_calls.CallCount("load", "broker", 10, system_calls.parse_counts(text))
    assert counted.by_name == {"epoll_wait": 20, "sendto": 5}
    assert counted.each() == 2.5
    assert counted.each(system_calls.KINDS["sent"]) == 0.5
