"""`holdfast spark migrate` says what is wrong before anything is started, and what there is without Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.storage.folder_lock import FolderLock
from tests.unit.cli.queue.test_command import fill

POSTGRES = "postgresql://nobody@127.0.0.1:1/x"
WRONG = [
    (["--from", "journal:JOURNAL", "--to", "kafka:x"], "'kafka:x' names no queue backend"),
    (["--from", "redis://h", "--to", "redis://h"], "--from and --to are the same backend"),
    (
        ["--from", "redis://h", "--to", "journal:new"],
        "a journal has one writer, and Spark would be many; holdfast queue migrate",
    ),
    (["--from", "journal:nowhere", "--to", POSTGRES], "nowhere is no journal of queues"),
    (["--from", "journal:JOURNAL", "--to", POSTGRES, "--master", "spark://h:7077"], "is a folder of this machine"),
    (["--from", "redis://u:secret@h", "--to", POSTGRES], "the address holds a password"),
    (["--from", "tbmq+journal:x", "--to", POSTGRES], "a TBMQ is named by tbmq+postgresql://HOST/DATABASE"),
    (["--from", "tbmq+redis://h", "--to", POSTGRES], "name the data folder of the broker, which is stopped, with"),
    (["--from", "tbmq+redis://h", "--to", POSTGRES, "--data", "DATA"], "is in use by"),
    (["--from", "redis://h", "--to", "redis://i", "--data", "DATA"], "sessions look in redis already"),
    (["--from", "redis://h", "--to", POSTGRES, "--data", "nowhere"], "--data nowhere: this is no data folder"),
    (["--from", "redis://h", "--to", POSTGRES, "--data", "DATA"], "is in use by"),
    (["--from", "redis://h", "--to", POSTGRES, "--master", "here"], "--master here: give local[*]"),
    (["--from", "redis://h", "--to", POSTGRES, "--to-password-env", "NO_SUCH"], "there is no such variable"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[said for _arguments, said in WRONG])
def test_wrong_options_are_named(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "data" / "rocks").mkdir(parents=True)
    (tmp_path / "data" / "rocks" / "CURRENT").touch()
    lock = FolderLock.acquire(tmp_path / "data")
    named = {"JOURNAL": str(tmp_path / "journal"), "DATA": str(tmp_path / "data")}
    for name, path in named.items():
        arguments = [argument.replace(name, path) for argument in arguments]

    result = CliRunner().invoke(app, ["spark", "migrate", *arguments])

    lock.release()
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_wrong_options_are_found_without_spark(tmp_path: Path) -> None:
    """Importing it alone takes longer than people wait."""
    program = (
        "import sys; from typer.testing import CliRunner; from holdfast.cli.main import app; "
        "print(CliRunner().invoke(app, ['spark', 'migrate', '--from', 'redis://h', '--to', 'journal:x']).exit_code, "
        "[name for name in ('pyspark', 'deltalake', 'pyarrow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert shown.stdout == "2 []\n"


def test_a_dry_run_says_what_there_is_and_asks_nobody_else(tmp_path: Path) -> None:
    """Nobody listens where the queues would go."""
    fill(tmp_path / "j")
    given = ["spark", "migrate", "--from", f"journal:{tmp_path / 'j'}", "--to", POSTGRES, "--dry-run"]

    assert "2 queues, 3 messages; nothing was copied" in CliRunner().invoke(app, given).output
    shown = json.loads(CliRunner().invoke(app, [*given, "--clients", "a*", "--json"]).stdout)

    assert (shown["queues"], shown["messages"]) == (1, 2)
