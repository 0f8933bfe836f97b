"""A run over many seeds tells every violation, and counts all seeds."""

from pathlib import Path

import pytest

from tests.simulation import seed_run
from tests.simulation.seed_run import Part, SeedRun, chosen_kinds, main, parts, run_part
from tests.simulation.seeded_cluster import ViolationError
from tests.simulation.simulations import SIMULATIONS


class Fragile:
    """A simulation that breaks a promise under one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def run(self) -> None:
        if self._seed == 12:
            raise ViolationError(f"seed {self._seed}: lost\nc1 connects to 2")


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(SIMULATIONS, "fragile", Fragile)
    return "fragile"


def test_every_seed_of_every_kind_is_in_one_part() -> None:
    found = [
        (part.kind, seed) for part in parts(["a", "b"], 5, 23) for seed in range(part.first, part.first + part.seeds)
    ]
    assert sorted(found) == [(kind, seed) for kind in ("a", "b") for seed in range(5, 28)]


def test_a_part_goes_on_behind_a_violation(fragile: str) -> None:
    result = run_part(Part(fragile, 10, 5))
    assert list(result.stories) == [12]
    assert "c1 connects to 2" in result.stories[12]


def test_a_violation_is_counted_and_its_story_is_written_down(fragile: str, tmp_path: Path) -> None:
    run = SeedRun([fragile], tmp_path)
    run._note(run_part(Part(fragile, 10, 5)))
    assert (run.violations(), run.totals[fragile].seeds) == (1, 5)
    assert "seed 12: lost" in (tmp_path / "fragile-12.txt").read_text(encoding="utf-8")
    assert run.table().splitlines()[1].split()[:3] == ["fragile", "5", "1"]


def test_a_kind_that_there_is_not_is_refused() -> None:
    assert chosen_kinds("all") == list(SIMULATIONS)
    assert chosen_kinds("clocks,half open") == ["clocks", "half open"]
    with pytest.raises(ValueError, match="no such kind: clock;"):
        chosen_kinds("wills,clock")


def test_a_run_without_violation_ends_with_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--kinds", "numbers,half open", "--seeds", "2", "--processes", "1", "--reports", str(tmp_path)]
    assert main(asked) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[-3:-1] for line in table[-3:]] == [["2", "0"], ["2", "0"], ["4", "0"]]


def test_a_run_with_a_violation_ends_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fragile: str
) -> None:
    def run(self: SeedRun, *_unused: object) -> None:
        self._note(run_part(Part(fragile, 10, 5)))

    monkeypatch.setattr(seed_run.SeedRun, "run", run)
    assert main(["--kinds", fragile, "--processes", "1", "--reports", str(tmp_path)]) == 1
