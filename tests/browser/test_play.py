"""Play: a range of the past is published again, as a job of the console."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.browsing import Console, expect, find_hindrances, take_picture
from tests.browser.real_broker import Broker, Client
from tests.browser.time_page import iso, settled

pytestmark = [pytest.mark.slow, pytest.mark.browser]

#: The slowest there is: makes minutes of the milliseconds between two messages.
SLOW = "0.000001"


def test_play_publishes_below_the_prefix_and_can_be_stopped_and_resumed(
    broker: Broker, open_real: Callable[[], Any]
) -> None:
    page = open_real()
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    publisher, subscriber = Client(broker, "press-1", "none"), Client(broker, "listener", "replayed/#")
    try:
        payloads = [b"1", b"2", b"3", b"4", b"5"]
        for payload in payloads:
            publisher.publish("plant/1/temp", payload)
        answer = page.request.get("/api/v1/history/messages?filter=plant/%23&at=latest&limit=5")
        times = sorted(message["at_us"] for message in answer.json()["messages"])
        assert len(times) == 5
        page.goto(f"/time?f={quote('plant/#')}&from={iso(times[0])}&to={iso(times[-1] + 1)}")
        settled(page)
        page.get_by_label("Speed", exact=True).fill(SLOW)
        page.get_by_role("button", name="Play into replayed/…").click()
        dialog = page.get_by_role("dialog", name="5 messages: play into replayed/…?")
        expect(dialog).to_contain_text("plant/#")
        dialog.get_by_role("button", name="Play").click()
        job = page.locator(".job")
        expect(job).to_contain_text("1 message")
        assert subscriber.received.get(timeout=30) == ("replayed/plant/1/temp", b"1")
        job.get_by_role("button", name="Stop").click()
        expect(job).to_contain_text("Stopped")
        take_picture(page, "play-stopped")
        assert subscriber.received.empty()

        job.get_by_role("button", name="Resume").click()
        dialog = page.get_by_role("dialog", name="Resume behind 1 message?")
        dialog.get_by_label("Speed").fill("max")
        dialog.get_by_role("button", name="Copy as").click()
        command = shlex.split(dialog.get_by_role("menuitem", name="Command").locator("code").text_content() or "")
        # Of options that stand twice, the last counts. What was published already is not published again.
        [known] = page.request.get("/api/v1/jobs").json()["items"]
        assert [word for word in command if word.startswith("--after=")][-1:] == [f"--after={known['place']}"]
        assert [word for word in command if word.startswith("--speed=")][-1:] == ["--speed=max"]
        assert command[-2:] == ["--", "plant/#"]
        page.keyboard.press("Escape")
        dialog.get_by_role("button", name="Resume").click()
        expect(job).to_contain_text("Done")
        expect(job).to_contain_text("5 messages")
        again = [subscriber.received.get(timeout=30) for _payload in payloads[1:]]
        assert again == [("replayed/plant/1/temp", payload) for payload in payloads[1:]]
        assert subscriber.received.empty()
    finally:
        publisher.close()
        subscriber.close()


def open_range(page: Any) -> None:
    page.goto("/time?f=plant/%23")
    settled(page)


def test_the_topics_themselves_only_after_the_filter_was_typed_once_more(
    console: Console, open_page: Callable[..., Any]
) -> None:
    page = open_page(None)
    open_range(page)
    page.get_by_label("into the topics themselves").check()
    page.get_by_role("button", name="Play into the topics …").click()
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Play")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type it once more to go on").fill("plant/")
    expect(button).to_be_disabled()
    take_picture(page, "play-same-topics")
    assert find_hindrances(page) == []
    dialog.get_by_label("Type it once more to go on").fill("plant/#")
    button.click()
    expect(page.locator(".job")).to_contain_text("the topics themselves")
    ((_method, _path, body),) = console.stand_in.asked("POST", "/api/v1/jobs")
    given = json.loads(body)
    assert (given["prefix"], given["confirm"], given["filter"]) == ("", "plant/#", "plant/#")


def test_a_job_shows_its_progress_its_command_and_why_it_failed(
    console: Console, open_page: Callable[..., Any]
) -> None:
    page = open_page(None, permissions=["clipboard-read", "clipboard-write"])
    open_range(page)
    page.get_by_label("As user").fill("plc-1")
    page.get_by_label("Password").fill("s3cret")
    page.get_by_role("button", name="Play into replayed/…").click()
    page.get_by_role("dialog").get_by_role("button", name="Play").click()
    job = page.locator(".job")
    expect(job).to_contain_text("Playing")
    (one,) = console.stand_in.jobs.items
    asked = len(console.stand_in.asked("GET", "/api/v1/jobs"))
    one |= {"messages": 1234, "share": 0.5, "at_us": one["replay"]["from_us"]}
    console.stand_in.tick()
    expect(job).to_contain_text("1,234 messages")
    expect(job.get_by_role("progressbar")).to_have_attribute("value", "0.5")
    expect(page.get_by_label("Password")).to_have_value("")
    job.get_by_role("button", name="Copy as").click()
    page.get_by_role("menuitem", name="Command holdfast replay").click()
    assert page.evaluate("navigator.clipboard.readText()") == one["command"]
    one |= {"state": "failed", "detail": "holdfast: the broker refused: <b>Not authorized</b>"}
    console.stand_in.tick()
    expect(job).to_contain_text("the broker refused: <b>Not authorized</b>")
    # The event stream moved it: nothing was asked.
    assert len(console.stand_in.asked("GET", "/api/v1/jobs")) == asked
    job.scroll_into_view_if_needed()
    take_picture(page, "play-failed")
    assert find_hindrances(page) == []
    assert "s3cret" not in page.content()


def test_who_is_no_operator_sees_jobs_and_starts_none(console: Console, open_page: Callable[..., Any]) -> None:
    given = {"filter": "plant/#", "from": "1", "until": "2", "speed": "1", "prefix": "replayed/"}
    console.stand_in.jobs.start(given, "eva", console.stand_in.broker.now_us)
    page = open_page(None, user="rita")
    open_range(page)
    expect(page.locator(".job")).to_contain_text("Playing")
    assert page.get_by_role("button", name="Stop").count() == 0
    assert page.get_by_role("button", name="Play into replayed/…").count() == 0
