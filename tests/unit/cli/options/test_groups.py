"""Groups of options: declared once, and what every verb of a kind has."""

import re
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.cli.options.groups import grouped


@dataclass(frozen=True, kw_only=True)
class Place:
    city: Annotated[str, typer.Option("-c", "--city", help="Which city.")] = "Ulm"
    floor: Annotated[int, typer.Option(min=0)] = 0


def test_a_group_reaches_the_verb_in_one_piece() -> None:
    calls: list[tuple[str, bool, Place]] = []
    verbs = typer.Typer()

    @verbs.command()
    @grouped
    def visit(
        name: Annotated[str, typer.Argument()],
        loud: Annotated[bool, typer.Option("--loud")] = False,
        *,
        place: Place,
    ) -> None:
        calls.append((name, loud, place))

    assert CliRunner().invoke(verbs, ["ann"]).exit_code == 0
    assert CliRunner().invoke(verbs, ["bob", "--loud", "-c", "Bonn", "--floor", "3"]).exit_code == 0
    assert CliRunner().invoke(verbs, ["eve", "--floor", "-1"]).exit_code == 2
    assert calls == [("ann", False, Place()), ("bob", True, Place(city="Bonn", floor=3))]


@pytest.mark.parametrize("verb", [["pub"], ["sub"]])
def test_every_verb_with_a_broker_can_say_which(verb: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = CliRunner().invoke(app, [*verb, "--help"]).output
    for option in ("--url", "--host", "--port", "--tls", "--ca", "--cert", "--key", "--insecure", "--user", "--id"):
        assert re.search(rf"{option}[ ,]", text)


@pytest.mark.parametrize("verb", [["serve"], ["config", "check"], ["config", "show"]])
def test_every_verb_with_settings_can_say_where_from(verb: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = CliRunner().invoke(app, [*verb, "--help"]).output
    for option in ("--config", "--host", "--port", "--data", "--set"):
        assert re.search(rf"{option}[ ,]", text)
