"""A real browser, a console, and a page that fails the test for whatever the browser complains about.

1. `console` is the stand-in with its fixed data set; `open_page` opens pages of it, logged in as a user of it.
2. Every error in the browser's console, every violation of the Content-Security-Policy and every request to another
   place fails the test, unless the test said before that it is to come (`page.watch.allow`).
3. Nothing of Holdfast is imported with this file: it is read before tests/conftest.py has chosen the sources.
4. One browser for all tests, a new context for each: no cookie and no kept setting passes from one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.services import need

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.browsing import Console, Watch
    from tests.browser.real_broker import Broker


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = need("chromium", "chromium")
    from tests.browser.browsing import FLAGS, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def console() -> Iterator[Console]:
    """Its clock stands still until the test moves it."""
    from tests.browser.browsing import Console
    from tests.browser.stand_in import StandInServer

    server = StandInServer()
    try:
        yield Console(server.address, server.stand_in)
    finally:
        server.close()


@pytest.fixture
def open_page(browser: Any, console: Console) -> Iterator[Callable[..., Any]]:
    """Opens pages, each in a context of its own, and checks in the end what the browser complained about."""
    from tests.browser.browsing import PATIENCE_MS, PICTURES, REPORT, Watch, expect
    from tests.browser.stand_in_data import NOW_US

    opened: list[tuple[Any, Watch]] = []

    def open_page(
        path: str | None = "/", *, user: str | None = "eva", width: int = 1440, height: int = 900, **more: Any
    ) -> Any:
        options = {"viewport": {"width": width, "height": height}, "timezone_id": "UTC", "locale": "en-US"} | more
        context = browser.new_context(base_url=console.address, **options)
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(REPORT)
        if user is not None:
            context.add_cookies(console.cookies(user))
        page = context.new_page()
        if PICTURES:
            # The clock of the page stands still like that of the console, so that two runs take the same pictures.
            page.clock.set_fixed_time(NOW_US / 1e6)
        page.watch = Watch(page, console.address)
        opened.append((context, page.watch))
        if path is not None:
            page.goto(path)
        return page

    expect.set_options(timeout=PATIENCE_MS)
    yield open_page
    for context, _watch in opened:
        context.close()
    for _context, watch in opened:
        watch.check()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A process of a broker with its console."""
    from tests.browser.real_broker import Broker

    broker = Broker(tmp_path)
    try:
        yield broker
    finally:
        broker.close()


@pytest.fixture
def open_real(browser: Any, broker: Broker) -> Iterator[Callable[[], Any]]:
    """Opens pages of the console of `broker`, and checks in the end what the browser complained about."""
    from tests.browser.browsing import PATIENCE_MS, REPORT, Watch, expect

    opened: list[tuple[Any, Watch]] = []

    def open_real() -> Any:
        context = browser.new_context(base_url=broker.address, viewport={"width": 1440, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(REPORT)
        page = context.new_page()
        page.watch = Watch(page, broker.address)
        opened.append((context, page.watch))
        return page

    expect.set_options(timeout=PATIENCE_MS)
    yield open_real
    for context, _watch in opened:
        context.close()
    for _context, watch in opened:
        watch.check()
