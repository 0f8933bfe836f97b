"""Times and speeds of the command line."""

from fractions import Fraction

import pytest
import typer

from holdfast.cli.commands import WRONG_USAGE
from holdfast.cli.options.times import parse_speed_option, parse_time_span


def test_a_span_has_a_start_and_may_have_an_end() -> None:
    assert parse_time_span("--from", "5", "--until", None) == (5, None)
    assert parse_time_span("--from", "5", "--until", "9") == (5, 9)


@pytest.mark.parametrize(
    ("since", "until", "wrong"),
    [("9", "9", "--from 9 is not before --until 9"), ("soon", None, "--from: "), ("5", "soon", "--until: ")],
)
def test_a_wrong_span_is_wrong_usage(
    since: str, until: str | None, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        parse_time_span("--from", since, "--until", until)

    assert ended.value.exit_code == WRONG_USAGE
    assert wrong in capsys.readouterr().err


def test_a_speed_is_a_factor_or_max() -> None:
    assert parse_speed_option("max") is None
    assert parse_speed_option("10") == 10
    assert parse_speed_option("0.5") == Fraction(1, 2)


@pytest.mark.parametrize("text", ["0", "-1", "fast", "1/0", ""])
def test_another_speed_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        parse_speed_option(text)

    assert ended.value.exit_code == WRONG_USAGE
    assert "a number above 0" in capsys.readouterr().err
