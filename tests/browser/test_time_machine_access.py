"""The time machine for everybody: by keyboard, by assistive programs, in both themes, in a narrow window."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, find_hindrances, take_picture
from tests.browser.time_page import (
    Machine,
    expected,
    in_address,
    iso,
    open_time,
    settled,
)

pytestmark = [pytest.mark.slow, pytest.mark.browser]


#: A folder for pictures of the whole page, for whoever wants to look at it.
PICTURES_WHOLE = os.environ.get("HOLDFAST_WHOLE_PICTURES", "")


@pytest.fixture
def machine(console: Console, open_page: Callable[..., Any]) -> Machine:
    return Machine(console, open_page)


def test_the_strip_works_by_keyboard_alone(machine: Machine) -> None:
    page = open_time(machine, "?f=%23&from=-4h&to=now")
    a = page.get_by_role("slider", name="Moment A")
    for _ in range(60):
        if a.evaluate("(element) => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    else:
        pytest.fail("Tab does not lead to A")
    low, high = (int(a.get_attribute(f"aria-value{name}") or 0) for name in ("min", "max"))
    assert (low, high) == (in_address(page, "from"), in_address(page, "to"))
    page.keyboard.press("Home")
    page.wait_for_function(f"() => document.activeElement.getAttribute('aria-valuenow') === '{low}'")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => Number(document.activeElement.getAttribute('aria-valuenow')) > {low}")
    step = int(a.get_attribute("aria-valuenow") or 0) - low
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_function(f"() => document.activeElement.getAttribute('aria-valuenow') === '{low + 11 * step}'")
    settled(page)
    assert in_address(page, "at") == low + 11 * step
    assert a.get_attribute("aria-valuetext") == iso(low + 11 * step)[:-4].replace("T", " ")
    begin = page.get_by_role("slider", name="Beginning of the range")
    begin.focus()
    page.keyboard.press("PageUp")
    page.wait_for_function(f"() => Number(document.activeElement.getAttribute('aria-valuenow')) > {low}")
    settled(page)
    assert in_address(page, "from") == int(begin.get_attribute("aria-valuenow") or 0)
    page.get_by_role("button", name="As a table").first.focus()
    page.keyboard.press("Enter")
    numbers = page.locator(".bucket-table td.number").all_inner_texts()
    assert sum(int(number.replace(",", "")) for number in numbers) == len(
        expected(machine.history.messages, "#", in_address(page, "from"), in_address(page, "to"))
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "query",
    ["?f=plant/%23", "?f=%23&b=-9h&at=-1h&from=-10h&to=now", "?f=plant/1/temp&plot=plant/1/temp&from=-6h&to=now"],
)
def test_the_time_machine_is_accessible(machine: Machine, theme: str, query: str) -> None:
    page = open_time(machine, query, color_scheme=theme)
    page.get_by_role("grid", name="Messages, newest first").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("region", name="The chosen message").wait_for()
    page.get_by_role("grid", name="State at A").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("region", name="The chosen topic").wait_for()
    assert find_hindrances(page) == []


PICTURES = {
    "time": "?f=plant/%23&from=-12h&to=now&at=-50m",
    "time-compare": "?f=plant/%23&from=-12h&to=now&at=-50m&b=-10h",
    "time-plot": "?f=plant/%2B/temp&from=-12h&to=now&at=-4h&plot=plant/1/temp&plot=plant/2/temp&plot=plant/3/temp",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390, 320])
@pytest.mark.parametrize("name", PICTURES)
def test_the_page_fits_its_window(machine: Machine, name: str, theme: str, width: int) -> None:
    page = open_time(machine, PICTURES[name], color_scheme=theme, width=width, height=900 if width > 400 else 844)
    page.get_by_role("grid", name="Messages, newest first").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    take_picture(page, f"{name}-{width}-{theme}")
    if PICTURES_WHOLE:
        page.screenshot(
            path=f"{PICTURES_WHOLE}/{name}-{width}-{theme}-whole.png", full_page=True, animations="disabled"
        )
    assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
