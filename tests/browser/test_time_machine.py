"""The time machine in a browser, against brute force over the stand-in's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.browsing import Console, expect
from tests.browser.stand_in_data import NOW_US
from tests.browser.stand_in_history import CAME_US, GAP, HOUR_US, OLDEST_US, SILENT_US, History
from tests.browser.time_page import (
    ALL_ROWS,
    HATCHED,
    HOLD_LINES,
    SECOND_US,
    Machine,
    all_messages,
    clock,
    compared,
    drag,
    expected,
    in_address,
    iso,
    newest_at,
    open_time,
    settled,
)

MINUTE_US = 60 * SECOND_US

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture
def machine(console: Console, open_page: Callable[..., Any]) -> Machine:
    return Machine(console, open_page)


def test_dragging_the_strip_shows_exactly_the_messages_of_the_range(machine: Machine) -> None:
    page = open_time(machine, "?f=plant/%2B/temp")
    before = page.url
    drag(page, page.locator("canvas[data-strip=range]"), 0.30, 0.42)
    page.wait_for_url(lambda url: url != before)
    settled(page)
    from_us, to_us = in_address(page, "from"), in_address(page, "to")
    wanted = expected(machine.history.messages, "plant/+/temp", from_us, to_us)
    assert len(wanted) > 100, "the range is too short to show that pages follow one another"
    rows = all_messages(page)
    assert [(row[0], row[1], row[4]) for row in rows] == [(clock(m.at_us), m.topic, m.payload.decode()) for m in wanted]
    assert page.locator(".total").text_content().startswith(f"{len(wanted):,} messages")


def test_state_at_a_moment_equals_what_was_published_until_then(machine: Machine) -> None:
    page = open_time(machine, "?f=plant/%23")
    strip = page.locator("canvas[data-strip=range]")
    box = strip.bounding_box()
    assert box is not None
    before = page.url
    strip.click(position={"x": box["width"] * 0.8, "y": box["height"] / 2})
    page.wait_for_url(lambda url: url != before)
    settled(page)
    at_us = in_address(page, "at")
    wanted = newest_at(machine.history.messages, "plant/#", at_us, HOUR_US)
    rows = page.get_by_role("grid", name="State at A").evaluate(ALL_ROWS)
    assert [(row[0], row[1]) for row in rows] == [(topic, wanted[topic].payload.decode()) for topic in sorted(wanted)]
    assert page.locator(".time-state .time-foot").text_content().startswith(f"{len(wanted)} topics, looked back 1 h")


def test_looking_back_further_finds_topics_that_spoke_longer_ago(machine: Machine) -> None:
    at_us = SILENT_US + 2 * HOUR_US
    page = open_time(machine, f"?f=plant/7/%2B&at={iso(at_us)}")
    grid = page.get_by_role("grid", name="State at A")
    assert grid.evaluate(ALL_ROWS) == []
    page.get_by_role("button", name="Look back further").click()
    page.wait_for_url(lambda url: "look=14400" in url)
    grid.get_by_text("plant/7/temp").wait_for()
    wanted = newest_at(machine.history.messages, "plant/7/+", at_us, 4 * HOUR_US)
    assert [row[0] for row in grid.evaluate(ALL_ROWS)] == sorted(wanted)


def test_a_new_question_gives_up_the_one_before_it(machine: Machine) -> None:
    page = open_time(machine, "?f=plant/%23")
    given_up: list[str] = []
    page.on("requestfailed", lambda request: given_up.append(request.url))
    page.route("**/history/*filter=plant%2F1*", lambda _route: None)  # They are never answered.
    field = page.get_by_label("topic filter")
    with page.expect_request("**/history/density*filter=plant%2F1*"):
        field.fill("plant/1/#")
        field.press("Enter")
    with page.expect_event("requestfailed", lambda request: "/history/density?filter=plant%2F1" in request.url):
        field.fill("plant/2/#")
        field.press("Enter")
    page.locator(".time-messages").get_by_text("plant/2/temp").first.wait_for()
    settled(page)
    for question in ("density", "messages", "state"):
        assert [url for url in given_up if f"/history/{question}?filter=plant%2F1" in url], question


def test_comparing_two_moments_names_what_changed_and_what_fell_silent(machine: Machine) -> None:
    early, late = SILENT_US - HOUR_US // 2, NOW_US - HOUR_US // 4
    page = open_time(machine, f"?f=plant/%23&at={iso(late)}&b={iso(early)}")
    wanted = compared(machine.history.messages, "plant/#", early, late, HOUR_US)
    grid = page.get_by_role("grid", name="State at A")
    for name, found in (("Silent", wanted.silent), ("Came", wanted.came), ("Changed", list(wanted.changed))):
        page.get_by_role("button", name=f"{name} {len(found)}", exact=True).click()
        assert [row[0] for row in grid.evaluate(ALL_ROWS)] == found
    assert "plant/7/temp" in wanted.silent
    assert "plant/6/temp" in wanted.came
    topic, places = next((topic, places) for topic, places in wanted.changed.items() if len(places) > 1)
    grid.get_by_text(topic, exact=True).click()
    paths = page.locator(".time-state .inspector tbody tr")
    assert sorted(row.split("\t")[0] for row in paths.all_inner_texts()) == sorted(places)
    page.get_by_role("button", name=f"Silent {len(wanted.silent)}", exact=True).click()
    silent = wanted.silent[0]
    last = newest_at(machine.history.messages, silent, late, 24 * HOUR_US)[silent]
    # It spoke once more between both moments, further back than the later one looks.
    assert early < last.at_us < late - HOUR_US
    row = grid.get_by_role("row").filter(has_text=silent)
    assert "silent for 1 h or more" in (row.text_content() or "")
    row.click()
    expect(page.locator(".time-state .inspector")).to_contain_text(f"silent since 2026-11-18 {clock(last.at_us)}")
    # Where the later moment looks back as far as the earlier one, it is known at once.
    late, back_us = last.at_us + 48 * MINUTE_US, 45 * MINUTE_US
    before = late - 40 * MINUTE_US
    page = open_time(machine, f"?f=plant/7/report&at={iso(late)}&b={iso(before)}&look={back_us // SECOND_US}")
    assert silent == "plant/7/report"
    row = page.get_by_role("grid", name="State at A").get_by_role("row").filter(has_text="plant/7/report")
    assert f"silent since {clock(last.at_us)[:8]}" in (row.text_content() or "")


def test_a_time_machine_link_opens_the_same_view_elsewhere(machine: Machine) -> None:
    page = open_time(machine, "?f=plant/%23")
    page.get_by_label("client", exact=True).fill("plc-2")
    page.get_by_role("button", name="Look", exact=True).click()
    drag(page, page.locator("canvas[data-strip=range]"), 0.7, 0.9)
    page.wait_for_url(lambda url: "client=plc-2" in url)
    settled(page)
    strip = page.locator("canvas[data-strip=range]")
    box = strip.bounding_box()
    assert box is not None
    strip.click(position={"x": box["width"] * 0.6, "y": 80})
    page.wait_for_function("() => !location.search.includes('at=' + new URLSearchParams(location.search).get('to'))")
    strip.click(position={"x": box["width"] * 0.2, "y": 80}, modifiers=["Shift"])
    page.wait_for_url(lambda url: "&b=" in url)
    settled(page)
    other = machine.open_blank()
    other.goto(page.url)
    settled(other)
    assert other.url == page.url
    # Beside it, a page that has been open for longer says so: the clock of this console stands still.
    assert other.locator(".time-page").inner_text() == page.locator(".time-page").inner_text()
    for name in ("Moment A", "Moment B", "Beginning of the range", "End of the range"):
        now = [one.get_by_role("slider", name=name).get_attribute("aria-valuenow") for one in (page, other)]
        assert now[0] == now[1]


def test_estimates_are_hatched_until_they_are_exact(machine: Machine) -> None:
    page = machine.open_blank()
    # The answer's first line arrives, the others wait until they are let go.
    page.add_init_script(HOLD_LINES)
    page.goto(f"{machine.url}/time?f=plant/%2B/temp&from=-6h&to=now")
    strip = page.locator("canvas[data-strip=range]")
    page.locator("canvas[data-strip=range][data-drawn=estimate]").wait_for()
    page.locator(".total[data-exact=false]").wait_for()
    assert "±" in (page.locator(".total").text_content() or "")
    rough = strip.evaluate(HATCHED)
    assert rough["broken"] > 10 * max(1, rough["solid"]), rough
    box = strip.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 100)
    page.locator(".strip-tip", has_text="an estimate").wait_for()
    page.mouse.move(5, 5)
    page.evaluate("() => { for (const go of window.letGo) go(); }")
    page.locator("canvas[data-strip=range][data-drawn=exact]").wait_for()
    fine = strip.evaluate(HATCHED)
    assert fine["solid"] > 3 * max(1, fine["broken"]), fine
    assert "exact" in (page.locator(".total").text_content() or "")


def test_the_wheel_zooms_around_the_pointer(machine: Machine) -> None:
    page = open_time(machine, "?f=%23&from=-12h&to=now")
    strip = page.locator("canvas[data-strip=range]")
    box = strip.bounding_box()
    assert box is not None
    from_us, to_us = in_address(page, "from"), in_address(page, "to")
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    page.mouse.wheel(0, -240)
    page.wait_for_function(f"() => !location.search.includes('from={iso(from_us)[:19]}')")
    settled(page)
    new_from, new_to = in_address(page, "from"), in_address(page, "to")
    assert from_us < new_from < new_to < to_us
    around = from_us + (to_us - from_us) / 4
    share = (around - new_from) / (new_to - new_from)
    assert abs(share - 0.25) < 0.01


def test_a_search_says_how_much_it_looked_through_and_goes_on(machine: Machine) -> None:
    page = open_time(machine, f"?f=%23&payload=stopped&from={iso(OLDEST_US)}&to={iso(NOW_US)}")
    foot = page.locator(".time-messages .time-foot")
    wanted = [m for m in expected(machine.history.messages, "#", OLDEST_US, NOW_US) if b"stopped" in m.payload]
    seen = foot.text_content() or ""
    found = re.match(r"Looked through ([\d,]+) of ([\d,]+), ([\d,]+) found", seen)
    assert found is not None, seen
    assert int(found[3].replace(",", "")) < len(wanted)
    while page.get_by_role("button", name="Go on").count():
        page.get_by_role("button", name="Go on").click()
        page.wait_for_function("([foot, before]) => foot.textContent !== before", arg=[foot.element_handle(), seen])
        seen = foot.text_content() or ""
    assert f"{len(wanted)} found: all of the range" in seen
    rows = page.get_by_role("grid", name="Messages, newest first").evaluate(ALL_ROWS)
    assert len(rows) == len(wanted)


def test_live_shows_what_is_published_and_leaves_with_the_same_range(machine: Machine) -> None:
    page = open_time(machine, "?f=live/%23&from=-1h&to=now")
    page.get_by_role("button", name="Live", exact=True).click()
    page.wait_for_url(lambda url: "mode=live" in url)
    grid = page.get_by_role("grid", name="Live messages")
    page.wait_for_function(
        "() => document.querySelector('.time-messages .time-foot').textContent.startsWith('0 since')"
    )
    for number in range(3):
        machine.history.add(f"live/{number}", b"hello <b>%d</b>" % number)
    grid.get_by_text("hello <b>2</b>").wait_for()
    assert [row[1] for row in grid.evaluate(ALL_ROWS)] == ["live/2", "live/1", "live/0"]
    # The clock of the console stands still: the strip counts them although its range is the same.
    page.wait_for_function("() => document.querySelector('.total b')?.textContent === '3'")
    page.get_by_role("button", name="Live", exact=True).click()
    page.wait_for_url(lambda url: "mode=live" not in url)
    settled(page)
    assert [row[1] for row in all_messages(page)] == ["live/2", "live/1", "live/0"]


def test_the_live_strip_is_drawn_though_answers_take_longer_than_its_range_stands(machine: Machine) -> None:
    page = open_time(machine, "?f=live/%23&mode=live")
    page.wait_for_function("() => document.querySelector('.total b')?.textContent === '0'")
    held: list[Any] = []
    holding = True
    page.route("**/history/density*", lambda route: held.append(route) if holding else route.continue_())
    for number in range(3):
        machine.history.add(f"live/{number}", b"%d" % number)
        # The range has moved by a second, and the strip is asked for again.
        page.get_by_role("grid", name="Live messages").get_by_text(f"live/{number}").wait_for()
    held[0].continue_()
    page.wait_for_function("() => Number(document.querySelector('.total b')?.textContent) >= 1")
    holding = False
    for route in held[1:]:
        route.continue_()
    page.wait_for_function("() => document.querySelector('.total b')?.textContent === '3'")


def test_what_is_wrong_is_said_beside_its_field(machine: Machine) -> None:
    page = open_time(machine)
    field = page.get_by_label("topic filter")
    field.fill("plant/#/temp")
    field.press("Enter")
    error = page.locator("#time-filter-error")
    error.wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    assert field.get_attribute("aria-describedby") == "time-filter-error"
    field.fill("$replay/-1h/plant/#")
    field.press("Enter")
    page.locator("#time-filter-error", has_text="write the filter alone").wait_for()
    field.fill("plant/#")
    field.press("Enter")
    error.wait_for(state="detached")
    moment = page.get_by_label(re.compile("^A? ?moment A"))
    moment.fill("yesterday")
    moment.press("Enter")
    page.locator("#time-a-error", has_text="is no time").wait_for()
    machine.allow(r"400 \(Bad Request\)")


def test_edges_are_said_in_words(machine: Machine) -> None:
    page = open_time(machine, f"?f=%23&from={iso(OLDEST_US - 9 * HOUR_US)}&to={iso(OLDEST_US - 8 * HOUR_US)}")
    text = page.locator("main").inner_text()
    assert "lies before everything that is kept" in text
    assert "At most 1,200,000 messages were taken by retention" in text
    page = open_time(machine, f"?f=%23&from={iso(NOW_US + HOUR_US)}&to={iso(NOW_US + 2 * HOUR_US)}")
    assert "lies ahead of now" in page.locator("main").inner_text()
    page = open_time(machine, f"?f=%23&from={iso(GAP[0] - HOUR_US)}&to={iso(GAP[1] + HOUR_US)}")
    box = page.locator("canvas[data-strip=range]").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.locator(".strip-tip", has_text="the broker did not run").wait_for()


def test_a_range_that_retention_passes_names_the_border(machine: Machine) -> None:
    page = machine.open_blank()
    body = json.dumps({"title": "Gone", "status": 410, "detail": "dropped", "border_us": NOW_US - HOUR_US})
    page.route(
        "**/history/messages*",
        lambda route: route.fulfill(status=410, content_type="application/problem+json", body=body),
    )
    page.goto(f"{machine.url}/time?f=%23&from=-6h&to=now")
    notice = page.get_by_role("alert").filter(has_text="Retention has passed this range")
    notice.wait_for()
    page.unroute("**/history/messages*")
    notice.get_by_role("button", name="Begin there").click()
    notice.wait_for(state="detached")
    settled(page)
    assert in_address(page, "from") == NOW_US - HOUR_US
    machine.allow(r"410 \(Gone\)")


def test_a_plot_has_a_table_of_what_it_draws(machine: Machine) -> None:
    page = open_time(machine, "?f=plant/1/report&path=$.t&plot=plant/1/report&from=-6h&to=now")
    page.locator(".plot-box canvas").wait_for()
    page.locator(".time-plot").get_by_role("button", name="As a table").click()
    rows = page.locator(".time-plot .bucket-table tbody tr").all_inner_texts()
    from_us, to_us = in_address(page, "from"), in_address(page, "to")
    step_us = -(-(to_us - from_us) // 600)
    columns: dict[int, list[float]] = {}
    for one in reversed(expected(machine.history.messages, "plant/1/report", from_us, to_us)):
        columns.setdefault((one.at_us - from_us) // step_us, []).append(json.loads(one.payload)["t"])
    wanted = [(min(found), max(found), found[-1], len(found)) for _number, found in sorted(columns.items())]
    shown = [tuple(float(cell) for cell in row.split("\t")[2:]) for row in rows]
    # Three digits are shown.
    assert shown == [tuple(float(f"{number:.3g}") for number in column) for column in wanted]


def test_preview_moves_a_through_the_range_and_can_be_paused(machine: Machine) -> None:
    page = open_time(machine, f"?f=%23&from={iso(NOW_US - HOUR_US)}&to={iso(NOW_US)}&at={iso(NOW_US - HOUR_US)}")
    page.get_by_role("button", name=re.compile("^1000")).click()
    page.get_by_role("button", name="Preview").click()
    page.wait_for_function(
        "(from) => Number(document.querySelector('[data-handle=range-a]').getAttribute('aria-valuenow')) > from",
        arg=NOW_US - HOUR_US,
    )
    page.get_by_role("button", name=re.compile("Pause|Preview")).click()
    settled(page)
    assert NOW_US - HOUR_US < in_address(page, "at") <= NOW_US
    assert not [one for one in machine.stand_in.requests if one[0] != "GET" and "login" not in one[1]], (
        "a preview publishes nothing"
    )


def test_copied_commands_name_the_filter_and_the_range(machine: Machine) -> None:
    page = open_time(machine, f"?f=plant/%2B/temp&from={iso(NOW_US - HOUR_US)}&to={iso(NOW_US)}")
    page.get_by_role("button", name="Copy as").click()
    texts = {
        item.locator(".menu-label").inner_text(): item.locator("code").text_content() or ""
        for item in page.get_by_role("menuitem").all()
    }
    begin, end = (iso(at_us).replace(".000000", "") for at_us in (NOW_US - HOUR_US, NOW_US))
    assert texts["holdfast replay"] == f"holdfast replay plant/+/temp --from {begin} --until {end} --json"
    assert texts["holdfast export"].startswith(f"holdfast export plant/+/temp --since {begin} --until {end}")
    assert f"mosquitto_sub -v -t '$replay/{begin}/plant/+/temp'" in texts.values()
    assert texts["Address"] == page.url
    assert f"offset < {NOW_US}" in texts["SQL (holdfast spark sql)"]
    for source in (texts["Python"], texts["PySpark"]):
        compile(source, "copied", "exec")


def test_the_time_zone_is_part_of_the_link(machine: Machine) -> None:
    query = f"?f=%23&from={iso(NOW_US - HOUR_US)}&to={iso(NOW_US)}&tz=local"
    page = open_time(machine, query, timezone_id="Asia/Kolkata")
    field = page.get_by_label(re.compile("moment A"))
    assert field.input_value() == "2026-11-18 19:33:10.000"
    field.fill("2026-11-18 19:00:00")
    field.press("Enter")
    page.wait_for_url(lambda url: "at=2026-11-18T13:30:00Z" in url)
    other = open_time(machine, "?" + urlsplit(page.url.replace("tz=local", "tz=UTC")).query, timezone_id="Asia/Tokyo")
    assert other.get_by_label(re.compile("moment A")).input_value() == "2026-11-18 13:30:00.000"


def test_an_export_says_first_how_much_it_can_be(machine: Machine) -> None:
    page = open_time(machine, f"?f=plant/%2B/temp&from={iso(NOW_US - HOUR_US)}&to={iso(NOW_US)}&client=plc-1")
    page.get_by_role("button", name="Export").click()
    wanted = expected(machine.history.messages, "plant/+/temp", NOW_US - HOUR_US, NOW_US)
    panel = page.get_by_role("group", name="Export")
    assert f"{len(wanted)} messages of plant/+/temp" in panel.inner_text()
    for name, form in (("JSON lines", "jsonl"), ("CSV", "csv"), ("Parquet", "parquet")):
        asked = parse_qs(urlsplit(panel.get_by_role("link", name=name).get_attribute("href")).query)
        assert asked == {
            "filter": ["plant/+/temp"], "from": [str(NOW_US - HOUR_US)], "to": [str(NOW_US)],
            "client": ["plc-1"], "format": [form],
        }  # fmt: skip
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")


def test_a_viewer_learns_which_role_the_past_needs(machine: Machine) -> None:
    page = machine.open_blank(user="vic")
    page.goto(f"{machine.url}/time")
    page.get_by_text("The past needs the role reader").wait_for()
    assert not [one for one in machine.stand_in.requests if "/history/messages" in one[1]]


def test_the_first_and_the_last_moments_are_those_of_the_data() -> None:
    """The data set has what the tests above stand on."""
    history = History()
    machines = {m.topic for m in history.messages if m.at_us < CAME_US}
    assert "plant/6/temp" not in machines
    assert max(m.at_us for m in history.messages if m.topic == "plant/7/temp") <= SILENT_US + 60 * SECOND_US
