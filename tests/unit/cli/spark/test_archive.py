"""`holdfast spark archive` says what is wrong before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Looks like a data folder."""
    (tmp_path / "data" / "rocks").mkdir(parents=True)
    (tmp_path / "data" / "rocks" / "CURRENT").touch()
    return tmp_path / "data"


WRONG = [
    (["--lake", "lake"], "say where from: either --data"),
    (["--lake", "lake", "--data", "nowhere"], "--data nowhere: this is no data folder of a broker"),
    (
        ["--lake", "lake", "--data", "DATA", "--endpoint", "grpc://h:1"],
        "either --data, the broker's data folder, or --endpoint",
    ),
    (["--lake", "lake", "--endpoint", "http://h:1"], "--endpoint http://h:1: give grpc://HOST:PORT"),
    (["--lake", "DATA/rocks/CURRENT", "--data", "DATA"], "this is a file; name a folder"),
    (
        ["--lake", "ftp://host/lake", "--data", "DATA"],
        "--lake: the lake begins with ftp://, which is no store",
    ),
    (["--lake", "lake", "--data", "DATA", "--name", "a/b"], "--name 'a/b': use up to 64 letters"),
    (["--lake", "lake", "--data", "DATA", "--every", "10"], "--every '10': give a time such as 500ms, 10s, 5m or 1h"),
    (["--lake", "lake", "--data", "DATA", "--every", "0s"], "--every '0s': give a time"),
    (["--lake", "lake", "--data", "DATA", "--every", "1s", "--once"], "give either --once or --every"),
    (["--lake", "lake", "--data", "DATA", "--master", "here"], "--master here: give local[*]"),
    (["--lake", "lake", "--data", "DATA", "--format", "hudi"], "--format hudi: give delta or iceberg"),
    (
        ["--lake", "lake", "--data", "DATA", "--format", "iceberg"],
        "--lake lake: an Iceberg table is named by its catalog: iceberg://CATALOG/NAMESPACE.TABLE",
    ),
    (
        ["--lake", "iceberg://main/a.b", "--data", "DATA", "--format", "delta"],
        "--lake iceberg://main/a.b: this names an Iceberg table; give --format iceberg",
    ),
    (["--lake", "iceberg://main/a.b", "--data", "DATA", "--compact"], "run rewrite_data_files of Spark or Trino"),
    (["--lake", "iceberg://main/messages", "--data", "DATA"], "write iceberg://CATALOG/NAMESPACE.TABLE"),
    (["--lake", "iceberg://me:secret@main/a.b", "--data", "DATA"], "credentials belong into the environment"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[said for _arguments, said in WRONG])
def test_wrong_options_are_named(data: Path, arguments: list[str], said: str) -> None:
    given = [argument.replace("DATA", str(data)) for argument in arguments]

    result = CliRunner().invoke(app, ["spark", "archive", *given])

    assert result.exit_code == 2
    assert said in result.output


def test_wrong_options_are_found_without_spark(tmp_path: Path) -> None:
    """Importing it alone takes longer than people wait."""
    program = (
        "import sys; from typer.testing import CliRunner; from holdfast.cli.main import app; "
        "print(CliRunner().invoke(app, ['spark', 'archive', '--lake', 'x', '--data', 'nowhere']).exit_code, "
        "[name for name in ('pyspark', 'deltalake', 'pyarrow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert shown.stdout == "2 []\n"
