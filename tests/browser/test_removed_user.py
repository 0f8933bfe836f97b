"""A user who is removed is logged out in every browser, at once and without a click."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.access.credential_files import remove_user, set_user
from tests.browser.browsing import expect
from tests.browser.real_broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PASSWORD = "correct horse battery"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    for name in ("eva", "olga"):
        set_user(path, name, "operator", PASSWORD)
    return path


@pytest.fixture
def broker(tmp_path: Path, users: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, f"console.user_file={users}")
    try:
        yield made
    finally:
        made.close()


def log_in(page: Any, name: str) -> None:
    page.goto("/login?next=%2Fclients")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Clients")).to_be_visible()


def test_logged_out_everywhere_after_the_user_is_removed(users: Path, open_real: Callable[[], Any]) -> None:
    pages = [open_real() for _browser in range(3)]
    for page, name in zip(pages, ("eva", "eva", "olga"), strict=True):
        page.watch.allow("status of 401")
        log_in(page, name)
    remove_user(users, "eva")
    for page in pages[:2]:
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        page.goto("/clients")
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(pages[2].get_by_role("heading", name="Clients")).to_be_visible()
    assert pages[2].watch.complaints == []
