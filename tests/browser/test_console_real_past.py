"""The time machine in front of a real broker, against what was published to it.

A moment of a message is not known to who publishes it. An MQTT replay tells it, and has nothing to do with the console.
"""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.browser.browsing import expect
from tests.browser.real_broker import Broker, Client
from tests.browser.time_page import (
    ALL_ROWS,
    HOLD_LINES,
    SECOND_US,
    all_messages,
    clock,
    compared,
    drag,
    expected,
    in_address,
    iso,
    newest_at,
    settled,
)

pytestmark = [pytest.mark.slow, pytest.mark.browser]

#: Topics of the first second and of the one after it: one falls silent, one goes on, one comes.
EARLY = ("plant/silent/report", "plant/steady/report", "plant/same/report", "office/1/report")
LATE = ("plant/steady/report", "plant/came/report", "plant/same/report", "office/1/report")
PHASE_S = 1.3
FILTER = "plant/+/report"


class Stored(NamedTuple):
    at_us: int
    topic: str
    payload: bytes


def publish_for(client: Client, topics: tuple[str, ...], numbers: Iterator[int]) -> list[tuple[str, bytes]]:
    """Publish to topics in turn, for so long that a second passes."""
    published: list[tuple[str, bytes]] = []
    end_s = time.monotonic() + PHASE_S
    while time.monotonic() < end_s:
        for topic in topics:
            number = next(numbers)
            report = {"n": number, "unit": "C"} if topic != "plant/same/report" else {"unit": "C"}
            published.append((topic, json.dumps(report).encode()))
            client.publish(*published[-1])
    return published


def replayed(broker: Broker, count: int) -> list[Stored]:
    """So many messages of the past, as an MQTT replay gives them."""
    found: queue.Queue[Stored] = queue.Queue()

    def take(_client: Any, _user: Any, message: mqtt.MQTTMessage) -> None:
        properties = dict(message.properties.UserProperty)  # type: ignore[union-attr]
        found.put(Stored(int(properties["offset"].partition(":")[2]), message.topic, bytes(message.payload)))

    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="replay", protocol=mqtt.MQTTv5)
    client.on_message = take
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        client.subscribe("$replay/earliest/#", 1)
        return [found.get(timeout=30) for _number in range(count)]
    finally:
        client.disconnect()
        client.loop_stop()


def publish(broker: Broker, page: Any) -> tuple[list[Stored], int]:
    """What was published and when it was stored, and the moment between both phases."""
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    publisher, numbers = Client(broker, "press-1", "none"), itertools.count()
    try:
        early = publish_for(publisher, EARLY, numbers)
        late = publish_for(publisher, LATE, numbers)
    finally:
        publisher.close()
    stored = replayed(broker, len(early) + len(late))
    assert [(one.topic, one.payload) for one in stored] == early + late
    assert [one.at_us for one in stored] == sorted(one.at_us for one in stored)
    return stored, stored[len(early) - 1].at_us


def open_range(page: Any, stored: list[Stored], **more: str) -> None:
    whole = {"f": FILTER, "from": iso(stored[0].at_us), "to": iso(stored[-1].at_us + 1), "at": iso(stored[-1].at_us)}
    page.goto(f"/time?{urlencode(whole | more)}")
    settled(page)


def test_dragging_shows_exactly_what_was_published_in_the_range(broker: Broker, open_real: Callable[[], Any]) -> None:
    page = open_real()
    stored, _between_us = publish(broker, page)
    open_range(page, stored)
    before = page.url
    drag(page, page.locator("canvas[data-strip=range]"), 0.35, 0.65)
    page.wait_for_url(lambda url: url != before)
    settled(page)
    wanted = expected(stored, FILTER, in_address(page, "from"), in_address(page, "to"))
    assert 0 < len(wanted) < len(expected(stored, FILTER, 0, stored[-1].at_us + 1))
    rows = all_messages(page)
    assert [(row[0], row[1], row[4]) for row in rows] == [
        (clock(one.at_us), one.topic, one.payload.decode()) for one in wanted
    ]
    expect(page.locator(".total")).to_contain_text(f"{len(wanted):,} messages, exact")
    page.locator(".strips").get_by_role("button", name="As a table").click()
    counts = page.locator(".strips .bucket-table td.number").all_inner_texts()
    assert sum(int(count.replace(",", "")) for count in counts) == len(wanted)


