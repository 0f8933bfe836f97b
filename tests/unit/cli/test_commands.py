"""What every command has in common: what it imports, its help, its arguments and its output."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from holdfast.cli import main
from holdfast.cli.spark import command as spark
from holdfast.files.token_file import add_token
from holdfast.model.clock import ManualClock
from tests.unit.storage.rocks.log_node import Node

PROGRAM = "from holdfast.cli.main import main; main()"
#: Tells what a command imported, whichever way it ended.
WATCHED = """
import atexit, json, os, sys
names = os.environ["HOLDFAST_TEST_MODULES"]
atexit.register(lambda: open(names, "w").write(json.dumps(sorted(sys.modules))))
""" + PROGRAM  # fmt: skip
#: What the broker, storage and history need, and a client does not.
HEAVY = {"argon2", "deltalake", "msgspec", "numpy", "pandas", "pyarrow", "pyspark", "rocksdict", "structlog", "uvloop"}
#: A port of the machine that nothing listens on: it is reserved for tests of connections.
NOBODY = ("--host", "127.0.0.1", "--port", "1")


def run(
    *arguments: str | bytes, program: str = PROGRAM, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    command: list[str | bytes] = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=os.environ | (environment or {}))


def imported(tmp_path: Path, *arguments: str) -> set[str]:
    report = tmp_path / "modules.json"
    run(*arguments, program=WATCHED, environment={"HOLDFAST_TEST_MODULES": str(report)})
    return set(json.loads(report.read_text()))


@pytest.mark.parametrize(
    "arguments", [("--help",), ("pub", "--help"), ("spark", "--help"), ("--no-such-option",), ("no-such-command",)]
)
def test_help_imports_no_storage_and_no_network(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = imported(tmp_path, *arguments)
    assert not modules & (HEAVY | {"websockets", "holdfast.broker", "holdfast.storage", "holdfast.node"})


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("spark", "--help")])
def test_the_overview_imports_no_command(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = {name for name in imported(tmp_path, *arguments) if name.startswith("holdfast.cli.")}
    assert modules <= {
        "holdfast.cli.main",
        "holdfast.cli.commands",
        "holdfast.cli.spark",
        "holdfast.cli.output",
        "holdfast.cli.output.standard_output",
        "holdfast.cli.spark.command",
    }
    assert "asyncio" not in imported(tmp_path, *arguments)


@pytest.mark.parametrize("arguments", [("pub", "a", "-m", "x", *NOBODY), ("sub", "a", *NOBODY)])
def test_pub_and_sub_import_what_a_client_needs_and_no_more(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = imported(tmp_path, *arguments)
    assert "holdfast.client.transport" in modules  # it came as far as connecting
    assert not modules & (
        HEAVY | {"pydantic", "rich", "websockets", "holdfast.broker", "holdfast.storage", "holdfast.node"}
    )
    assert not any(name.startswith("holdfast.history") for name in modules)


@pytest.mark.parametrize(("target", "sentence"), (main.COMMANDS | spark.COMMANDS).items())
def test_the_overview_says_of_a_command_what_the_command_says_of_itself(target: str, sentence: str) -> None:
    module, _, attribute = target.rpartition(".")
    found = getattr(import_module(f"holdfast.cli.{module}"), attribute)
    own = str(found.info.help if isinstance(found, typer.Typer) else found.__doc__).partition("\n\n")[0]
    assert " ".join(own.split()) == sentence


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("user", "add", "--help"), "[security] password_file"),
        (("token", "add", "--help"), "[history] token_file"),
    ],
)
def test_help_shows_words_in_brackets(arguments: tuple[str, ...], shown: str) -> None:
    text = CliRunner().invoke(main.app, list(arguments), env={"COLUMNS": "300"}).output
    assert shown in text
    assert "\\[" not in text


def every_help() -> list[tuple[str, ...]]:
    groups = {"bench", "config", "queue", "spark", "zones", "token", "user"}
    names = {target.rpartition(".")[2] for target in main.COMMANDS}
    return [(name, "-h") for name in sorted(names - {"pub", "sub", "replay"} - groups)] + [
        ("-h",),
        *((name, "-h") for name in groups),
        ("config", "show", "-h"),
        ("spark", "sql", "-h"),
        ("zones", "list", "-h"),
    ]


@pytest.mark.parametrize("arguments", every_help(), ids=" ".join)
def test_h_is_help_where_it_is_not_the_host(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main.app, list(arguments))
    assert done.exit_code == 0, done.output
    assert "Usage: " in done.output


def test_h_stays_the_host_of_clients() -> None:
    done = CliRunner().invoke(main.app, ["pub", "a", "-m", "x", "-h", "127.0.0.1", "-p", "1"])
    assert done.exit_code == 1
    assert "cannot connect to 127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("arguments", [("pub",), ("pub", "a", "--port", "x"), ("no-such-command",)], ids=" ".join)
def test_who_goes_wrong_is_sent_to_a_help_that_exists(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main.app, list(arguments))
    assert done.exit_code == 2
    assert re.search(r"Try '\w+( pub)? --help' for help", done.stderr)


def test_a_shell_completes_commands_and_options() -> None:
    def complete(line: str) -> list[bytes]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        return run(environment={"_HOLDFAST_COMPLETE": "complete_bash", **words}).stdout.split()

    assert complete("holdfast pu") == [b"pub"]
    assert b"--data" in complete("holdfast verify --da")
    assert complete("holdfast zones rot") == [b"rotate"]
    # Which shell it is for is seen from the process that calls.
    shown = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" --show-completion; true', sys.executable, PROGRAM], capture_output=True
    )
    assert b"_HOLDFAST_COMPLETE=complete_bash" in shown.stdout


#: The byte 0xff, as Python hands it over.
BAD = "\udcff"
NOT_UTF8 = [
    ("pub", f"a{BAD}", "-m", "x"),
    ("pub", "a", "-m", "x", "--id", BAD),
    ("pub", "a", "-m", "x", "--property", f"note={BAD}"),
    ("pub", "a", "-m", "x", "--host", BAD),
    ("pub", "a", "-m", "x", "--url", f"mqtt://{BAD}"),
    ("pub", "a", "-m", "x", "--user", BAD),
    ("sub", f"a{BAD}"),
    ("sub", "a", f"{BAD}/#"),
    ("replay", BAD, "--from", "-1m"),
    ("export", BAD, "--format", "csv"),
    ("explain", "--client", BAD, "--topic", "a"),
    ("explain", "--client", "a", "--topic", BAD),
    ("events", "--topic", BAD),
    ("serve", "--host", BAD),
    ("serve", "--set", f"log.level={BAD}"),
    ("zones", "rotate", BAD),
    ("user", "add", BAD, "--file", "f", "--password-stdin"),
    ("token", "add", BAD, "--file", "f"),
    ("queue", "peek", "journal", BAD),
    ("spark", "replay", "--into", f"mqtt://{BAD}"),
    ("spark", "sql", f"select {BAD}"),
]


@pytest.mark.parametrize("arguments", NOT_UTF8, ids=ascii)
def test_text_that_is_no_utf8_gets_a_sentence(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main.app, list(arguments))
    assert done.exit_code == 2, done.output
    assert "is not valid UTF-8: b'" in done.stderr
    assert "\\xff" in done.stderr


def test_a_program_survives_bytes_that_are_no_text() -> None:
    done = run("pub", b"a\xff", "-m", "x")
    assert done.returncode == 2
    assert done.stderr == b"holdfast: TOPIC is not valid UTF-8: b'a\\xff'\n"
    done = run("verify", "--data", b"no-\xff")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--id", "x" * 65_536), 2, "the client id has 65536 bytes; MQTT carries 65535 at most"),
        (("--user", "x" * 65_536), 2, "the user name has 65536 bytes; MQTT carries 65535 at most"),
        (("--host", "a..b"), 1, "cannot connect to a..b:1883: this is no name of a host"),
        (("--host", "x" * 300), 1, f"cannot connect to {'x' * 300}:1883: this is no name of a host"),
        (("--url", "ws://a..b"), 1, "cannot connect to a..b:80: this is no name of a host"),
        (("--url", "mqtt://[::1"), 2, "--url mqtt://[::1: write mqtt://HOST"),
        (("--url", "mqtt://ann:secret@h:99999"), 2, "--url mqtt://ann:***@h:99999: the port must be a number"),
        (("--url", "mqtt://ann:secret@h"), 2, "--url mqtt://ann:***@h: leave the password out"),
        (("--url", "mqtt://ann:secret@h", "--tls"), 2, "--url mqtt://ann:***@h: leave the password out"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_broker_gets_a_sentence(arguments: tuple[str, ...], code: int, sentence: str) -> None:
    done = CliRunner().invoke(main.app, ["pub", "a", "-m", "x", *arguments])
    assert done.exit_code == code, done.exception
    assert done.stderr.startswith(f"holdfast: {sentence}")
    assert "secret" not in done.stderr


@pytest.mark.parametrize("topic", ["$share/a/b", "$replay/-1h/a"])
def test_a_topic_that_no_filter_reaches_is_refused(topic: str) -> None:
    done = CliRunner().invoke(main.app, ["pub", topic, "-m", "x"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"holdfast: {topic}: no filter reaches this topic")


#: A command of each way to print: help, text, tables, JSON, bytes, and files that are standard output.
PRINTING = [
    ("--version",),
    ("--help",),
    ("config", "show"),
    ("config", "show", "--json"),
    ("token", "list", "--file", "tokens"),
    ("zones", "list", "--data", "data"),
    ("verify", "--data", "data"),
    ("export", "#", "--format", "csv", "--data", "data"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a token file and a broker's data."""
    folder = tmp_path_factory.mktemp("place")
    add_token(folder / "tokens", "ann")
    node = Node(folder / "data", ManualClock(), shards=1)
    node.fill(5)
    node.log.close()
    return folder


def run_in(folder: Path, *arguments: str, stdout: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_full_disk_behind_standard_output_gets_a_sentence(place: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_in(place, *arguments, stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].startswith("holdfast: ")
    assert done.stderr.decode().splitlines()[-1].endswith(": No space left on device")
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("arguments", [PRINTING[1], PRINTING[2], PRINTING[-1]], ids=" ".join)
def test_a_reader_that_leaves_ends_a_command_without_a_word(place: Path, arguments: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = run_in(place, *arguments, stdout=write_end)
    os.close(write_end)
    for word in (b"Traceback", b"Exception ignored", b"Broken pipe"):
        assert word not in done.stderr


@pytest.mark.parametrize("arguments", [PRINTING[2], PRINTING[-1]], ids=" ".join)
def test_a_command_runs_without_standard_output(place: Path, arguments: tuple[str, ...]) -> None:
    shell = ("sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", PROGRAM)
    done = subprocess.run([*shell, *arguments], cwd=place, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
