"""Estimates are not further off than they say, in 95 of 100 cases."""

from collections.abc import Iterator
from math import comb
from pathlib import Path
from random import Random

import pytest

from holdfast.durable.zones import Zone
from holdfast.history.past.density import Density
from holdfast.history.past.density_parts import Cell
from holdfast.history.past.density_sample import ROUNDS, cell_bounds, share_bounds
from holdfast.history.reader.reader import HistoryReader
from tests.unit.history.past.density_world import DensityWorld, Line


@pytest.mark.parametrize("looked_at", [1, 2, 4, 16, 64, 256])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.8, 0.999, 1.0])
def test_bounds_of_a_share_miss_it_in_at_most_5_of_100_cases(share: float, looked_at: int) -> None:
    """Added up over every outcome, so no chance decides it."""
    missed = 0.0
    for hits in range(looked_at + 1):
        low, high = share_bounds(hits, looked_at)
        if not low - 1e-9 <= share <= high + 1e-9:
            missed += comb(looked_at, hits) * share**hits * (1 - share) ** (looked_at - hits)
    assert missed <= 0.05


def test_bounds_become_narrow_with_what_is_looked_at() -> None:
    widths = [high - low for low, high in (share_bounds(looked_at // 4, looked_at) for looked_at in ROUNDS)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.12


def test_what_was_looked_at_is_certain() -> None:
    cell = Cell(0, 0, 1)
    assert cell_bounds(cell, 10) == (0, 10)
    cell.looked_at, cell.hits = 10, 3
    assert cell_bounds(cell, 10) == (3, 3)
    low, high = cell_bounds(cell, 12)
    assert 3 <= low <= high <= 12 - 7


class Sampled:
    """A log of which estimates can be had that nothing exact is known of but totals."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.world = DensityWorld(folder, default=Zone("default", shards=2, layout=layout))
        for seed in range(2):
            self.world.fill(seed, commits=120, count=24)
        self.world.make_segments(700)
        self.world.fill(7, commits=40, count=24)
        self.reader = HistoryReader.open(folder)

    def line(self, text: str, case: int, buckets: int, round_: int) -> Line:
        world = self.world
        query = world.query(text, from_us=world.kept[0].position_us - case, buckets=buckets)
        density = Density(self.reader, query, lambda: 0.0)
        next(density._counting())
        for part in density.parts:
            for number in part.unknown_borders():
                part.look_up(number)
        cells = sum(1 for part in density.parts for number, cell in enumerate(part.cells) if part.total(number)[0])
        looks = density._sampler.look(density.parts)
        for _pause in range(ROUNDS[round_ - 1] * cells):
            next(looks, None)
        return density.line()

    def close(self) -> None:
        self.reader.close()
        self.world.close()


@pytest.fixture(scope="module", params=["paged", "timeline", "learned"])
def sampled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sampled]:
    found = Sampled(tmp_path_factory.mktemp("sample") / "data", request.param)
    yield found
    found.close()


@pytest.mark.parametrize(("text", "cases"), [("plant/+/temp", 100), ("#", 20), ("+/3/#", 20)])
def test_estimates_are_not_further_off_than_they_say(sampled: Sampled, text: str, cases: int) -> None:
    buckets = missed = unsure = 0
    for case in range(cases):
        line = sampled.line(text, case, 3, Random(case).choice([1, 1, 2]))
        right = sampled.world.counts(text, line)
        for count, error, true in zip(line["counts"], line["errors"], right, strict=True):
            buckets += 1
            missed += abs(count - true) > error
            unsure += error > 0
        assert line["looked_at"] > 0
        assert not line["done"]
    assert unsure > 0.9 * buckets
    assert missed <= 0.05 * buckets


def test_at_most_256_messages_of_a_cell_are_looked_at(sampled: Sampled) -> None:
    line = sampled.line("plant/+/temp", 1, 1, 4)
    assert line["looked_at"] <= 2 * 256
    assert line["errors"][0] < 0.07 * len(sampled.world.kept)