def test_state_and_comparison_are_those_of_what_was_published(broker: Broker, open_real: Callable[[], Any]) -> None:
    page = open_real()
    stored, between_us = publish(broker, page)
    open_range(page, stored, look="1")
    grid = page.get_by_role("grid", name="State at A")
    for share in (0.2, 0.8):
        strip = page.locator("canvas[data-strip=range]")
        box, before = strip.bounding_box(), page.url
        assert box is not None
        strip.click(position={"x": box["width"] * share, "y": box["height"] / 2})
        page.wait_for_url(lambda url, before=before: url != before)
        settled(page)
        wanted = newest_at(stored, FILTER, in_address(page, "at"), SECOND_US)
        shown = [(row[0], row[1]) for row in grid.evaluate(ALL_ROWS)]
        assert shown == [(topic, wanted[topic].payload.decode()) for topic in sorted(wanted)]

    last_us = stored[-1].at_us
    open_range(page, stored, look="1", b=iso(between_us))
    found = compared(stored, FILTER, between_us, last_us, SECOND_US)
    assert found.silent == ["plant/silent/report"]
    assert found.came == ["plant/came/report"]
    assert found.changed == {"plant/steady/report": ["$.n"]}
    for name, topics in (("Silent", found.silent), ("Came", found.came), ("Changed", list(found.changed))):
        page.get_by_role("button", name=f"{name} {len(topics)}", exact=True).click()
        assert [row[0] for row in grid.evaluate(ALL_ROWS)] == topics
    earlier, later = (newest_at(stored, "plant/steady/report", at_us, SECOND_US) for at_us in (between_us, last_us))
    numbers = [json.loads(one["plant/steady/report"].payload)["n"] for one in (earlier, later)]
    row = grid.get_by_role("row").filter(has_text="plant/steady/report")
    assert f"{numbers[0]} → {numbers[1]}" in (row.text_content() or "")
    expect(page.locator(".time-state .time-foot")).to_contain_text("1 the same at both")


def test_an_estimate_holds_what_was_published_until_it_is_exact(broker: Broker, open_real: Callable[[], Any]) -> None:
    page = open_real()
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    counts = {"plant/1/temp": 120_000, "office/1/temp": 80_000}
    began_us = int(time.time() * 1e6)
    publishers = [
        subprocess.Popen(
            [
                sys.executable, "-c", "from holdfast.cli.main import main; main()",
                "pub", topic, "--lines", "-q", "1", "-p", str(broker.port),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )
        for topic in counts
    ]  # fmt: skip
    for publisher, count in zip(publishers, counts.values(), strict=True):
        publisher.communicate(b"".join(b"%d\n" % number for number in range(count)))
    assert [publisher.returncode for publisher in publishers] == [0, 0]
    # Whatever is asked first, it starts the history process.
    page.goto(f"/time?{urlencode({'f': 'office/+/temp'})}")
    settled(page)
    page.add_init_script(HOLD_LINES)
    with broker.slow_history():
        page.goto(f"/time?{urlencode({'f': 'plant/+/temp', 'from': iso(began_us), 'to': iso(int(time.time() * 1e6))})}")
        total = page.locator(".total[data-exact=false]")
        expect(total).to_contain_text("±")
    line = page.evaluate("() => window.firstLines.find((line) => line.to_us - line.from_us < 3600e6 && !line.exact)")
    truth = counts["plant/1/temp"]
    assert line["total"] != truth or sum(line["errors"]) > 0
    assert abs(line["total"] - truth) <= sum(line["errors"])
    page.locator("canvas[data-strip=range][data-drawn=estimate]").wait_for()
    page.evaluate("() => { for (const go of window.letGo) go(); }")
    page.locator("canvas[data-strip=range][data-drawn=exact]").wait_for()
    expect(page.locator(".total")).to_contain_text(f"{truth:,} messages, exact")
