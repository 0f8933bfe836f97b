"""What only a browser knows: how soon a page can be used, what scrolling costs, whether it leaks, what a click does.

It needs playwright and Debian's `chromium`; without them its rows are left out. Each page has a context of its own, so
nothing is cached, and shows its token by a header instead of a cookie.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from bench.brokers import packets
from bench.console.answers import ConnectionEnd
from bench.console.many_clients import console_of_many
from bench.console.nodes import Node
from bench.console.quantiles import quantile

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
)
_PATIENCE_MS = 120_000
_V5 = 5
#: Frames of a minute, after which the heap is measured first, and seconds between two frames that come faster.
_MINUTE = 60
_FRAME_S = 0.005
#: Elements are given up by one collection and freed by the next.
_COLLECTIONS = 3
#: Below what the rules of the broker let clients write to.
_TOPIC = "press/browser/live"

#: Counts the frames that the page was sent, and keeps the longest task.
_OBSERVE = """
globalThis.framesSeen = 0;
globalThis.EventSource = class extends EventSource {
  constructor(...given) { super(...given); this.addEventListener("stats", () => { globalThis.framesSeen += 1; }); }
};
globalThis.longestTask_ms = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) globalThis.longestTask_ms = Math.max(globalThis.longestTask_ms, task.duration);
}).observe({ type: "longtask" });
"""
#: Functions and no expressions, because the page forbids `eval`.
_OVERVIEW = (
    "() => document.querySelector('#node-state')?.textContent && document.querySelector('.tile-value')?.textContent"
)
#: Scrolls to each position and waits until its rows are drawn; the most elements that there were.
_SCROLL = """async (positions) => {
  const box = document.querySelector(".rows");
  const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  let most = 0;
  for (let i = 0; i <= positions; i++) {
    box.scrollTop = (box.scrollHeight - box.clientHeight) * i / positions;
    await drawn();
    most = Math.max(most, document.querySelectorAll("*").length);
  }
  return most;
}"""


def find_browser() -> str | None:
    """The program; None if there is none, or nothing to drive it."""
    return shutil.which("chromium") if find_spec("playwright") else None


@dataclass(frozen=True)
class Amounts:
    """How much is shown, and how often (`collect.Amounts`)."""

    many: int
    frames: int
    times: int
    starts: int
    scrolls: int


def budgets(node: Node, amounts: Amounts) -> Iterator[tuple[str, float]]:
    program = find_browser()
    if program is None:
        return
    # Imported here: it is there for the tests of the page, and nothing else of the benchmarks needs it.
    from playwright.sync_api import sync_playwright

    # The stand-in first: playwright keeps an event loop in this thread.
    with console_of_many(amounts.many, node.stats()) as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*_FLAGS])
        yield from _starts(browser, node, amounts.starts)
        yield from _kicks(browser, node, amounts.times)
        yield from _live_bars(browser, node, amounts.times)
        yield from _scroll(browser, console.url, console.token, amounts.scrolls)
        with _opened(browser, console.url, console.token) as page:
            yield from _heap(page, amounts.frames, console.stand_in)
        browser.close()


@contextmanager
def _opened(browser: Any, url: str, token: str, path: str = "/") -> Iterator[Any]:
    context = browser.new_context(base_url=url, extra_http_headers={"Authorization": f"Bearer {token}"})
    context.set_default_timeout(_PATIENCE_MS)
    context.add_init_script(_OBSERVE)
    page = context.new_page()
    page.goto(path)
    try:
        yield page
    finally:
        context.close()


def _starts(browser: Any, node: Node, times: int) -> Iterator[tuple[str, float]]:
    """Several, because the first one of a browser also starts parts of the browser."""
    found: dict[str, list[float]] = {"start_ms": [], "start_kb": [], "script_ms": []}
    for _start in range(times):
        with _opened(browser, node.url, node.token, "about:blank") as page:
            devtools = page.context.new_cdp_session(page)
            received: list[float] = []
            devtools.on("Network.loadingFinished", lambda event, to=received: to.append(event["encodedDataLength"]))
            devtools.send("Network.enable")
            devtools.send("Performance.enable")
            began_s = time.perf_counter()
            page.goto("/", wait_until="commit")
            page.wait_for_function(_OVERVIEW, polling="raf")
            found["start_ms"].append((time.perf_counter() - began_s) * 1e3)
            found["script_ms"].append(_metrics(devtools)["ScriptDuration"] * 1e3)
            found["start_kb"].append(sum(received) / 1000)
    for name, values in found.items():
        yield f"browser/{name}", quantile(values, 0.5)


def _metrics(devtools: Any) -> dict[str, float]:
    return {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}


def _scroll(browser: Any, url: str, token: str, positions: int) -> Iterator[tuple[str, float]]:
    with _opened(browser, url, token, "/clients") as page:
        page.wait_for_selector(".rows tbody tr")
        page.evaluate("() => { globalThis.longestTask_ms = 0; }")
        elements = page.evaluate(_SCROLL, positions)
        # Tasks below 50 ms are no long ones, and are not reported.
        yield "browser/scroll_task_ms", max(50.0, page.evaluate("() => globalThis.longestTask_ms"))
        yield "browser/scroll_elements", float(elements)


def _heap(page: Any, frames: int, stand_in: Any) -> Iterator[tuple[str, float]]:
    """The overview after hours, against itself after a minute; the frames come faster than by the second."""
    devtools = page.context.new_cdp_session(page)
    stand_in.frame_s = _FRAME_S
    first_mb, last_mb = (_heap_mb(page, devtools, seen) for seen in (_MINUTE, max(frames, _MINUTE + 1)))
    stand_in.frame_s = 1.0
    yield "browser/heap_first_mb", first_mb
    yield "browser/heap_growth_mb", last_mb - first_mb


def _heap_mb(page: Any, devtools: Any, frames: int) -> float:
    """What is in use once so many frames have come and the garbage is collected: objects, elements, and buffers."""
    page.wait_for_function("(seen) => globalThis.framesSeen >= seen", arg=frames, timeout=10 * _PATIENCE_MS)
    for _collection in range(_COLLECTIONS):
        devtools.send("HeapProfiler.collectGarbage")
    used: dict[str, float] = devtools.send("Runtime.getHeapUsage")
    return sum(used.get(part, 0.0) for part in ("usedSize", "embedderHeapUsedSize", "backingStorageSize")) / 1e6


def _kicks(browser: Any, node: Node, times: int) -> Iterator[tuple[str, float]]:
    """From the click that confirms, to the end of the connection as its client sees it."""
    waits: list[float] = []
    for number in range(times):
        name = f"clicked-{number}"
        with socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection:
            connection.sendall(packets.connect(_V5, name, clean=True))
            assert connection.recv(1)[0] == packets.CONNACK
            with _opened(browser, node.url, node.token, f"/clients/{name}") as page:
                page.get_by_role("button", name="Disconnect").click()
                confirm = page.get_by_role("dialog").get_by_role("button", name="Disconnect")
                confirm.wait_for()
                ended = ConnectionEnd(connection)
                began_s = time.perf_counter()
                confirm.click()
                waits.append((ended.at_s() - began_s) * 1e3)
    yield "browser/kick_ms", quantile(waits, 0.95)


def _live_bars(browser: Any, node: Node, times: int) -> Iterator[tuple[str, float]]:
    """From the publish to the strip that counts it; bars and total are drawn of the same answer."""
    waits: list[float] = []
    with (
        socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection,
        _opened(browser, node.url, node.token, f"/time?f={_TOPIC}&mode=live") as page,
    ):
        connection.sendall(packets.connect(_V5, "publisher-of-live", clean=True))
        connection.recv(4096)
        total = "Number(document.querySelector('.total b')?.textContent.replace(/[^0-9]/g, '') || -1)"
        page.wait_for_function(f"() => {total} === 0")
        for number in range(times):
            before = page.evaluate(f"() => {total}")
            began_s = time.perf_counter()
            connection.sendall(_publish(number))
            page.wait_for_function(f"(before) => {total} > before", arg=before, polling="raf")
            waits.append((time.perf_counter() - began_s) * 1e3)
    yield "browser/live_ms", quantile(waits, 0.95)


def _publish(number: int) -> bytes:
    packet_id = (number + 1).to_bytes(2, "big")
    no_properties = b"\x00"
    return packets.frame(packets.PUBLISH | 1 << 1, packets.text(_TOPIC) + packet_id + no_properties + b"%d" % number)
