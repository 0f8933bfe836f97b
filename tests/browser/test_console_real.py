"""The page in front of a real broker with its console: what the stand-in promises is what the console does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.browsing import expect
from tests.browser.real_broker import Broker, Client
from tests.browser.stand_in_data import HOSTILE_NAMES

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def test_a_real_link_logs_in_once_and_the_overview_moves(broker: Broker, open_real: Callable[[], Any]) -> None:
    page = open_real()
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("#node-state")).to_contain_text("Taking messages")
    clients = page.locator(".tile", has_text="Clients").locator(".tile-value")
    expect(clients).to_have_text("0")
    client = Client(broker, "press-1")
    try:
        expect(clients).to_have_text("1")
    finally:
        client.close()
    again = open_real()
    again.watch.allow("status of 401")
    again.goto(broker.link)
    expect(again.get_by_role("alert")).to_be_visible()


def test_a_real_client_is_found_explained_and_kicked(broker: Broker, open_real: Callable[[], Any]) -> None:
    page = open_real()
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    clients = [Client(broker, name) for name in ("press-1", HOSTILE_NAMES[0], HOSTILE_NAMES[2])]
    try:
        clients[0].publish("plant/1/temp", b"<b>21.5</b>")
        page.goto("/clients")
        expect(page.locator("tbody tr")).to_have_count(3)
        assert page.locator("main img").count() == 0
        for name in (HOSTILE_NAMES[0], HOSTILE_NAMES[2]):
            page.goto(f"/clients/{quote(name, safe='')}")
            expect(page.get_by_role("heading", name=name)).to_be_visible()
            expect(page.get_by_text("Connected", exact=True).first).to_be_visible()
        page.goto("/subscriptions?topic=plant/1/temp")
        expect(page.locator("tbody tr")).to_have_count(3)
        page.goto("/clients/press-1")
        # Its session ends with its connection, and then there is nothing to show.
        page.watch.allow("status of 404")
        page.get_by_role("button", name="Disconnect").click()
        page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        assert clients[0].gone.wait(30)
        expect(page.get_by_text("No session has the name press-1")).to_be_visible()
    finally:
        for client in clients:
            client.close()
