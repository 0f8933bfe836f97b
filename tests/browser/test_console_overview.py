"""The overview: it moves, it shows gaps, and it never passes off old numbers as new ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect
from tests.browser.stand_in_data import DAY_S, NOW_US, SECOND_US, gauge

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def value_of(page: Any, tile: str) -> Any:
    return page.locator(".tile", has_text=tile).locator(".tile-value")


def wait_for_stream(page: Any, console: Console) -> None:
    """A frame before the page listens would be missed."""
    page.wait_for_function("() => performance.getEntriesByType('resource').length > 0")
    while not console.stand_in.asked("GET", "/api/v1/stream"):
        page.evaluate("new Promise(requestAnimationFrame)")


def test_overview_moves_within_two_seconds_and_shows_a_gap_after_a_restart(
    console: Console, open_page: Callable[..., Any]
) -> None:
    page = open_page("/")
    before = value_of(page, "Messages in").inner_text()
    wait_for_stream(page, console)
    console.stand_in.tick(2)
    expect(value_of(page, "Messages in")).not_to_have_text(before)
    chart = page.get_by_role("figure", name="Messages per second")
    # The data set has one gap, of a stop 25 minutes ago.
    expect(chart.get_by_text("1 gap")).to_be_visible()
    console.stand_in.broker.restart(away_s=90)
    console.stand_in.tick()
    expect(chart.get_by_text("2 gaps")).to_be_visible()
    chart.get_by_role("button", name="Table").click()
    assert chart.get_by_text("no value").count() > 0


def test_a_broker_that_hangs_is_shown_as_old_not_as_empty(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    wait_for_stream(page, console)
    console.stand_in.tick()
    expect(page.locator("#node-state")).to_contain_text("Taking messages")
    last = value_of(page, "Clients").inner_text()
    console.stand_in.broker.hangs = True
    console.stand_in.tick(12)
    expect(page.locator("#node-state")).to_contain_text("Silent for 12 s")
    expect(page.get_by_text("has not reported for 12 s")).to_be_visible()
    expect(value_of(page, "Clients")).to_have_text(last)
    assert page.locator(".tile .tag.old").count() == page.locator(".tile").count()
    console.stand_in.broker.hangs = False
    console.stand_in.tick()
    expect(page.locator("#node-state")).to_contain_text("Taking messages")


def test_ranges_are_part_of_the_address(open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    page.get_by_role("button", name="24 h").click()
    assert page.url.endswith("?range=24h")
    expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")


def test_the_disk_says_when_it_is_full(open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    # 590 GB are free, and 31 GB a day go.
    expect(page.get_by_text(re.compile(r"full in 19 d"))).to_be_visible()


def test_a_hidden_tab_has_no_stream(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    chart = page.get_by_role("figure", name="Messages per second")
    expect(chart.get_by_text("1 gap")).to_be_visible()
    wait_for_stream(page, console)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    before = value_of(page, "Messages in").inner_text()
    console.stand_in.tick(5)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert value_of(page, "Messages in").inner_text() == before
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function("() => true")
    while len(console.stand_in.asked("GET", "/api/v1/stream")) < 2:
        page.evaluate("new Promise(requestAnimationFrame)")
    asked = len(console.stand_in.asked("GET", "/api/v1/series"))
    console.stand_in.tick(60)
    expect(value_of(page, "Messages in")).not_to_have_text(before)
    # The console has seen the minute that this page has not, and is asked for it.
    while len(console.stand_in.asked("GET", "/api/v1/series")) == asked:
        page.evaluate("new Promise(requestAnimationFrame)")
    expect(chart.get_by_text("1 gap")).to_be_visible()


def test_no_alarm_is_muted_without_a_question(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/health")
    page.get_by_role("button", name="Mute 1 h lease_lagging").click()
    dialog = page.get_by_role("dialog", name="Mute the alarm lease_lagging for 1 hour?")
    expect(dialog).to_be_visible()
    assert console.stand_in.asked("POST", "/api/v1/alarms") == []
    dialog.get_by_role("button", name="Mute").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("muted until")).to_be_visible()
    assert [body for _m, _p, body in console.stand_in.asked("POST", "/api/v1/alarms")] == ['{"seconds":3600}']


def test_pipelines_are_shown_with_how_far_they_are_behind(open_page: Callable[..., Any]) -> None:
    page = open_page("/health")
    panel = page.get_by_role("region", name="Pipelines")
    expect(panel.locator("tbody tr")).to_have_count(3)
    rows = [row.inner_text().split("\t") for row in panel.locator("tbody tr").all()]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["archive", "follows the log", "3 s", "2 s ago"],
        ["learn-2025", "broken by retention 2026-11-15 14:03:10", "\N{EN DASH}", "\N{EN DASH}"],
        ["plots-of-presses", "follows the log", "2 h", "2 h ago"],
    ]
    panel.get_by_role("button", name="Report by Spark").click()
    command = page.get_by_role("menuitem", name="Command").locator("code")
    expect(command).to_have_text(re.compile("^holdfast spark report --since=-1d --output=report.html --data "))


def test_drops_by_reason_are_those_of_the_range(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/?range=24h")
    panel = page.locator(".panel.drops")
    now_s = NOW_US // SECOND_US
    # Every ten seconds of the day, as the console keeps them. Its begin and its end are quiet.
    dropped = sum(gauge("drops_total", at_s) * 10 for at_s in range((now_s - DAY_S) // 10 * 10, now_s + 1, 10))
    assert gauge("drops_total", now_s) == gauge("drops_total", now_s - DAY_S) == 0.0 < dropped
    expect(panel).to_contain_text(f"about {round(dropped):,} in the last 24 h")
    since_start = {"expired": 812, "denied": 97, "slow_client": 12, "queue_full": 3}
    for range_, span_s in (("24h", DAY_S), ("7d", 7 * DAY_S)):
        page.goto(f"/?range={range_}")
        told = dict.fromkeys(since_start, 0)
        for event in console.stand_in.events:
            if event["reason"] in told and NOW_US - span_s * SECOND_US <= event["at_us"]:
                told[event["reason"]] += event["count"]
        assert any(told[reason] != since_start[reason] for reason in told)
        order = sorted(told, key=lambda reason: (-told[reason], -since_start[reason]))
        wanted = [f"{reason}{told[reason]:,} {since_start[reason]:,} since start" for reason in order]
        expect(panel.locator("li")).to_have_text(wanted)
        expect(panel.get_by_role("link", name=order[0])).to_have_attribute(
            "href", f"/events?reason={order[0]}&since=-{range_}"
        )
    page.goto("/")
    expect(panel).to_contain_text("0 in the last 1 h")
    expect(panel.locator("li").filter(has_text="expired")).to_have_text("expired0 812 since start")


def test_a_disk_of_which_little_is_known_is_not_said_to_be_filling_or_not(
    console: Console, open_page: Callable[..., Any]
) -> None:
    # The broker has run for a minute.
    console.stand_in.broker.gaps_s = [(0.0, NOW_US / SECOND_US - 60)]
    page = open_page(None)
    page.clock.install()
    page.goto("/")
    expect(page.get_by_text("not known yet when it is full")).to_be_visible()
    assert page.get_by_text("not filling").count() == 0
    # A page that stays open asks again.
    console.stand_in.broker.gaps_s = [(0.0, NOW_US / SECOND_US - 7200)]
    page.clock.run_for(61_000)
    expect(page.get_by_text(re.compile("full in 19 d at the pace of the last 2 h"))).to_be_visible()
