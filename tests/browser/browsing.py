"""What tests of the page share: waiting, complaints of the browser, accessibility, pictures.

Importing this module skips a test file where playwright is not installed, and fails it in CI.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.browser.stand_in import StandIn

if "CI" not in os.environ:
    pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install playwright")

from playwright.sync_api import expect, sync_playwright

__all__ = ["Console", "Watch", "expect", "find_hindrances", "sync_playwright", "take_picture"]

FLAGS: Final = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--font-render-hinting=none",
    "--force-color-profile=srgb",
    # The same pixels in every run.
    "--disable-partial-raster", "--disable-skia-runtime-opts", "--num-raster-threads=1", "--disable-lcd-text",
]  # fmt: skip
VENDOR: Final = Path(__file__).parent / "vendor"
PICTURES: Final = os.environ.get("HOLDFAST_PICTURES", "")
#: For things that happen: a machine that is busy takes long, and a test that waits in vain fails anyway.
PATIENCE_MS: Final = 20_000

REPORT: Final = """
addEventListener("securitypolicyviolation", (event) => console.error("CSP", event.violatedDirective, event.blockedURI));
"""


class Watch:
    """What a page's browser complained about."""

    def __init__(self, page: Any, address: str) -> None:
        self.complaints: Final[list[str]] = []
        self._allowed: Final[list[str]] = []
        self._host: Final = urlsplit(address).netloc
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._complain(f"error: {error}"))
        page.on("request", self._request)

    def allow(self, pattern: str) -> None:
        """A complaint that is to come."""
        self._allowed.append(pattern)

    def check(self) -> None:
        left = [one for one in self.complaints if not any(re.search(pattern, one) for pattern in self._allowed)]
        assert left == [], left

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self._complain(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and url.netloc != self._host:
            self._complain(f"request to elsewhere: {request.url}")


class Console:
    """The console under test, and how to get in."""

    def __init__(self, address: str, stand_in: StandIn) -> None:
        self.address: Final = address
        self.stand_in: Final = stand_in

    def cookies(self, user: str) -> list[dict[str, str]]:
        return [{"name": "holdfast", "value": self.stand_in.log_in(user), "url": self.address}]


def find_hindrances(page: Any) -> list[str]:
    """What axe-core has to say about the page, by the rules of WCAG 2.2 AA, once no colour changes any more."""
    page.evaluate((VENDOR / "axe.min.js").read_text("utf-8"))
    page.evaluate(
        """async () => {
             await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
             const ending = document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime < Infinity);
             await Promise.allSettled(ending.map((one) => one.finished));
           }"""
    )
    found = page.evaluate(
        """async (rules) => (await axe.run(document, {runOnly: rules})).violations.flatMap((rule) => rule.nodes.map(
             (node) => `${rule.id}: ${node.target.join(" ")}: ${node.any.map((one) => one.message).join("; ")}`))""",
        ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    )
    return list(found)


#: Shows one address, whatever port the console got.
_SHOW_ONE_ADDRESS: Final = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.data.includes(location.host)) text.data = text.data.replaceAll(location.host, "127.0.0.1:18083");
  }
}"""


def take_picture(page: Any, name: str) -> None:
    """Where HOLDFAST_PICTURES names a folder, a picture of what is seen, once that does not change any more.

    Of the stand-in it is the same in every run; that of a real broker has the times of its run.
    """
    if not PICTURES:
        return
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(_SHOW_ONE_ADDRESS)
    picture, again = b"", page.screenshot(animations="disabled")
    while picture != again:
        picture, again = again, page.screenshot(animations="disabled")
    Path(PICTURES).mkdir(parents=True, exist_ok=True)
    Path(PICTURES, f"{name}.png").write_bytes(picture)
