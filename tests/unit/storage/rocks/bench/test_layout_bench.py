"""What the layout bench measures is right: its messages, its questions, and that a wrong answer has no figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.storage import bench as cli
from holdfast.model.errors import MisuseError
from holdfast.storage.rocks.bench.layout_bench import Spec, measure_reading, measure_writing
from holdfast.storage.rocks.bench.layout_report import rows
from holdfast.storage.rocks.bench.layout_workload import QUERIES, Workload
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.storage.rocks.layouts.build import ALL_LAYOUTS
from holdfast.storage.rocks.layouts.timeline import TimelineLayout
from holdfast.storage.rocks.log import zone_generations
from holdfast.topics.filters import levels_match


def nothing(done: int) -> None:
    pass


@pytest.mark.parametrize("layout", ALL_LAYOUTS)
def test_every_layout_can_be_measured(layout: str, tmp_path: Path) -> None:
    spec = Spec(layout, 1_200, 60, 8, str(tmp_path))

    figures = {**measure_writing(spec, nothing), **measure_reading(spec, nothing)}

    assert {key for row in rows() for key in row.keys} <= figures.keys()
    assert figures["all_found"] == 1_200
    assert figures["disk_bytes"] > 8


def test_a_layout_that_loses_a_message_has_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec("timeline", 400, 10, 8, str(tmp_path))
    measure_writing(spec, nothing)

    class Forgetful(TimelineLayout):
        def read(
            self, cells: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, *, in_order: bool = True
        ) -> Iterator[bytes]:
            found = super().read(cells, levels, lo_us, hi_us, in_order=in_order)
            next(found, None)
            return found

    monkeypatch.setattr(zone_generations, "make_layout", lambda *_layout: Forgetful())

    with pytest.raises(MisuseError, match="would be right"):
        measure_reading(spec, nothing)


def test_queries_know_how_many_messages_they_have_to_find() -> None:
    workload = Workload(2_000, 70, 4)
    entries = [message for commit in workload.commits() for message in commit]

    assert len(entries) == workload.messages == 2_000
    for query in workload.queries():
        for levels, expected in query.samples:
            found = [
                message
                for message in entries
                if message.position_us >= query.lo_us and levels_match(levels, message.topic.split(b"/"), dollar=False)
            ]
            assert len(found) == expected > 0, (query.key, levels)


def test_every_run_has_the_same_messages() -> None:
    first, second = (list(Workload(400, 30, 16).commits()) for _ in range(2))

    assert first == second


def test_positions_increase_and_follow_each_other_within_a_commit() -> None:
    commits = list(Workload(1_200, 30, 16).commits())

    positions = [message.position_us for commit in commits for message in commit]
    assert positions == sorted(set(positions))
    assert [len(commit) for commit in commits] == [500, 500, 200]
    for commit in commits:
        assert commit[-1].position_us - commit[0].position_us == len(commit) - 1
        assert all(len(message.payload) == 16 for message in commit)


def test_queries_are_asked_in_the_order_of_their_labels() -> None:
    assert [query.key for query in Workload(400, 30, 16).queries()] == list(QUERIES)


def test_the_command_refuses_an_unknown_layout_and_names_those_there_are() -> None:
    done = CliRunner().invoke(cli.bench, ["layouts", "--layouts", "timeline,spiral"])

    assert done.exit_code == 2
    assert "spiral" in done.output
    assert "bitmask-zorder" in done.output


def test_the_command_prints_json_and_leaves_nothing_behind(tmp_path: Path) -> None:
    options = ["--messages", "400", "--devices", "10", "--layouts", "timeline", "--folder", str(tmp_path), "--json"]

    done = CliRunner().invoke(cli.bench, ["layouts", *options])

    assert done.exit_code == 0, done.output
    assert '"timeline"' in done.stdout
    assert '"write_cpu_us"' in done.stdout
    assert not list(tmp_path.iterdir())
