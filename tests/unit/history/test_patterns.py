"""Learned patterns are read beside the broker, and the widest of them stand for the rest."""

from pathlib import Path

from holdfast.history.patterns import learned_patterns
from holdfast.history.reader.reader import HistoryReader
from tests.disk_world import DiskWorld, publish


def test_a_level_with_many_values_is_one_pattern(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, shards=2) as world:
        topics = [*(f"plant/{number}/temp" for number in range(40)), "plant/1/flow", "energy/main", "$own/status"]
        publish(world, *((topic, b"x") for topic in topics))
        with HistoryReader.open(tmp_path) as reader:
            found = learned_patterns(reader)

    assert "plant/+/temp" in found
    assert "energy/main" in found
    assert "$own/status" in found
    assert not [pattern for pattern in found if pattern.startswith("plant/") and pattern.endswith("/temp")][1:]
    assert "#" not in found


def test_a_layout_that_learns_nothing_has_none(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, storage={"layout": "timeline"}) as world:
        publish(world, ("plant/1/temp", b"x"))
        with HistoryReader.open(tmp_path) as reader:
            assert learned_patterns(reader) == []
