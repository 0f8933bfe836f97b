"""Clients that are chosen: the question names how many it meets, and a number that has changed meets none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect, find_hindrances, take_picture

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def choose(page: Any, *names: str) -> None:
    for name in names:
        page.get_by_role("checkbox", name=f"Select {name}", exact=True).check()


def connected(console: Console, text: str) -> list[str]:
    clients = console.stand_in.clients.values()
    return sorted(client.session_id for client in clients if text in client.session_id and client.connected)


def test_a_selection_is_disconnected_after_its_number_was_named(
    console: Console, open_page: Callable[..., Any]
) -> None:
    first, second, third = connected(console, "oven-001")[:3]
    page = open_page("/clients?q=oven-001&state=connected", user="olga")
    choose(page, first, second, third)
    page.get_by_role("checkbox", name=f"Select {third}", exact=True).uncheck()
    expect(page.get_by_text("2 selected")).to_be_visible()
    take_picture(page, "clients-selected")
    assert find_hindrances(page) == []
    bar = page.get_by_role("group", name="Selected clients")
    bar.get_by_role("button", name="Disconnect").click()
    dialog = page.get_by_role("dialog", name="Disconnect 2 clients?")
    expect(dialog).to_contain_text(first)
    expect(dialog).to_contain_text(second)
    take_picture(page, "clients-selected-dialog")
    dialog.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_text("2 clients were disconnected.")).to_be_visible()
    ((_method, path, body),) = console.stand_in.asked("POST", "/api/v1/clients/kick")
    assert path.endswith("?expect=2")
    assert json.loads(body) == {"ids": [first, second]}
    assert [console.stand_in.clients[name].connected for name in (first, second, third)] == [False, False, True]
    expect(page.get_by_role("checkbox", name=f"Select {first}", exact=True)).to_have_count(0)
    expect(bar).to_have_count(0)


def test_sessions_of_a_selection_end_whether_connected_or_not(console: Console, open_page: Callable[..., Any]) -> None:
    names = connected(console, "oven-001")[:2]
    console.stand_in.kick(names[1])
    page = open_page("/clients?q=oven-001")
    choose(page, *names)
    page.get_by_role("group", name="Selected clients").get_by_role("button", name="End session").click()
    page.get_by_role("dialog", name="End 2 sessions?").get_by_role("button", name="End sessions").click()
    expect(page.get_by_text("2 sessions have ended.")).to_be_visible()
    assert not set(names) & set(console.stand_in.clients)


def test_a_number_that_has_changed_meets_nobody(console: Console, open_page: Callable[..., Any]) -> None:
    first, second = connected(console, "oven-001")[:2]
    page = open_page("/clients?q=oven-001")
    choose(page, first, second)
    page.get_by_role("group", name="Selected clients").get_by_role("button", name="Disconnect").click()
    dialog = page.get_by_role("dialog", name="Disconnect 2 clients?")
    console.stand_in.end_session(first)
    page.watch.allow("status of 409")
    dialog.get_by_role("button", name="Disconnect").click()
    expect(dialog.get_by_role("alert")).to_contain_text("1 of these clients")
    assert console.stand_in.clients[second].connected


def test_rows_are_chosen_without_a_mouse_and_all_at_once(open_page: Callable[..., Any]) -> None:
    page = open_page("/clients?q=oven-0012")
    row = page.locator('tr[aria-rowindex="2"]')
    row.focus()
    page.keyboard.press(" ")
    expect(row).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_role("checkbox", name="Select the 3 clients loaded").check()
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("button", name="Clear selection").click()
    expect(row).to_have_attribute("aria-selected", "false")


def test_who_is_no_operator_chooses_nothing(open_page: Callable[..., Any]) -> None:
    page = open_page("/clients?q=oven-0012", user="vic")
    expect(page.locator('tr[aria-rowindex="2"]')).to_be_visible()
    assert page.get_by_role("checkbox").count() == 0
