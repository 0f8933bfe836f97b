"""`holdfast spark run` says what is wrong before Spark is started."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from tests.unit.pipeline.declared.declarations import line_of, written


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["spark", "run", *arguments])
    return done.exit_code, done.output


def test_a_file_that_is_wrong_is_told_line_by_line(tmp_path: Path) -> None:
    file = written(tmp_path, ('within = "10m"', 'within = "10x"'), ('on_fail = "drop"', 'on_fail = "drip"'))
    status, said = run(str(file))
    assert status == 2
    lines = [line_of("on_fail"), line_of("within")]
    assert [line.split(" ")[0] for line in said.splitlines()] == [f"pipeline.toml:{line}:" for line in lines]


def test_a_source_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    status, said = run(str(written(tmp_path)))
    assert status == 2
    assert f"pipeline.toml:{line_of('data =')}: data = {tmp_path}/holdfast-data: this is no data folder" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "10"], "--every '10': give a time"),
        (["--every", "1s", "--once"], "give either --once or --every"),
        (["--master", "here"], "--master here: give local[*]"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, arguments: list[str], said: str) -> None:
    status, told = run(str(written(tmp_path)), *arguments)
    assert status == 2
    assert said in told


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    status, said = run(str(tmp_path / "none.toml"))
    assert status == 2
    assert "none.toml cannot be read: No such file" in said
