"""Who gets in: the printed link, a name with its password, and nobody after the end of a login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect

pytestmark = [pytest.mark.slow, pytest.mark.browser]

UNAUTHORIZED = "status of 401"


def test_the_printed_link_logs_in_once(console: Console, open_page: Callable[..., Any]) -> None:
    token = next(iter(console.stand_in.links))
    page = open_page(f"/login#token={token}", user=None)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert token not in page.url

    again = open_page(None, user=None)
    again.watch.allow(UNAUTHORIZED)
    again.goto(f"/login#token={token}")
    expect(again.get_by_role("alert")).to_contain_text("used already")
    assert token not in again.url
    # The token stands in the body of a call and nowhere else.
    assert [path for _method, path, _body in console.stand_in.requests if token in path] == []


def test_a_name_with_its_password_leads_to_the_page_that_was_asked_for(open_page: Callable[..., Any]) -> None:
    page = open_page(None, user=None)
    page.watch.allow(UNAUTHORIZED)
    page.goto("/clients?state=behind")
    page.get_by_label("Name").fill("eva")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Clients")).to_be_visible()
    assert page.url.endswith("/clients?state=behind")


@pytest.mark.parametrize(
    "elsewhere", ["https://example.org/", "//example.org/", "/\\example.org", "javascript:alert(1)"]
)
def test_a_login_never_leads_to_another_place(open_page: Callable[..., Any], elsewhere: str) -> None:
    page = open_page(None, user=None)
    page.goto(f"/login?next={elsewhere}")
    page.get_by_label("Name").fill("eva")
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_logging_out_ends_the_login(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in to Holdfast")).to_be_visible()
    assert console.stand_in.logins == {}


def test_a_viewer_is_offered_no_changes_and_no_payloads(open_page: Callable[..., Any]) -> None:
    page = open_page("/clients/press-00004", user="vic")
    expect(page.get_by_text("Connected", exact=True).first).to_be_visible()
    assert page.get_by_role("button", name="Disconnect").count() == 0
    page.get_by_role("tab", name="Queue").click()
    expect(page.get_by_text("The role reader is needed")).to_be_visible()
