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
