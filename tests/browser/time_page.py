"""The time machine's page as tests use it: opening it, its address, its strips and its lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

from tests.browser.browsing import Console

Page = Any
Locator = Any
SECOND_US = 1_000_000

#: Rows of a virtual list, all of them, by scrolling through it.
ALL_ROWS = """async (grid) => {
  const rows = new Map();
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (let top = 0; ; top += 200) {
    grid.scrollTop = top;
    await frame();
    for (const row of grid.querySelectorAll('[role=row][aria-selected]')) {
      const cells = [...row.querySelectorAll('[role=gridcell]')].map((cell) => cell.textContent);
      rows.set(Number(row.getAttribute('aria-rowindex')), cells);
    }
    if (top + grid.clientHeight >= grid.scrollHeight) break;
  }
  return [...rows].sort((a, b) => a[0] - b[0]).map(([, cells]) => cells);
}"""

#: Columns of pixels with a bar: those that are filled from the floor on, and those with the ground between lines.
HATCHED = """(canvas) => {
  const context = canvas.getContext('2d');
  const { width, height } = canvas;
  const data = context.getImageData(0, 0, width, height).data;
  const ratio = devicePixelRatio;
  const at = (x, y) => { const i = (y * width + x) * 4; return `${data[i]},${data[i + 1]},${data[i + 2]}`; };
  const floor = height - Math.round(22 * ratio);
  // The row above the highest bar has the colour of the ground nearly everywhere.
  const times = {};
  for (let x = 0; x < width; x++) {
    const colour = at(x, Math.round(19 * ratio));
    times[colour] = (times[colour] ?? 0) + 1;
  }
  const ground = Object.entries(times).sort((a, b) => b[1] - a[1])[0][0];
  let solid = 0, broken = 0;
  for (let x = 0; x < width; x++) {
    const column = [];
    for (let y = floor; y > floor - 14; y--) column.push(at(x, y) !== ground);
    if (!column[0] && !column[3] && !column[7]) continue;
    if (column.every(Boolean)) solid += 1; else broken += 1;
  }
  return { solid, broken };
}"""


#: The first line of each density arrives, the others wait until `letGo` is called.
HOLD_LINES = """const real = window.fetch;
window.letGo = [];
window.firstLines = [];
window.fetch = async (url, options) => {
  const answer = await real(url, options);
  if (!String(url).includes('/density')) return answer;
  const [first, ...rest] = (await answer.text()).split('\\n').filter(Boolean);
  window.firstLines.push(JSON.parse(first));
  const encoder = new TextEncoder();
  const body = new ReadableStream({ start(control) {
    control.enqueue(encoder.encode(first + '\\n'));
    window.letGo.push(() => {
      for (const line of rest) control.enqueue(encoder.encode(line + '\\n'));
      control.close();
    });
  } });
  return new Response(body, { status: 200 });
};"""


class Machine:
    """A page of the time machine, and the past that it shows."""

    def __init__(self, console: Console, open_page: Callable[..., Any]) -> None:
        self._open: Final = open_page
        self.stand_in: Final = console.stand_in
        self.history: Final = console.stand_in.history
        self.url: Final = console.address
        self.page: Page = None

    def open_blank(self, **options: Any) -> Page:
        """A page that is logged in and has not gone anywhere."""
        self.page = self._open(None, **options)
        return self.page

    def allow(self, pattern: str) -> None:
        """A complaint of the browser that is to come."""
        self.page.watch.allow(pattern)


def iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


def in_address(page: Page, name: str) -> int:
    """A time of the address, in µs."""
    moment = datetime.fromisoformat(parse_qs(urlsplit(page.url).query)[name][0])
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def settled(page: Page) -> None:
    """Bars, messages and state are those of the address."""
    page.wait_for_function(
        """() => document.querySelector('.total[data-exact=true]')
          && !document.querySelector('.time-machine [aria-busy=true]')
          && location.search.includes('at=')"""
    )


def open_time(machine: Machine, query: str = "", **options: Any) -> Page:
    page = machine.page if machine.page is not None and not options else machine.open_blank(**options)
    page.goto(f"{machine.url}/time{query}")
    settled(page)
    return page


def drag(page: Page, strip: Locator, begin: float, end: float) -> None:
    box = strip.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (begin + end) / 2, y)
    page.mouse.move(box["x"] + box["width"] * end, y)
    page.mouse.up()


def all_messages(page: Page) -> list[list[str]]:
    """Every message of the list, once all of them are loaded."""
    grid = page.get_by_role("grid", name="Messages, newest first")
    foot = page.locator(".time-messages .time-foot")
    while "down to the beginning" not in (foot.text_content() or ""):
        known = grid.get_attribute("aria-rowcount")
        grid.evaluate("(grid) => { grid.scrollTop = grid.scrollHeight; }")
        page.wait_for_function(
            """([grid, foot, known]) => grid.getAttribute('aria-rowcount') !== known
              || foot.textContent.includes('down to')""",
            arg=[grid.element_handle(), foot.element_handle(), known],
        )
    rows: list[list[str]] = grid.evaluate(ALL_ROWS)
    return rows


def matches(topic_filter: str, topic: str) -> bool:
    """The rules of wildcards, level by level: what a test expects does not come from what it tests."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for number, level in enumerate(wanted):
        if level == "#":
            return True
        if number >= len(levels) or level not in ("+", levels[number]):
            return False
    return len(wanted) == len(levels)


class Stored(Protocol):
    """A message that a test knows: of the stand-in, or one that it has published."""

    @property
    def at_us(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def payload(self) -> bytes: ...


_Known = TypeVar("_Known", bound=Stored)


def expected(stored: Sequence[_Known], topic_filter: str, from_us: int, to_us: int) -> list[_Known]:
    """Those of a filter in [from, to), newest first: each is looked at."""
    found = [one for one in stored if from_us <= one.at_us < to_us and matches(topic_filter, one.topic)]
    return sorted(found, key=lambda one: one.at_us, reverse=True)


def newest_at(stored: Sequence[_Known], topic_filter: str, at_us: int, back_us: int) -> dict[str, _Known]:
    """The newest message of each topic in (at - back, at], by topic."""
    newest: dict[str, _Known] = {}
    for one in stored:
        is_in = at_us - back_us < one.at_us <= at_us and matches(topic_filter, one.topic)
        if is_in and (one.topic not in newest or newest[one.topic].at_us < one.at_us):
            newest[one.topic] = one
    return newest


class Comparison(NamedTuple):
    """What is different between two moments: topics, and the places in JSON of those that changed."""

    changed: dict[str, list[str]]
    came: list[str]
    silent: list[str]


def compared(stored: Sequence[Stored], topic_filter: str, a_us: int, b_us: int, back_us: int) -> Comparison:
    a, b = newest_at(stored, topic_filter, a_us, back_us), newest_at(stored, topic_filter, b_us, back_us)
    changed = {topic: differing(a[topic].payload, b[topic].payload) for topic in sorted(a) if topic in b}
    return Comparison(
        {topic: places for topic, places in changed.items() if a[topic].payload != b[topic].payload},
        [topic for topic in sorted(b) if topic not in a],
        [topic for topic in sorted(a) if topic not in b],
    )


def differing(a: bytes, b: bytes) -> list[str]:
    """Names of two flat JSON objects that have not the same value; without objects, nothing."""
    try:
        left, right = json.loads(a), json.loads(b)
    except ValueError:
        return []
    if not isinstance(left, dict) or not isinstance(right, dict):
        return ["$"] if left != right else []
    return [f"$.{name}" for name in {**left, **right} if left.get(name) != right.get(name)]


def clock(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1000 / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
