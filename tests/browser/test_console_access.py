"""For everybody: without a mouse, on a narrow screen, enlarged, in both themes, with what assistive programs read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect, find_hindrances, take_picture
from tests.browser.stand_in_cluster import CLUSTER
from tests.browser.stand_in_data import SLOWEST
from tests.browser.test_console_overview import wait_for_stream

pytestmark = [pytest.mark.slow, pytest.mark.browser]


#: Each page, with what is there when it is ready.
PAGES = {
    "overview": ("/", ".uplot canvas"),
    "clients": ("/clients", "tbody tr"),
    "behind": ("/clients?state=behind&sort=-owed", "tbody tr"),
    "client": (f"/clients/{SLOWEST}", "dl.facts"),
    "queue": (f"/clients/{SLOWEST}?tab=queue", "table.list"),
    "explain": ("/clients/press-00004?tab=explain&filter=plant/%23&since=-1h", "table.list"),
    "subscriptions": ("/subscriptions?topic=plant/1/temp", "tbody tr"),
    "events": ("/events", "tbody tr"),
    "health": ("/health", "tbody tr"),
    "cluster": ("/cluster", "table.list"),
    "login": ("/login", "form"),
}


def open_ready(console: Console, open_page: Callable[..., Any], name: str, **options: Any) -> Any:
    console.stand_in.cluster = CLUSTER if name == "cluster" else None
    path, ready = PAGES[name]
    page = open_page(path, **options)
    page.locator(ready).first.wait_for()
    return page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(console: Console, open_page: Callable[..., Any], name: str, theme: str) -> None:
    page = open_ready(console, open_page, name, color_scheme=theme)
    take_picture(page, f"{name}-{theme}")
    assert find_hindrances(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_dialog_a_menu_and_a_search(
    console: Console, open_page: Callable[..., Any], theme: str
) -> None:
    page = open_ready(console, open_page, "client", color_scheme=theme)
    page.get_by_role("button", name="End session").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    take_picture(page, f"dialog-{theme}")
    assert find_hindrances(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Copy as").click()
    expect(page.get_by_role("menu")).to_be_visible()
    take_picture(page, f"menu-{theme}")
    assert find_hindrances(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("press")
    expect(page.get_by_role("option").filter(has_text="press-00000")).to_be_visible()
    take_picture(page, f"search-{theme}")
    assert find_hindrances(page) == []


def test_works_without_a_mouse(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    # Search by name leads to the client's page.
    page.keyboard.press("/")
    page.keyboard.type("press-00004")
    expect(page.get_by_role("option", name="client press-00004")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="press-00004")).to_be_visible()
    # Tabs by arrows.
    page.get_by_role("tab", name="Session").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Queue")).to_be_focused()
    # A dialog takes the focus, keeps it, and gives it back.
    kick = page.get_by_role("button", name="Disconnect")
    kick.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))"
        )
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(kick).to_be_focused()
    # The table by arrows, pages and ends; Enter opens.
    page.goto("/clients?sort=-owed")
    first = page.locator('tr[aria-rowindex="2"]')
    first.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator('tr[aria-rowindex="3"]')).to_be_focused()
    page.keyboard.press("PageDown")
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    page.keyboard.press("End")
    last = len(console.stand_in.clients) + 1
    expect(page.locator(f'tr[aria-rowindex="{last}"]')).to_be_focused()
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=SLOWEST)).to_be_visible()


def overflow(page: Any) -> list[str]:
    """What reaches beyond the window's right edge, unless it scrolls by itself."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main *, header *, nav *")].filter((element) => {
             const box = element.getBoundingClientRect();
             if (box.width === 0 || box.right <= innerWidth + 1) return false;
             for (let up = element.parentElement; up; up = up.parentElement)
               if (up !== document.body && getComputedStyle(up).overflowX !== "visible") return false;
             return getComputedStyle(element).clipPath === "none";
           }).map((element) => `${element.tagName}.${element.className} ${element.getBoundingClientRect().right}`)"""
    )
    return found


@pytest.mark.parametrize("name", PAGES)
def test_works_at_320_pixels_and_at_200_percent(console: Console, open_page: Callable[..., Any], name: str) -> None:
    page = open_ready(console, open_page, name, width=320, height=640)
    take_picture(page, f"{name}-320")
    assert overflow(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    if name != "login":
        page.get_by_role("button", name="Menu").click()
        expect(page.get_by_role("link", name="Events", exact=True).first).to_be_visible()
    # A window of 1280 pixels at 200 percent has 640 of them.
    large = open_ready(console, open_page, name, width=640, height=450, device_scale_factor=2)
    assert overflow(large) == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (3840, 2160)])
def test_pictures_of_other_sizes(console: Console, open_page: Callable[..., Any], width: int, height: int) -> None:
    for name in ("overview", "clients"):
        page = open_ready(console, open_page, name, width=width, height=height)
        take_picture(page, f"{name}-{width}")
        assert overflow(page) == []


def test_the_theme_and_the_time_zone_are_kept(open_page: Callable[..., Any]) -> None:
    page = open_page("/events", color_scheme="light", timezone_id="Asia/Tokyo")
    expect(page.locator("tbody tr").first).to_be_visible()
    utc = page.locator("tbody tr time").first.inner_text()
    page.get_by_role("button", name="Theme: as the system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="Times are shown in UTC").click()
    expect(page.locator("tbody tr time").first).not_to_have_text(utc)
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(page.locator("tbody tr time").first).not_to_have_text(utc)


def test_the_theme_of_the_system_is_followed_while_it_is_not_chosen(open_page: Callable[..., Any]) -> None:
    def colours(page: Any) -> list[str]:
        found: list[str] = page.evaluate(
            "['--ground', '--ink', '--accent', '--shadow', 'color-scheme'].map("
            "  (name) => getComputedStyle(document.documentElement).getPropertyValue(name))"
        )
        return found

    page = open_page("/", color_scheme="dark")
    expect(page.get_by_role("button", name="Theme: as the system")).to_be_visible()
    dark = colours(page)
    page.emulate_media(color_scheme="light")
    page.wait_for_function("() => document.documentElement.dataset.theme === 'light'")
    light = colours(page)
    assert all(one != other for one, other in zip(dark, light, strict=True))
    page.get_by_role("button", name="Theme: as the system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert colours(page) == dark


#: Counts frames that the page has seen, and how often a live region says something else.
_LISTEN = """
  window.frames_seen = 0;
  window.spoken = 0;
  const Stream = window.EventSource;
  window.EventSource = class extends Stream {
    constructor(...words) {
      super(...words);
      // Behind the listeners of the page.
      this.addEventListener("stats", () => setTimeout(() => requestAnimationFrame(() => { window.frames_seen += 1; })));
    }
  };
  const said = new Map();
  const isLive = (node) => node.getAttribute("aria-live") !== "off";
  new MutationObserver(() => {
    for (const node of document.querySelectorAll("[role=status], [role=alert], [role=log], [aria-live]")) {
      if (isLive(node) && said.get(node) !== node.textContent) {
        window.spoken += said.has(node) || node.textContent ? 1 : 0;
        said.set(node, node.textContent);
      }
    }
  }).observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
