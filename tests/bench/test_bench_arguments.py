"""Options mean the same before a command, behind it, and without one."""

from __future__ import annotations

import pytest

from bench.__main__ import parse_arguments


@pytest.mark.parametrize(
    "arguments", [["--quick", "brokers"], ["brokers", "--quick"], ["codec", "--quick"], ["--quick"]]
)
def test_quick_is_understood_wherever_it_stands(arguments: list[str]) -> None:
    found = parse_arguments(arguments)

    assert found.quick
    assert (found.rounds, found.docs) == (3, False)


def test_without_a_command_both_have_their_defaults() -> None:
    found = parse_arguments([])

    assert found.command is None
    assert not found.no_group
    assert "holdfast" in found.peers.split(",")


def test_figures_of_a_quick_run_do_not_get_into_the_documents() -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["brokers", "--quick", "--docs"])
