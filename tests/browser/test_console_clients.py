"""Clients: found, sorted and scrolled among a hundred thousand, looked at, and changed only after a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect
from tests.browser.stand_in_data import DAY_S, NOW_US, SECOND_US, SLOWEST

pytestmark = [pytest.mark.slow, pytest.mark.browser]

NOT_FOUND = "status of 404"


def rows(page: Any) -> Any:
    return page.locator("tbody tr[aria-rowindex]")


def drawn(page: Any) -> int:
    count: int = page.locator("tr").count()
    return count


def test_a_hundred_thousand_clients_scroll_search_and_sort_with_at_most_200_rows_in_the_page(
    console: Console, open_page: Callable[..., Any]
) -> None:
    page = open_page("/clients")
    grid = page.get_by_role("grid", name="Clients")
    total = len(console.stand_in.clients)
    expect(grid).to_have_attribute("aria-rowcount", str(total + 1))
    names = sorted(console.stand_in.clients)
    for share in (0.1, 0.5, 0.9, 1.0):
        page.locator(".rows").evaluate(f"(box) => box.scrollTop = (box.scrollHeight - box.clientHeight) * {share}")
        index = rows(page).last
        expect(index).not_to_have_class("waiting")
        expect(page.locator("tr.waiting")).to_have_count(0)
        assert drawn(page) <= 200
    # The last row of the list is the last of all clients by name, and says so.
    expect(page.locator(f'tr[aria-rowindex="{total + 1}"]')).to_be_visible()
    last = page.locator(f'tr[aria-rowindex="{total + 1}"] a').get_attribute("href")
    assert last == page.evaluate("(name) => '/clients/' + encodeURIComponent(name)", names[-1])

    page.get_by_label("Client, user or address").fill("oven-0012")
    expect(page.get_by_text("3 of 100,010")).to_be_visible()
    expect(rows(page)).to_have_count(3)
    assert page.url.endswith("?q=oven-0012")

    page.get_by_label("Client, user or address").fill("")
    expect(grid).to_have_attribute("aria-rowcount", str(total + 1))
    page.get_by_role("button", name="owed").click()
    expect(rows(page).first).to_contain_text(SLOWEST)
    expect(page.get_by_role("columnheader", name="owed")).to_have_attribute("aria-sort", "descending")
    assert drawn(page) <= 200


def test_going_back_up_shows_the_first_rows_again(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/clients")
    expect(page.locator('tr[aria-rowindex="2"]')).to_be_visible()
    first = page.locator('tr[aria-rowindex="2"]').inner_text()
    page.locator(".rows").evaluate("(box) => box.scrollTop = box.scrollHeight / 2")
    expect(page.locator("tr.waiting")).to_have_count(0)
    page.locator(".rows").evaluate("(box) => box.scrollTop = 0")
    expect(page.locator('tr[aria-rowindex="2"]')).to_have_text(first, use_inner_text=True)


def test_kick_names_the_client_and_it_is_gone(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/clients?q=press-00004")
    page.get_by_role("link", name="press-00004").click()
    page.get_by_role("button", name="Disconnect").click()
    dialog = page.get_by_role("dialog", name="Disconnect 1 client?")
    client = console.stand_in.clients["press-00004"]
    expect(dialog).to_contain_text("press-00004")
    expect(dialog).to_contain_text(f"{client.address}:{client.port}")
    dialog.get_by_role("button", name="Cancel").click()
    assert console.stand_in.asked("POST", "/api/v1/clients") == []
    page.get_by_role("button", name="Disconnect").click()
    dialog.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_text("Disconnected (")).to_be_visible()
    expect(page.get_by_text("Offline", exact=True)).to_be_visible()
    assert page.get_by_role("button", name="Disconnect").count() == 0
    assert len(console.stand_in.asked("POST", "/api/v1/clients/press-00004/kick")) == 1


def test_a_session_that_ends_says_what_goes_with_it(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/clients/press-00004")
    page.get_by_role("button", name="End session").click()
    dialog = page.get_by_role("dialog", name="End 1 session?")
    expect(dialog).to_contain_text("5 subscriptions")
    page.watch.allow(NOT_FOUND)
    dialog.get_by_role("button", name="End session").click()
    expect(page.get_by_text("The session has ended.")).to_be_visible()
    assert "press-00004" not in console.stand_in.clients


def test_a_long_queue_is_shown_page_by_page_to_its_end(open_page: Callable[..., Any]) -> None:
    page = open_page(f"/clients/{SLOWEST}?tab=queue")
    rows = page.locator("table.list tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(140)
    assert len(set(rows.locator("td:nth-child(4)").all_inner_texts())) == 140
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_a_queue_is_emptied_after_its_number_was_named(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page(f"/clients/{SLOWEST}?tab=queue")
    page.get_by_role("button", name="Empty queue").click()
    dialog = page.get_by_role("dialog", name="Take at most 1,204,311 messages out of 1 queue?")
    dialog.get_by_role("button", name="Empty queue").click()
    expect(page.get_by_text("1,204,311 taken out of the queue.")).to_be_visible()
    assert console.stand_in.clients[SLOWEST].owed == 0


def test_the_slowest_consumer_is_found_by_two_clicks(open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    page.get_by_role("link", name="Behind").click()
    rows(page).first.click()
    expect(page.get_by_role("heading", name=SLOWEST)).to_be_visible()


def test_an_event_leads_to_explain_and_to_its_moment(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/events?client=press-00004&topic=plant/safe/%23")
    event = next(one for one in console.stand_in.events if one["topic"] == "plant/safe/door")
    row = rows(page).filter(has_text="plant/safe/door")
    moment = row.get_by_role("link", name="moment").get_attribute("href")
    assert moment == f"/time?f=plant%2Fsafe%2Fdoor&at={event['from_us']}"
    row.get_by_role("link", name="explain").click()
    expect(page.get_by_role("heading", name="press-00004")).to_be_visible()
    expect(page.get_by_label("Topic filter")).to_have_value("plant/safe/door")
    expect(page.get_by_role("status").filter(has_text="dropped")).to_be_visible()
    expect(page.get_by_text("the access rules do not allow it")).to_be_visible()


def test_a_wrong_value_is_said_beside_its_field(open_page: Callable[..., Any]) -> None:
    page = open_page(None)
    page.watch.allow("status of 400")
    page.goto("/events?since=yesterday")
    field = page.get_by_label("Since")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#events-since-error")).to_contain_text("is no time")


def test_who_gets_a_topic(open_page: Callable[..., Any]) -> None:
    page = open_page("/subscriptions")
    page.get_by_label("Who gets the topic").fill("plant/1/temp")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "43")
    assert page.url.endswith("?topic=plant%2F1%2Ftemp")


def test_what_can_be_done_here_can_be_copied_as_a_command(open_page: Callable[..., Any]) -> None:
    page = open_page("/clients?q=it's&state=behind&sort=-owed", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as").click()
    page.get_by_role("menuitem", name="Command").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "holdfast clients list --search='it'\\''s' --behind --sort=owed --data /var/lib/holdfast"


def test_refused_clients_are_events_of_a_whole_id(console: Console, open_page: Callable[..., Any]) -> None:
    refused = next(one["client"] for one in console.stand_in.events if one["reason"] == "connect_refused")
    page = open_page(f"/clients?q={refused[:-1]}")
    page.get_by_role("button", name="Refused").click()
    expect(page.get_by_label("Client, whole id")).to_have_value(refused[:-1])
    # All of it, and not behind the end of an empty list.
    expect(page.get_by_text("A client is found by its whole id alone")).to_be_in_viewport(ratio=1)
    page.get_by_label("Client, whole id").fill(refused)
    wanted = [one for one in console.stand_in.events if (one["client"], one["reason"]) == (refused, "connect_refused")]
    expect(rows(page)).to_have_count(len([one for one in wanted if one["at_us"] >= NOW_US - DAY_S * SECOND_US]))


def entries(page: Any) -> dict[str, str]:
    """What "Copy as" of the page offers."""
    page.get_by_role("button", name="Copy as").first.click()
    return {
        item.locator(".menu-label").inner_text(): item.locator("code").text_content() or ""
        for item in page.get_by_role("menuitem").all()
    }


def test_no_command_is_offered_that_would_print_something_else(open_page: Callable[..., Any]) -> None:
    page = open_page("/clients?state=offline")
    assert set(entries(page)) == {"Address", "curl"}
    expect(page.get_by_text("No command lists sessions that are offline; curl does.")).to_be_visible()
    # The command lists the newest connections first.
    page.goto("/clients?sort=since")
    assert set(entries(page)) == {"Address", "curl"}
    page.goto("/clients?sort=-since&state=connected")
    assert "--sort=since" in entries(page)["Command"]
    page.goto("/clients")
    assert "Command" in entries(page)
    expect(page.get_by_text("The command lists clients that are connected")).to_be_visible()


def test_each_list_of_the_pages_has_its_call(open_page: Callable[..., Any]) -> None:
    page = open_page("/?range=24h")
    assert "/api/v1/series?names=" in entries(page)["curl, the charts"]
    page.goto("/health")
    found = entries(page)
    assert found["curl, of the audit"].endswith("/api/v1/audit?limit=100'")
    assert found["Command, of the audit"].startswith("holdfast audit")
    page.goto(f"/clients/{SLOWEST}?tab=queue")
    assert f"/api/v1/sessions/{SLOWEST}/queue?limit=100" in entries(page)["curl, of the queue"]
    page.goto(f"/clients/{SLOWEST}?tab=events")
    found = entries(page)
    assert f"/api/v1/events?client={SLOWEST}&since=-7d" in found["curl, of the events"]
    assert found["Command, of the events"].startswith(f"holdfast events --client={SLOWEST} --since=-7d")
