"""`holdfast spark replay` says what is wrong before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app

TO = ["--into", "mqtt://127.0.0.1:1"]
FROM = ["--data", "DATA"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Looks like a data folder."""
    (tmp_path / "data" / "rocks").mkdir(parents=True)
    (tmp_path / "data" / "rocks" / "CURRENT").touch()
    return tmp_path / "data"


WRONG = [
    (TO, "say where from: --data, --endpoint grpc://HOST:PORT, or --lake"),
    ([*TO, "--data", "nowhere"], "--data nowhere: this is no data folder of a broker"),
    ([*TO, *FROM, "--endpoint", "grpc://h:1"], "either --data, the broker's data folder, or --endpoint"),
    ([*TO, "--endpoint", "http://h:1"], "--endpoint http://h:1: give grpc://HOST:PORT"),
    (FROM, "say which broker gets the messages: --into mqtt://HOST:PORT"),
    ([*FROM, "--to", "ws://localhost"], "--into ws://localhost: give mqtt://HOST:PORT"),
    ([*FROM, "--into", "ws://ann:secret@localhost"], "--into ws://ann:***@localhost: give"),
    ([*FROM, "--into", "localhost:1883"], "--into localhost:1883: give mqtt://HOST:PORT"),
    ([*FROM, "--into", "ws://localhost"], "--into ws://localhost: give mqtt://HOST:PORT"),
    ([*FROM, *TO, "--speed", "0"], "--speed 0: write max, or a number above 0"),
    ([*FROM, *TO, "--speed", "fast"], "--speed fast: write max, or a number above 0"),
    ([*FROM, *TO, "--since", "lately"], "--since: "),
    ([*FROM, *TO, "--since", "-1h", "--until", "-2h"], "--since -1h is not before --until -2h"),
    ([*FROM, *TO, "--topic", "a/#/b"], "--topic: "),
    ([*FROM, *TO, "--topic", "$share/g/a"], "write the filter alone"),
    ([*FROM, *TO, "--prefix", "a/+/"], "--prefix: "),
    ([*FROM, *TO, "--prefix", ""], "to leave topics as they are, give --no-prefix"),
    ([*FROM, *TO, "--prefix", "a", "--no-prefix"], "give either --prefix or --no-prefix"),
    ([*FROM, *TO, "--into-itself"], "--into-itself goes with --no-prefix"),
    ([*FROM, *TO, "--name", "a/b"], "--name 'a/b': use up to 64 letters"),
    ([*FROM, *TO, "--state", "here"], "--state is where the notes of a --name are"),
    ([*FROM, *TO, "--qos", "0"], "for '-q' / '--qos'"),
    ([*FROM, *TO, "-u", "ann", "--password-env", "NOT_THERE"], "--password-env NOT_THERE: there is no such variable"),
    ([*FROM, *TO, "-u", "ann", "--password-file", "nowhere"], "--password-file nowhere: there is no such file"),
    ([*FROM, *TO, "--master", "here"], "--master here: give local[*]"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[said for _arguments, said in WRONG])
def test_wrong_options_are_named(data: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    given = [argument.replace("DATA", str(data)) for argument in arguments]

    result = CliRunner().invoke(app, ["spark", "replay", *given])

    assert result.exit_code == 2
    assert said in result.output


def test_wrong_options_are_found_without_spark(tmp_path: Path, data: Path) -> None:
    """Importing it alone takes longer than people wait."""
    program = (
        "import sys; from typer.testing import CliRunner; from holdfast.cli.main import app; "
        f"given = ['spark', 'replay', '--data', {str(data)!r}, '--to']; "
        "print([CliRunner().invoke(app, [*given, *more]).exit_code for more in "
        "(['localhost'], ['mqtt://h', '--speed', '0'], ['mqtt://h', '--name', '?'], ['mqtt://h', '--prefix', '#'])], "
        "[name for name in ('pyspark', 'deltalake', 'pyarrow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert shown.stdout == "[2, 2, 2, 2] []\n"
