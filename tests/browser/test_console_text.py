"""Names and payloads of any bytes are shown as text, and the address of each leads to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect
from tests.browser.stand_in_data import HOSTILE_NAMES, LONG_NAME

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def is_clean(page: Any) -> bool:
    """No script ran and no element was made of a name."""
    return bool(
        page.evaluate("!document.querySelector('main script, main img, main iframe') && document.title !== 'taken'")
    )


def test_hostile_names_and_payloads_stay_text(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page(None)
    asked: list[str] = []

    def dismiss(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    for name in HOSTILE_NAMES:
        page.goto("/clients")
        page.get_by_label("Client, user or address").fill(name[:2000])
        # A name that has a control character cannot be typed: its address is opened instead.
        page.goto(page.evaluate("(name) => '/clients/' + encodeURIComponent(name)", name))
        expect(page.get_by_role("tab", name="Session")).to_be_visible()
        assert is_clean(page)
        for tab in ("Queue", "In flight", "Subscriptions", "Events", "Explain"):
            page.get_by_role("tab", name=tab).click()
            assert is_clean(page)
    for path in ("/events", "/subscriptions?topic=plant/1/temp", "/health", "/clients?q=%3Cimg"):
        page.goto(path)
        expect(page.locator("tbody tr").first).to_be_visible()
        assert is_clean(page)
    assert asked == []


def test_what_cannot_be_seen_is_shown_as_an_escape(open_page: Callable[..., Any]) -> None:
    page = open_page(None)
    page.goto("/clients/" + "abc%E2%80%AEgnp.exe")
    expect(page.get_by_role("heading").locator(".esc")).to_have_text("\\u{202e}")
    page.goto("/clients/" + "line%0Abreak%09tab%1B%5B31m")
    expect(page.get_by_role("heading")).to_have_text("line\\nbreak\\ttab\\x1b[31m")


def test_a_name_of_64_kb_is_cut_with_a_sign_and_found(open_page: Callable[..., Any]) -> None:
    page = open_page("/clients?q=LLLL")
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("… +64,840")
    box = row.bounding_box()
    assert box is not None
    assert box["height"] < 60
    row.click()
    expect(page.get_by_role("heading")).to_contain_text("+64,600")
    assert len(page.get_by_role("heading").inner_text()) < 1000
    assert page.url.endswith(LONG_NAME)


def test_an_unknown_client_is_said_to_be_unknown(open_page: Callable[..., Any]) -> None:
    page = open_page(None)
    page.watch.allow("status of 404")
    page.goto("/clients/nobody%2F%3Cb%3E")
    expect(page.get_by_text("No session has the name nobody/<b>")).to_be_visible()


def test_an_address_without_a_page_says_so(open_page: Callable[..., Any]) -> None:
    page = open_page("/health/more")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    page.evaluate("history.pushState(null, '', '/nothing'); dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()
