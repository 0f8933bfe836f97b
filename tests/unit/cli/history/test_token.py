"""`holdfast token`: what it prints lets somebody in, and what it writes does not."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.history.token import token as app
from holdfast.history.tokens import Tokens
from holdfast.model.errors import SettingsError


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_token_lets_its_owner_in_until_it_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = {name: run("add", name, "--file", file).stdout.strip() for name in ("spark", "dashboard")}
    tokens = Tokens(file)
    assert {name: tokens.name_of(f"Bearer {token}") for name, token in made.items()} == {name: name for name in made}
    assert all(token not in file.read_text() for token in made.values())
    assert os.stat(file).st_mode & 0o077 == 0
    for wrong in ("", "Bearer", "Bearer ", f"Basic {made['spark']}", made["spark"], "Bearer \x00é"):
        assert tokens.name_of(wrong) is None
    assert json.loads(run("list", "--file", file, "--json").stdout) == ["spark", "dashboard"]
    assert run("remove", "spark", "--file", file).exit_code == 0
    assert run("remove", "spark", "--file", file).exit_code == 1
    assert tokens.name_of(f"Bearer {made['spark']}") is None
    assert tokens.name_of(f"bearer {made['dashboard']}") == "dashboard"


def test_a_new_token_ends_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    old, new = (run("add", "spark", "--file", file).stdout.strip() for _index in range(2))
    tokens = Tokens(file)
    assert (tokens.name_of(f"Bearer {old}"), tokens.name_of(f"Bearer {new}")) == (None, "spark")


def test_a_file_that_is_wrong_is_refused_with_its_line_and_lets_nobody_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = run("add", "spark", "--file", file).stdout.strip()
    tokens = Tokens(file)
    file.write_text("# tokens\n\nspark:secret\n")
    assert tokens.name_of(f"Bearer {token}") is None
    with pytest.raises(SettingsError, match=f"{file}:3 is no token"):
        Tokens(file)
    assert run("add", "a b", "--file", file).exit_code == 2


def test_without_a_file_everybody_is_somebody() -> None:
    assert Tokens(None).name_of("") is not None


def test_a_token_has_a_role_an_end_and_topics(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = run("add", "ci", "--file", file, "--role", "viewer", "--expires", "30d", "--filter", "plant/#")
    assert made.exit_code == 0
    shown = run("list", "--file", file).stdout
    assert shown.startswith("ci  viewer  until 2")
    assert shown.endswith("plant/#\n")
    # It reads no history: its role is too small, and it is restricted to topics.
    assert Tokens(file).name_of(f"Bearer {made.stdout.strip()}") is None


@pytest.mark.parametrize(
    "wrong",
    [
        ("--role", "king"),
        ("--expires", "soon"),
        ("--expires", "2001-01-01"),
        ("--filter", "a/#/b"),
        ("--filter", "$share/g/a"),
    ],
)
def test_what_a_token_cannot_have_is_refused(tmp_path: Path, wrong: tuple[str, str]) -> None:
    done = run("add", "ci", "--file", tmp_path / "tokens", *wrong)
    assert done.exit_code == 2
    assert not (tmp_path / "tokens").exists()


def test_an_expired_token_and_one_of_some_topics_read_no_history(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    restricted = run("add", "some", "--file", file, "--filter", "a").stdout.strip()
    ended = run("add", "ended", "--file", file, "--expires", "1h").stdout.strip()
    tokens = Tokens(file, lambda: file.stat().st_mtime)
    assert tokens.name_of(f"Bearer {restricted}") is None
    assert tokens.name_of(f"Bearer {ended}") == "ended"
    assert Tokens(file, lambda: file.stat().st_mtime + 3601).name_of(f"Bearer {ended}") is None
