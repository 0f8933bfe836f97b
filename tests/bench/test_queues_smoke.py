"""The benchmark of client queues runs, and its tables and its report hold every row, whatever the figures are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.checkout import ROOT
from bench.queues import postgres_server, redis_server, rows, table
from bench.queues.collect import QUICK
from bench.queues.workload import calls
from tests.services import need


@pytest.mark.slow
def test_a_quick_run_prints_and_reports_every_row(tmp_path: Path) -> None:
    need(redis_server.PROGRAM, redis_server.PACKAGE)
    if postgres_server.missing():
        need("initdb", postgres_server.PACKAGE)
    command = [sys.executable, "-m", "bench", "queues", "--quick", "--reports", str(tmp_path)]
    # The Holdfast under test, not the one that is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}

    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    values = json.loads((tmp_path / "bench-queues.json").read_text(encoding="utf-8"))["values"]
    assert sorted(values) == sorted(rows.keys(list(rows.BACKENDS), QUICK.clients, QUICK.pairs))
    assert not [key for key, value in values.items() if not value > 0 and "compaction" not in key]
    assert not [label for label in rows.BACKENDS.values() if label not in done.stdout]
    assert (tmp_path / "bench-queues.svg").read_text(encoding="utf-8").endswith("</svg>\n")


def test_tables_hold_every_value_and_say_what_is_not_there() -> None:
    clients, pairs = (1, 10), (100, 1000)
    results = {key: 1000.0 + place for place, key in enumerate(rows.keys(list(rows.BACKENDS), clients, pairs))}

    found = table.blocks(results, clients, pairs)
    few = table.blocks(dict.fromkeys(rows.keys(["journal"], clients, pairs), 1.0), clients, pairs)

    assert len(found) == len(few)
    for block in [*found, *few]:
        assert {len(line) for line in block.lines} == {len(block.headings)}
    assert "not there" in few[0].lines[1]
    assert "not there" not in found[0].lines[1]


@pytest.mark.parametrize(("clients", "messages"), [(1, 5000), (10, 5000), (3000, 5000), (5000, 5000)])
def test_every_client_gets_its_share_once(clients: int, messages: int) -> None:
    packs = [pack for call in calls(clients, messages, 1) for pack in call]

    numbers = [entry.number for pack in packs for entry in pack.entries]
    assert len(numbers) == len(set(numbers)) >= messages - clients
    assert len({pack.client_id for pack in packs}) == clients
    for call in calls(clients, messages, 1):
        assert len({pack.client_id for pack in call}) == len(call), "no client has two packs in a call"
