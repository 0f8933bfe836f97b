"""The runbook in the console: an alarm leads to its part, and nothing leads nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.live.alarms import RULES
from tests.browser.browsing import Console, expect, find_hindrances, take_picture

pytestmark = [pytest.mark.slow, pytest.mark.browser]

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "runbook.md").read_text("utf-8")


def test_an_alarm_leads_to_its_part_of_the_runbook(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/health")
    anchors = {rule.name: rule.anchor for rule in RULES}
    # Those that are active and those that have ended.
    for alarm in console.stand_in.alarms:
        ended = alarm["until_us"] is not None
        name = alarm["alarm"] if ended else f"Runbook {alarm['alarm']}"
        expect(page.get_by_role("main").get_by_role("link", name=name, exact=True)).to_have_attribute(
            "href", f"/health/runbook#{anchors[alarm['alarm']]}"
        )
    page.get_by_role("link", name="Runbook lease_lagging").click()
    part = page.get_by_role("heading", name="A lease lags")
    expect(part).to_be_in_viewport()
    assert page.url.endswith("/health/runbook#a-lease-lags")
    page.go_back()
    expect(page.get_by_role("heading", name="Active now")).to_be_visible()


def test_each_part_of_the_runbook_is_there_and_no_link_is_dead(open_page: Callable[..., Any]) -> None:
    page = open_page("/health/runbook")
    article = page.get_by_role("article")
    expect(article.get_by_role("heading", name="The disk is full")).to_be_visible()
    wanted = [line[3:] for line in TEXT.splitlines() if line.startswith("## ")]
    assert article.locator("h2").all_inner_texts() == wanted
    ids = set(page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)"))
    assert {rule.anchor for rule in RULES} <= ids
    targets = page.get_by_role("main").locator("a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    assert {target[1:] for target in targets if target.startswith("#")} <= ids
    assert {target for target in targets if not target.startswith("#")} == {"/health"}
    # Code and tables are what they are in the document.
    assert article.locator("pre").count() == TEXT.count("```") // 2
    rows = [line for line in TEXT.splitlines() if line.lstrip().startswith("|")]
    assert article.locator("tr").count() == len(rows) - article.locator("table").count()
    shown = article.inner_text()
    assert "**" not in shown
    assert "](" not in shown
    expect(article.get_by_text("docs/guide/storage.md").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_runbook_can_be_read_by_anybody(open_page: Callable[..., Any], scheme: str) -> None:
    for width, height in ((1440, 900), (390, 844)):
        page = open_page("/health/runbook#data-is-damaged", width=width, height=height, color_scheme=scheme)
        expect(page.get_by_role("heading", name="Data is damaged")).to_be_in_viewport()
        assert find_hindrances(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        take_picture(page, f"runbook-{scheme}-{width}")
