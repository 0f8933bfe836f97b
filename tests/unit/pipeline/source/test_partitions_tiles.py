"""Parts are cut into pieces of like size by their serials, and are still the parts if serials are wrong."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import Part
from holdfast.pipeline.source import partitions
from holdfast.pipeline.source.offsets import Offset
from holdfast.pipeline.source.partitions import rows_per_task, task_count, tile_parts
from tests.unit.pipeline.filled_log import Log


@pytest.fixture(scope="module", params=["paged", "learned", "timeline"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """One shard: a burst, a silent month, and another burst in the same generation."""
    made = Log(tmp_path_factory.mktemp(request.param), request.param, shards=1)
    made.fill(600)
    made.node.clock.advance(30 * 86_400 * 1_000_000)
    made.fill(200)
    yield made
    made.close()


def test_a_burst_is_cut_into_pieces_of_like_size(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MIN_ROWS", 50)
    with HistoryReader.open(Path(log.path)) as reader:
        parts = reader.parts()
        pieces = tile_parts(reader, parts)
        sizes = [len(list(reader.stored(piece))) for piece in pieces]

    assert sum(sizes) == 800
    assert len(sizes) == task_count(800) == 16
    assert max(sizes) <= 100
    assert_tiles(parts, pieces)


def assert_tiles(parts: list[Part], pieces: list[Part]) -> None:
    """Each position of the parts once."""
    assert [pieces[0].lo_us, pieces[-1].hi_us] == [parts[0].lo_us, parts[-1].hi_us]
    assert all(one.hi_us == other.lo_us for one, other in pairwise(pieces))
    assert all(piece.lo_us < piece.hi_us for piece in pieces)


@pytest.mark.parametrize("serials", [lambda at: 7, lambda at: 1_000 - at, lambda at: at * 31 % 97])
def test_wrong_serials_make_other_pieces_and_no_gap(
    serials: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message each 10 µs; its serial may be anything."""
    monkeypatch.setattr(partitions, "MIN_ROWS", 10)

    class Broken:
        def first(self, part: Part) -> Offset | None:
            at = -(-part.lo_us // 10)
            return Offset(at * 10, serials(at)) if at * 10 < part.hi_us else None

        def cuts(self, _part: Part) -> list[Offset]:
            return [Offset(500, 900), Offset(700, 3)]

    part = Part("default", 0, 1, 0, 10_000, 0, 1_000)
    assert_tiles([part], tile_parts(Broken(), [part]))  # type: ignore[arg-type]


def test_few_messages_are_one_task_and_many_are_sixteen_or_more() -> None:
    assert [task_count(rows) for rows in (0, 1, 50_000, 100_000, 1_600_000, 100_000_000)] == [1, 1, 1, 2, 16, 100]
    assert rows_per_task(0) == 50_000
