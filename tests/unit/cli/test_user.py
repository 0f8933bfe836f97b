"""`holdfast user`: passwords go in without being seen, and every mistake is answered with the way out."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.broker.access import passwords
from holdfast.broker.access.passwords import PasswordFile
from holdfast.cli.user import user as app
from tests.unit.broker.access.password_hashes import argon2id


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(passwords, "make_hash", argon2id)
    return tmp_path / "passwd"


def run(*arguments: str | Path, typed: str | bytes = "") -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed)


def test_a_password_is_asked_for_twice_and_not_echoed(file: Path) -> None:
    done = run("add", "alice", "--file", file, typed="s3cret\ns3cret\n")
    assert done.exit_code == 0, done.output
    assert "user alice added" in done.output
    assert "s3cret" not in done.output
    assert PasswordFile.load(file).verify("alice", b"s3cret")


def test_two_passwords_that_differ_are_asked_for_again(file: Path) -> None:
    done = run("add", "alice", "--file", file, typed="s3cret\nslip\ns3cret\ns3cret\n")
    assert done.exit_code == 0, done.output
    assert "do not match" in done.output
    assert PasswordFile.load(file).verify("alice", b"s3cret")


@pytest.mark.parametrize("typed", [b"s3cret", b"s3cret\n", b"s3cret\r\n"])
def test_a_password_may_come_from_standard_input(file: Path, typed: bytes) -> None:
    done = run("add", "alice", "--file", file, "--password-stdin", typed=typed)
    assert done.exit_code == 0, done.output
    assert "s3cret" not in done.output
    assert PasswordFile.load(file).verify("alice", b"s3cret")


def test_standard_input_is_taken_byte_for_byte(file: Path) -> None:
    assert run("add", "alice", "--file", file, "--password-stdin", typed=b" \xff\0 \n").exit_code == 0
    assert PasswordFile.load(file).verify("alice", b" \xff\0 ")


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [(b"", "found no password"), (b"\n", "found no password"), (b"one\ntwo\n", "reads one line")],
)
def test_standard_input_without_exactly_one_line_is_refused(file: Path, typed: bytes, complaint: str) -> None:
    done = run("add", "alice", "--file", file, "--password-stdin", typed=typed)
    assert done.exit_code == 2
    assert complaint in done.output
    assert not file.exists()


def test_adding_a_known_user_sets_a_new_password(file: Path) -> None:
    run("add", "alice", "--file", file, "--password-stdin", typed="first")
    done = run("add", "alice", "--file", file, "--password-stdin", typed="second")
    assert "alice has a new password" in done.output
    assert PasswordFile.load(file).verify("alice", b"second")


def test_users_are_listed_as_lines_or_as_json(file: Path) -> None:
    for name in ("bob", "alice", "zoë"):
        run("add", name, "--file", file, "--password-stdin", typed="x")
    assert run("list", "--file", file).output.split("\n") == ["bob", "alice", "zoë", ""]
    assert json.loads(run("list", "--file", file, "--json").output) == ["bob", "alice", "zoë"]


def test_a_removed_user_is_gone(file: Path) -> None:
    for name in ("alice", "bob"):
        run("add", name, "--file", file, "--password-stdin", typed="x")
    done = run("remove", "alice", "--file", file)
    assert (done.exit_code, done.output) == (0, f"{file}: user alice removed\n")
    assert run("list", "--file", file).output == "bob\n"


def test_the_exit_status_tells_whether_a_password_is_right(file: Path) -> None:
    run("add", "alice", "--file", file, "--password-stdin", typed="s3cret")
    assert run("check", "alice", "--file", file, typed="s3cret\n").exit_code == 0
    wrong = run("check", "alice", "--file", file, "--password-stdin", typed="guess")
    assert wrong.exit_code == 1
    assert "not the password of user alice" in wrong.output
    assert "guess" not in wrong.output


@pytest.mark.parametrize("verb", ["remove", "check"])
def test_an_unknown_user_is_told_with_the_way_to_see_the_known_ones(file: Path, verb: str) -> None:
    run("add", "alice", "--file", file, "--password-stdin", typed="x")
    done = run(verb, "bob", "--file", file)
    assert done.exit_code == 2
    assert f"has no user 'bob'; see: holdfast user list --file {file}" in done.output


@pytest.mark.parametrize("arguments", [("add", "alice"), ("remove", "alice"), ("list",), ("check", "alice")])
def test_a_missing_file_option_is_answered_with_the_whole_command(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert "[security] password_file" in done.output
    assert f"holdfast user {' '.join(arguments)} --file <path>" in done.output


@pytest.mark.parametrize("arguments", [("remove", "alice"), ("list",), ("check", "alice")])
def test_a_file_that_does_not_exist_is_named(file: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--file", file)
    assert done.exit_code == 2
    assert f"{file} does not exist" in done.output


@pytest.mark.parametrize(
    "arguments", [("add", "bob", "--password-stdin"), ("remove", "alice"), ("list",), ("check", "alice")]
)
def test_a_broken_file_is_named_by_line_without_showing_it(file: Path, arguments: tuple[str, ...]) -> None:
    file.write_text("alice:hunter2\n", encoding="utf-8")
    done = run(*arguments, "--file", file, typed="s3cret")
    assert done.exit_code == 2
    assert f"{file}:1: user 'alice'" in done.output
    assert "hunter2" not in done.output
    assert file.read_text(encoding="utf-8") == "alice:hunter2\n"


def test_a_name_that_cannot_be_stored_is_refused(file: Path) -> None:
    done = run("add", "a:b", "--file", file, "--password-stdin", typed="s3cret")
    assert done.exit_code == 2
    assert "must not contain a colon" in done.output
    assert "s3cret" not in done.output
