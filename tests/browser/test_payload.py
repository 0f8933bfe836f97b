"""The payload viewer: any bytes, in every form, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import expect, find_hindrances
from tests.browser.stand_in_data import NOW_US, SECOND_US
from tests.browser.stand_in_history import HOSTILE_PAYLOADS

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FORMS = ("Text", "JSON", "Hex", "CBOR", "Sparkplug")


def open_message(open_page: Callable[..., Any], topic: str, row: int = 0) -> Any:
    """The page with the newest message of a filter chosen, or an older one."""
    page = open_page(f"/time?f={topic}&from={NOW_US - 600 * SECOND_US}&to={NOW_US + SECOND_US}")
    grid = page.get_by_role("grid", name="Messages, newest first")
    grid.locator(f"[aria-rowindex='{row + 2}']").click()
    page.get_by_role("region", name="The chosen message").wait_for()
    return page


def show_as(page: Any, form: str) -> Any:
    page.get_by_role("group", name="Show the payload as").get_by_role("button", name=form, exact=True).click()
    return page.locator(".payload")


@pytest.mark.parametrize("row", range(len(HOSTILE_PAYLOADS)))
def test_hostile_payloads_stay_text(open_page: Callable[..., Any], row: int) -> None:
    page = open_message(open_page, "hostile/%23", row)
    title = page.title()
    for form in FORMS:
        show_as(page, form)
    made = page.evaluate("() => document.querySelectorAll('main img, main script, main b b, main i').length")
    assert made == 0
    assert page.title() == title
    assert "hostile/<img src=x onerror=alert(1)>" in page.locator(".inspector h3").inner_text()


def test_marks_that_turn_text_are_shown_as_escapes(open_page: Callable[..., Any]) -> None:
    page = open_message(open_page, "hostile/%23", len(HOSTILE_PAYLOADS) - 2)
    text = show_as(page, "Text").inner_text()
    assert "\u202e" not in text
    assert "right\\u{202e}to left\\u{202c}, \\0 and \\x1b[31m" in text


def test_json_folds_and_unfolds(open_page: Callable[..., Any]) -> None:
    page = open_message(open_page, "hostile/%23", 1)
    tree = page.locator(".payload-tree")
    expect(tree).to_contain_text('"<b>bold</b>"')
    deep = tree.get_by_role("button", name="deep")
    expect(deep).to_have_attribute("aria-expanded", "true")
    deep.focus()
    page.keyboard.press("Enter")
    expect(deep).to_have_attribute("aria-expanded", "false")


def test_what_is_cut_is_said_and_can_be_loaded(open_page: Callable[..., Any]) -> None:
    page = open_message(open_page, "bytes/large")
    expect(page.locator(".payload-head")).to_contain_text("the first 4.1 kB of 65.5 kB")
    page.get_by_role("button", name="Load all").click()
    expect(page.locator(".payload-head")).not_to_contain_text("the first")
    text = show_as(page, "Text")
    text.get_by_role("button", name="Show more").click()
    assert len(text.locator("pre").text_content()) == 16 * 4096


def test_bytes_are_shown_as_hex(open_page: Callable[..., Any]) -> None:
    page = open_message(open_page, "bytes/any")
    lines = page.locator(".payload-hex").text_content().split("\n")
    assert len(lines) == 16
    assert lines[4] == "000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"
    expect(show_as(page, "Text")).to_contain_text("no UTF-8 text")


def test_cbor_is_read(open_page: Callable[..., Any]) -> None:
    page = open_message(open_page, "edge/reading")
    tree = show_as(page, "CBOR").locator(".payload-tree")
    for text in ("t: 21.5", 'unit: "C"', "raw: 01 02"):
        expect(tree).to_contain_text(text)


def test_sparkplug_metrics_are_read(open_page: Callable[..., Any]) -> None:
    page = open_message(open_page, "spBv1.0/%23")
    rows = page.locator(".payload-metrics tbody tr")
    assert [row.split("\t")[:3] for row in rows.all_inner_texts()] == [
        ["temperature", "21.5", "Double"], ["running", "true", "Boolean"], ["count", "-7", "Int32"],
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("topic", ["bytes/any", "plant/safe/door"])
def test_a_form_that_does_not_fit_says_so(open_page: Callable[..., Any], topic: str, form: str) -> None:
    page = open_message(open_page, topic)
    body = show_as(page, form)
    fits = {"bytes/any": ("Hex",), "plant/safe/door": ("Text", "Hex")}[topic]
    assert body.locator(".payload-wrong").count() == (0 if form in fits else 1)


def test_axe_finds_nothing_in_any_form(open_page: Callable[..., Any]) -> None:
    page = open_message(open_page, "hostile/%23", 1)
    for form in FORMS:
        show_as(page, form)
        assert find_hindrances(page) == [], form
