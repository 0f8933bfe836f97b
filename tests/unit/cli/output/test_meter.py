"""Progress: a bar for people, lines for files, silence where nothing is wanted."""

import io

import pytest
from rich.console import Console

from holdfast.cli.output.meter import Meter


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def meter_on(out: io.StringIO, clock: Clock, *, terminal: bool, shown: bool = True) -> Meter:
    console = Console(file=out, force_terminal=terminal, highlight=False, width=100)
    return Meter("copying", shown=shown, console=console, now_s=clock)


def test_a_file_gets_a_line_now_and_then() -> None:
    out, clock = io.StringIO(), Clock()
    with meter_on(out, clock, terminal=False) as meter:
        assert not meter.is_due()
        clock.now_s += 10
        assert meter.is_due()
        meter.update(0.25, "7 of [28]")
        assert not meter.is_due()
        clock.now_s += 10
        meter.update(None, "some")
    assert out.getvalue() == "copying: 25%, 7 of [28]\ncopying: some\n"


def test_a_ticking_meter_says_how_long_it_takes() -> None:
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, force_terminal=False, highlight=False, width=100)
    with Meter("sql", console=console, now_s=clock, ticking=True) as meter:
        meter.update(None, "starting Spark")
        meter.tick()
        clock.now_s += 10
        meter.tick()
    # Its own thread may have said one of them.
    assert out.getvalue() == "sql: starting Spark\nsql: starting Spark, 10 s\n"


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end() -> None:
    out, clock = io.StringIO(), Clock()
    with meter_on(out, clock, terminal=True) as meter:
        clock.now_s += 0.1
        assert meter.is_due()
        meter.update(0.25, "7 of 28")
    assert "25%" in out.getvalue()
    assert "7 of 28" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K"), "the last thing it does is to wipe its line"


@pytest.mark.parametrize("terminal", [True, False])
def test_it_is_silent_where_it_is_not_wanted(terminal: bool) -> None:
    out, clock = io.StringIO(), Clock()
    with meter_on(out, clock, terminal=terminal, shown=False) as meter:
        clock.now_s += 1000
        assert not meter.is_due()
        meter.update(0.5, "half")
    assert out.getvalue() == ""
