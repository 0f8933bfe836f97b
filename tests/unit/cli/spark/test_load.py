"""`holdfast spark load` and `relayout` say what is wrong before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.history.arrow.file_columns import FileFormat, format_of, parse_columns
from holdfast.model.errors import SettingsError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Looks like a data folder, with files to load beside it."""
    (tmp_path / "data" / "rocks").mkdir(parents=True)
    (tmp_path / "data" / "rocks" / "CURRENT").touch()
    for name in ("a.jsonl", "b.csv", "c.log"):
        (tmp_path / "data" / name).touch()
    return tmp_path / "data"


WRONG = [
    (["load", "DATA/a.jsonl", "--data", "nowhere"], "--data nowhere: this is no data folder of a broker"),
    (["load", "DATA/missing.csv", "--data", "DATA"], "missing.csv: there is no such file or folder"),
    (["load", "DATA/c.log", "--data", "DATA"], "their names do not tell what they are; say which: --format"),
    (["load", "DATA/a.jsonl", "DATA/b.csv", "--data", "DATA"], "they are of several kinds; say which: --format"),
    (["load", "DATA/a.jsonl", "--data", "DATA", "--column", "time"], "--column time: give COLUMN=NAME"),
    (["load", "DATA/a.jsonl", "--data", "DATA", "--layout", "x"], "--layout x: there are timeline, learned"),
    (["load", "DATA/a.jsonl", "--data", "DATA", "--config", "x.toml"], "x.toml"),
    (["load", "DATA/a.jsonl", "--data", "DATA", "--master", "here"], "--master here: give local[*]"),
    (["relayout", "--data", "nowhere"], "--data nowhere: this is no data folder of a broker"),
    (["relayout", "--data", "DATA", "--layout", "x"], "--layout x: there are timeline, learned"),
    (["relayout", "--data", "DATA", "--from-lake", "x"], "--from-lake and --day go together"),
    (["relayout", "--data", "DATA", "--day", "2026-11-01"], "--from-lake and --day go together"),
    (["relayout", "--data", "DATA", "--from-lake", "DATA", "--day", "2026-11-01"], "this is no lake"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(arguments) for arguments, _said in WRONG])
def test_wrong_options_are_named(data: Path, arguments: list[str], said: str) -> None:
    given = [argument.replace("DATA", str(data)) for argument in arguments]

    result = CliRunner().invoke(app, ["spark", *given])

    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("arguments", [["load", "x", "--data", "y"], ["relayout", "--data", "y"]])
def test_wrong_options_are_found_without_spark(tmp_path: Path, arguments: list[str]) -> None:
    """Importing it alone takes longer than people wait."""
    program = (
        "import sys; from typer.testing import CliRunner; from holdfast.cli.main import app; "
        f"print(CliRunner().invoke(app, ['spark', *{arguments!r}]).exit_code, "
        "[name for name in ('pyspark', 'deltalake', 'pyarrow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert shown.stdout == "2 []\n"


def test_a_folder_is_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "part.parquet").touch()
    (tmp_path / "_SUCCESS").touch()

    assert format_of([tmp_path]) is FileFormat.PARQUET


def test_columns_are_named_once() -> None:
    assert parse_columns(["ts=time", "payload=text"]) == {"ts": "time", "payload": "text"}
    with pytest.raises(SettingsError, match="ts stands twice"):
        parse_columns(["ts=a", "ts=b"])
