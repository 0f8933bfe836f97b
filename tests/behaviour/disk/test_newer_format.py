"""A data folder that a later Holdfast has raised to a newer format: every command that opens it says the same."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.durable.changes import Changes
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError
from holdfast.records.folder import FORMAT, DataFolder, encode_folder
from holdfast.records.meta_keys import FOLDER_KEY
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.engine import Engine
from tests.unit.storage.rocks.log_node import Node

NEWER = encode_folder(DataFolder(FORMAT + 1, 1_700_000_000_000_000, "99.0"))
#: The same record in a version of its own that is not known either.
UNKNOWN = bytes((NEWER[0] + 1,)) + NEWER[1:]


def write_record(engine: Engine, value: bytes) -> None:
    changes = Changes()
    changes.into("meta").put(FOLDER_KEY, value)
    engine.write(engine.written + 1, changes)
    engine.sync_now()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), shards=1)
    node.fill(2)
    write_record(node.engine, NEWER)
    node.log.close()
    return tmp_path / "data"


COMMANDS = {
    "serve": ["serve", "--port", "0"],
    "verify": ["verify"],
    "verify --json": ["verify", "--json"],
    "export": ["export", "#", "--format", "jsonl"],
    "backup": ["backup", "BACKUP"],
    "zones list": ["zones", "list"],
    "explain": ["explain", "--client", "c", "--topic", "#"],
    "history": ["history", "--flight-port", "0", "--http-port", "0"],
    "spark sql": ["spark", "sql", "SELECT 1"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_both_formats_and_what_opens_the_folder(data: Path, tmp_path: Path, command: str) -> None:
    words = [str(tmp_path / "backup") if word == "BACKUP" else word for word in COMMANDS[command]]

    done = CliRunner().invoke(app, [*words, "--data", str(data)])

    assert done.exit_code in (1, 2), done.output
    assert (
        f"{data}: the data folder has format {FORMAT + 1}, this Holdfast reads 1 to {FORMAT}: "
        "open it with the version of Holdfast that wrote it, or with a later one"
    ) in done.stderr
    assert "restore" not in done.output
    assert "quarantine" not in done.output
    assert not (data / "quarantine").exists()


def test_a_reader_that_is_open_when_the_format_is_raised_stops_reading(tmp_path: Path) -> None:
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), shards=1)
    node.fill(2)
    try:
        with HistoryReader.open(tmp_path / "data") as reader:
            write_record(node.engine, NEWER)
            with pytest.raises(PermanentError, match=f"has format {FORMAT + 1}"):
                reader.refresh()
    finally:
        node.log.close()


def test_a_record_of_an_unknown_version_is_told_apart_from_damage(tmp_path: Path) -> None:
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), shards=1)
    write_record(node.engine, UNKNOWN)
    node.log.close()
    for opens in (Engine.open, HistoryReader.open, verify_folder):
        with pytest.raises(PermanentError, match="open it with the version of Holdfast that wrote it"):
            opens(tmp_path / "data")


def test_a_damaged_record_is_a_problem_that_verify_reports(tmp_path: Path) -> None:
    """L21"""
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), shards=1)
    node.fill(2)
    write_record(node.engine, NEWER[:2])
    node.log.close()

    problems = [str(problem) for problem in verify_folder(tmp_path / "data").problems]

    assert "the record of the data folder has 2 bytes" in problems[0]
