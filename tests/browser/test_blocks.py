"""Blocks on the page, in front of a real broker: from a client, from a selection, by hand, and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.browser.browsing import expect, find_hindrances, take_picture
from tests.browser.real_broker import Broker, Client, refusal

pytestmark = [pytest.mark.slow, pytest.mark.browser]

BANNED = 0x8A


@pytest.fixture
def page(broker: Broker, open_real: Callable[[], Any]) -> Any:
    opened = open_real()
    opened.goto(broker.link)
    expect(opened.get_by_role("heading", name="Overview")).to_be_visible()
    return opened


def test_a_client_is_blocked_from_its_page_and_let_in_again(broker: Broker, page: Any) -> None:
    with closing(Client(broker, "press-1", expiry_s=1000)) as client:
        page.goto("/clients/press-1")
        page.get_by_role("button", name="Block").click()
        dialog = page.get_by_role("dialog", name="Block 1 client?")
        dialog.get_by_label("For", exact=True).select_option("1 hour")
        dialog.get_by_label("Reason").fill("floods <b>plant</b>")
        take_picture(page, "client-block-dialog")
        assert find_hindrances(page) == []
        dialog.get_by_role("button", name="Block").click()
        expect(page.get_by_text("Blocked; 1 connection was closed.")).to_be_visible()
        assert client.gone.wait(30)
    assert refusal(broker, "press-1") == BANNED
    expect(page.locator(".facts")).to_contain_text("by its client id, until")
    expect(page.locator(".facts")).to_contain_text("floods <b>plant</b>")
    take_picture(page, "client-blocked")
    page.get_by_role("button", name="Unblock").click()
    page.get_by_role("dialog", name="Remove 1 block?").get_by_role("button", name="Unblock").click()
    expect(page.get_by_text("The block was removed.")).to_be_visible()
    assert refusal(broker, "press-1") == 0


def test_a_selection_is_blocked_at_once_marked_and_listed(broker: Broker, page: Any) -> None:
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(closing(Client(broker, name, expiry_s=1000)))
            for name in ("oven-1", "press-1", "press-2")
        }
        page.goto("/clients")
        for name in ("press-1", "press-2"):
            page.get_by_role("checkbox", name=f"Select {name}", exact=True).check()
        page.get_by_role("group", name="Selected clients").get_by_role("button", name="Block").click()
        dialog = page.get_by_role("dialog", name="Block 2 clients?")
        dialog.get_by_label("Reason").fill("maintenance of the line")
        dialog.get_by_role("button", name="Copy as").click()
        command = dialog.get_by_role("menuitem", name="Command")
        expect(command).to_be_visible()
        page.keyboard.press("Escape")
        dialog.get_by_role("button", name="Block", exact=True).click()
        expect(page.get_by_text("2 clients are blocked.")).to_be_visible()
        assert clients["press-1"].gone.wait(30)
        assert clients["press-2"].gone.wait(30)
        assert not clients["oven-1"].gone.is_set()
        assert [refusal(broker, name) for name in ("press-1", "press-2")] == [BANNED, BANNED]
        # Offline sessions are listed as of the last ten seconds.
        expect(page.locator("tbody tr", has_text="press-1").get_by_text("blocked", exact=True)).to_be_visible(
            timeout=30_000
        )
        expect(page.locator("tbody tr", has_text="oven-1").get_by_text("blocked", exact=True)).to_have_count(0)
        take_picture(page, "clients-blocked-light")
        page.emulate_media(color_scheme="dark")
        take_picture(page, "clients-blocked-dark")
        page.get_by_role("button", name="Blocked").click()
        expect(page.get_by_role("grid", name="Blocks").locator("tbody tr")).to_have_count(2)
        expect(page.locator("tbody tr").first).to_contain_text("maintenance of the line")
        assert page.url.endswith("/clients?state=blocked")
        take_picture(page, "blocks-dark")
        page.emulate_media(color_scheme="light")
        take_picture(page, "blocks-light")
        assert find_hindrances(page) == []
        page.get_by_role("button", name="Unblock client press-2").click()
        page.get_by_role("dialog").get_by_role("button", name="Unblock").click()
        expect(page.get_by_role("grid", name="Blocks").locator("tbody tr")).to_have_count(1)
        assert [refusal(broker, name) for name in ("press-1", "press-2")] == [BANNED, 0]


def test_an_address_is_blocked_by_hand_and_a_wrong_one_is_said_in_the_dialog(broker: Broker, page: Any) -> None:
    page.goto("/clients?state=blocked")
    expect(page.get_by_text("Nobody is blocked.")).to_be_visible()
    page.get_by_role("button", name="Block …").click()
    dialog = page.get_by_role("dialog", name="Block a client, a user or an address?")
    dialog.get_by_label("What").select_option("address")
    dialog.get_by_label("Name or address").fill("127.0.0.1/24")
    page.watch.allow("status of 400")
    dialog.get_by_role("button", name="Block", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("write 127.0.0.0/24")
    dialog.get_by_label("Name or address").fill("127.0.0.0/24")
    dialog.get_by_role("button", name="Block", exact=True).click()
    expect(page.locator("tbody tr")).to_contain_text("127.0.0.0/24")
    assert refusal(broker, "anybody") == BANNED
    page.get_by_role("button", name="Unblock address 127.0.0.0/24").click()
    page.get_by_role("dialog").get_by_role("button", name="Unblock").click()
    expect(page.get_by_text("Nobody is blocked.")).to_be_visible()
    assert refusal(broker, "anybody") == 0


def test_a_wrong_block_file_is_named_by_line_on_the_page_and_as_an_alarm(
    broker: Broker, page: Any, tmp_path: Path
) -> None:
    file = broker.data / "blocks.jsonl"
    file.write_text('{"client": "a"}\n{"client": "b", "untill_us": 3}\n')
    broker.reload()
    page.goto("/clients?state=blocked")
    expect(page.get_by_role("alert")).to_contain_text("blocks.jsonl:2: this is no block")
    take_picture(page, "blocks-wrong")
    page.goto("/health")
    expect(page.locator(".alarm", has_text="block_file_wrong")).to_contain_text("blocks.jsonl:2")
    file.write_text('{"client": "a"}\n')
    broker.reload()
    page.goto("/clients?state=blocked")
    expect(page.get_by_role("grid", name="Blocks").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_count(0)
    assert refusal(broker, "a") == BANNED
