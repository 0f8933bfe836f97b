"""Options mean the same before a command, behind it, and without one."""

from __future__ import annotations

import pytest

from bench import document
from bench.__main__ import COMMANDS, parse_arguments, suites
from bench.checkout import ROOT


@pytest.mark.parametrize(
    "arguments",
    [["--quick", "brokers"], ["brokers", "--quick"], ["codec", "--quick"], ["storage", "--quick"], ["--quick"]],
)
def test_quick_is_understood_wherever_it_stands(arguments: list[str]) -> None:
    found = parse_arguments(arguments)

    assert found.quick
    assert (found.rounds, found.docs) == (3, False)


def test_without_a_command_all_have_their_defaults() -> None:
    found = parse_arguments([])

    assert found.command is None
    assert not found.no_group
    assert "holdfast" in found.peers.split(",")
    assert "learned" in found.layouts.split(",")
    assert found.stored == "1000000"


def test_figures_of_a_quick_run_do_not_get_into_the_documents() -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["brokers", "--quick", "--docs"])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_figures_has_a_place_for_every_benchmark(name: str) -> None:
    text = (ROOT / document.DOCUMENT).read_text(encoding="utf-8")

    assert text.count(f"<!-- {name}: begin -->") == text.count(f"<!-- {name}: end -->") == 1
    assert f"]({document.PICTURES.name}/{name}.svg)" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_options_of_its_own_suite_alone(name: str) -> None:
    [suite] = suites([name]).values()

    assert suite.DEFAULTS.keys() <= vars(parse_arguments([name])).keys() <= vars(parse_arguments([])).keys()


def test_a_word_that_is_no_command_is_refused_with_the_commands_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["codecs"])

    said = capsys.readouterr().err
    assert not [name for name in COMMANDS if f"'{name}'" not in said]
