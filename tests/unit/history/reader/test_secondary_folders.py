"""Folders of readers that were killed go; those of readers that live stay."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from holdfast.history.reader.reader import HistoryReader
from holdfast.model.clock import ManualClock
from tests.unit.storage.rocks.log_node import Node


def test_what_a_killed_reader_left_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    places = tmp_path / "temporary"
    left, other, strange = (
        places / f"holdfast-secondary-{end}" for end in (f"{ended.pid}-a", f"{os.getppid()}-b", "c")
    )
    for folder in (left, other, strange):
        (folder / "1").mkdir(parents=True)
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), layout="learned", shards=1)

    with HistoryReader.open(node.folder):
        own = set(places.iterdir()) - {other, strange}
        assert left not in own
        assert [folder.name.split("-")[2] for folder in own] == [str(os.getpid())]

    assert set(places.iterdir()) == {other, strange}
    node.log.close()
