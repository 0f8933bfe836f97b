"""Events over time: bars that can be dragged to choose a range, and reached without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect, find_hindrances, take_picture
from tests.browser.time_page import drag, in_address

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def counted(console: Console, from_us: int, to_us: int) -> str:
    total = sum(event["count"] for event in console.stand_in.events if from_us <= event["at_us"] < to_us)
    return f"{total:,} events"


def test_dragging_the_bars_shows_exactly_the_events_of_the_range(
    console: Console, open_page: Callable[..., Any]
) -> None:
    page = open_page("/events")
    strip = page.get_by_role("group", name="Events over time").locator("canvas")
    expect(strip).to_have_attribute("data-drawn", "exact")
    take_picture(page, "events-over-time")
    assert find_hindrances(page) == []
    drag(page, strip, 0.6, 0.9)
    page.wait_for_url("**until=*")
    from_us, to_us = in_address(page, "since"), in_address(page, "until")
    now_us, day_us = console.stand_in.broker.now_us, 86_400_000_000
    assert now_us - day_us < from_us < to_us < now_us
    total = page.get_by_role("region", name="Events over time").get_by_role("status")
    expect(total).to_have_text(counted(console, from_us, to_us))
    inside = [event for event in console.stand_in.events if from_us <= event["at_us"] < to_us]
    expect(page.get_by_role("grid", name="Events")).to_have_attribute("aria-rowcount", str(len(inside) + 1))
    take_picture(page, "events-chosen")
    page.get_by_role("button", name="Last 24 h").click()
    expect(page.get_by_label("Since")).to_have_value("-24h")
    expect(page.get_by_label("Until")).to_have_value("")


#: Timers of what is typed end when they are told to.
HOLD_TIMERS = """() => {
    const { setTimeout, clearTimeout } = globalThis;
    const held = globalThis.heldTimers = new Map();
    let last = 1e9;
    globalThis.setTimeout = (action, ms, ...given) => {
        if (ms !== 300) return setTimeout(action, ms, ...given);
        held.set(++last, action);
        return last;
    };
    globalThis.clearTimeout = (timer) => { if (!held.delete(timer)) clearTimeout(timer); };
}"""
#: The timers end behind a click, before the page has drawn what follows from it.
CLICK_AND_END_TIMERS = """async (button) => {
    button.click();
    for (let turn = 0; turn < 10; turn++) await null;
    for (const action of [...globalThis.heldTimers.values()]) action();
}"""


def test_what_was_typed_before_a_click_does_not_undo_it(open_page: Callable[..., Any]) -> None:
    page = open_page("/events?since=-2h")
    expect(page.get_by_label("Since")).to_have_value("-2h")
    page.evaluate(HOLD_TIMERS)
    page.locator("#events-client").fill("press")
    page.wait_for_function("() => globalThis.heldTimers.size > 0")

    page.get_by_role("button", name="Last 24 h").evaluate(CLICK_AND_END_TIMERS)

    expect(page.get_by_label("Since")).to_have_value("-24h")
    expect(page.locator("#events-client")).to_have_value("")


def test_the_range_is_chosen_by_keys_and_read_as_a_table(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/events")
    page.get_by_role("slider", name="Beginning of the range").focus()
    page.keyboard.press("PageUp")
    page.wait_for_url("**until=*")
    from_us, to_us = in_address(page, "since"), in_address(page, "until")
    total = page.get_by_role("region", name="Events over time").get_by_role("status")
    expect(total).to_have_text(counted(console, from_us, to_us))
    page.get_by_role("button", name="As a table").click()
    expect(page.get_by_role("columnheader", name="events", exact=True)).to_be_visible()
    assert find_hindrances(page) == []
