"""`holdfast console`: users and links."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from holdfast.cli.console import console
from holdfast.console.access.credential_files import read_users, verify_password
from holdfast.console.access.one_time_links import use_link


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(console, [str(argument) for argument in arguments], input=given)


def test_a_user_is_added_listed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "users"
    done = run("user", "add", "eva", "--role", "operator", "--file", file, "--password-stdin", given="a long one\n")
    assert (done.exit_code, done.stdout) == (0, f"{file}: user eva added, with the role operator\n")
    assert verify_password(read_users(file), "eva", "a long one") is not None
    assert json.loads(run("user", "list", "--file", file, "--json").stdout) == {"eva": "operator"}
    assert run("user", "remove", "eva", "--file", file).exit_code == 0
    assert run("user", "remove", "eva", "--file", file).exit_code == 1


def test_a_short_password_and_an_unknown_role_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "users"
    assert run("user", "add", "eva", "--file", file, "--password-stdin", given="short").exit_code == 2
    assert (
        run("user", "add", "eva", "--file", file, "--role", "king", "--password-stdin", given="long enough").exit_code
        == 2
    )
    assert run("user", "add", "eva", "--file", file, "--password-stdin", given="").exit_code == 2
    assert not file.exists()


def test_open_prints_a_link_that_is_good_once(tmp_path: Path) -> None:
    state = tmp_path / "console"
    state.mkdir()
    (state / "address.json").write_text(json.dumps({"version": 1, "url": "http://127.0.0.1:5"}))
    printed = run("open", "--data", tmp_path).stdout.strip()
    address, _sign, token = printed.partition("#token=")
    assert address == "http://127.0.0.1:5/login"
    now_s = state.stat().st_mtime
    assert use_link(state, token, now_s)
    assert not use_link(state, token, now_s)


def test_open_without_a_console_says_how_to_start_one(tmp_path: Path) -> None:
    done = run("open", "--data", tmp_path / "nothing")
    assert done.exit_code == 1
    assert "holdfast serve" in done.stderr


def test_a_folder_that_is_not_there_is_not_served(tmp_path: Path) -> None:
    done = run("--data", tmp_path / "nothing", "--port", "0")
    assert (done.exit_code, "there is no data folder" in done.stderr) == (2, True)


def test_an_address_that_others_reach_needs_credentials(tmp_path: Path) -> None:
    done = run("--data", tmp_path, "--host", "0.0.0.0")
    assert done.exit_code == 2
    assert "holdfast console user add" in done.stderr
