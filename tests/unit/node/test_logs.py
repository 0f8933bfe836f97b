"""Lines of the log."""

import json
import re

import pytest
import structlog

from holdfast.node.logs import configure_logs

#: Those of the form for terminals.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = ["a\n2026-01-01 [critical] forged", "\x1b[2J\x1b[H", "\r", "\u202etxt.exe", "\u2028", "\x00\x07", "\x9b2J"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("form", ["json", "console"])
def test_a_name_forges_no_line_and_moves_no_cursor(capfd: pytest.CaptureFixture[str], form: str, name: str) -> None:
    configure_logs("info", form)
    structlog.get_logger().info("client connected", client=name)
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert _COLOURS.sub("", said)[:-1].isprintable()
    if form == "json":
        assert json.loads(said)["client"] == name


def test_what_can_be_printed_is_shown_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "console")
    structlog.get_logger().info("client connected", client="Kürbis-7/☃", count=3)
    said = capfd.readouterr().err
    assert "Kürbis-7/☃" in said
    assert "3" in said


def test_a_traceback_keeps_its_lines(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "console")
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger().exception("a part failed", client="a\x1b[2J")
    said = capfd.readouterr().err
    assert "broken" in said
    assert said.count("\n") > 2
    assert "\x1b[2J" not in said


def _fail(text: str) -> None:
    password = text[::-1]
    raise ValueError(text) if password else AssertionError


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_no_locals(capfd: pytest.CaptureFixture[str], form: str) -> None:
    configure_logs("info", form)
    try:
        _fail("terces")
    except ValueError:
        structlog.get_logger().exception("a part failed")
    said = _COLOURS.sub("", capfd.readouterr().err)
    assert "ValueError: terces" in said
    assert "secret" not in said


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("form", ["json", "console"])
def test_the_text_of_an_exception_forges_no_line_and_moves_no_cursor(
    capfd: pytest.CaptureFixture[str], form: str, text: str
) -> None:
    configure_logs("info", form)
    error = ValueError(text)
    error.add_note(f"note {text}")
    try:
        raise ExceptionGroup(text, [error])
    except ExceptionGroup:
        structlog.get_logger().exception("a part failed")
    first, *traceback = _COLOURS.sub("", capfd.readouterr().err)[:-1].split("\n")
    assert first.isprintable()
    for line in traceback:
        assert line.isprintable()
        assert not line or line.startswith("  ")
    if form == "json":
        assert not traceback
        assert text.split("\n")[-1] in json.loads(first)["exception"]
    else:
        assert len(traceback) > 2