"""


def test_live_regions_speak_at_most_every_five_seconds(console: Console, open_page: Callable[..., Any]) -> None:
    page = open_page(None)
    page.add_init_script(_LISTEN)
    page.goto("/")
    page.locator(".uplot canvas").first.wait_for()
    wait_for_stream(page, console)

    def spoken_in(seconds: int) -> int:
        before = page.evaluate("window.spoken")
        for _second in range(seconds):
            seen = page.evaluate("window.frames_seen")
            console.stand_in.tick()
            page.wait_for_function("(seen) => window.frames_seen > seen", arg=seen)
        return int(page.evaluate("window.spoken")) - int(before)

    spoken_in(1)
    assert spoken_in(20) <= 4, "numbers move every second"
    console.stand_in.broker.hangs = True
    # That it is silent is said, and not for how long.
    assert 1 <= spoken_in(20) <= 4
    console.stand_in.broker.hangs = False
    assert 1 <= spoken_in(20) <= 4
    page.goto("/clients")
    page.locator("tbody tr").first.wait_for()
    spoken_in(1)
    assert spoken_in(20) <= 4


def test_every_chart_has_a_table_behind_a_button(open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    page.locator(".uplot canvas").first.wait_for()
    charts = page.locator("figure.chart")
    assert charts.count() >= 3
    for number in range(charts.count()):
        chart = charts.nth(number)
        assert chart.get_attribute("aria-label")
        chart.get_by_role("button", name="Table").click()
        expect(chart.locator("tbody tr").first).to_be_visible()
    assert page.locator("canvas").count() == page.locator("figure.chart canvas").count()


def test_motion_is_left_out_where_it_is_not_wanted(open_page: Callable[..., Any]) -> None:
    page = open_page("/", reduced_motion="reduce")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    moving = page.evaluate(
        "[...document.querySelectorAll('*')].filter("
        "  (element) => parseFloat(getComputedStyle(element).transitionDuration) > 0).length"
    )
    assert moving == 0
