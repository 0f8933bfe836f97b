"""What the time machine copies is run, as it was copied: each text prints the messages that the page shows."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import holdfast
from holdfast.files.token_file import add_token
from tests.browser.browsing import expect
from tests.browser.real_broker import Broker, Client
from tests.browser.time_page import all_messages, iso, settled
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.browser]

#: A topic and a payload that a shell, Python and SQL would each take for something else.
TOPIC = "plant/it's $HOME `x`/temp"
FILTER = "plant/+/temp"
MESSAGES = [(TOPIC, "1"), ("plant/2/temp", '"two" \\ $2'), (TOPIC, "3")]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """With a token for what is copied as curl."""
    token_file = tmp_path / "tokens"
    (tmp_path / "token").write_text(add_token(token_file, "test", role="reader"))
    made = Broker(tmp_path, f"console.token_file={token_file}")
    try:
        yield made
    finally:
        made.close()


class Shell:
    """A shell in which `holdfast` is the program under test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        programs = folder / "bin"
        programs.mkdir()
        program = programs / "holdfast"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from holdfast.cli.main import main; main()" "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self._environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(holdfast.__file__).resolve().parents[1]),
            "HOLDFAST_TOKEN": (folder / "token").read_text(),
        }

    def run(self, command: str, *words: str) -> str:
        """What a command prints that was pasted, with words behind it."""
        return self._run(["bash", "-c", f'{command} "$@"', "bash", *words])

    def run_python(self, source: str) -> str:
        return self._run([sys.executable, "-c", source])

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(
            words, cwd=self._folder, env=self._environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def copied(broker: Broker, page: Any) -> dict[str, str]:
    """Three messages are published and shown; the texts of "Copy as", by their labels."""
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    publisher = Client(broker, "press-1", "none")
    try:
        publisher.publish("plant/1/speed", b"not of the filter")
        for topic, payload in MESSAGES:
            publisher.publish(topic, payload.encode())
        listed = page.request.get(f"/api/v1/history/messages?filter={quote(FILTER)}&at=latest&limit=5").json()
        times = sorted(message["at_us"] for message in listed["messages"])
        assert len(times) == len(MESSAGES)
        # Behind the range: shown by no command that has an end.
        publisher.publish("plant/2/temp", b"later")
    finally:
        publisher.close()
    page.goto(f"/time?f={quote(FILTER)}&from={iso(times[0])}&to={iso(times[-1] + 1)}&at={iso(times[-1])}")
    settled(page)
    rows = all_messages(page)
    assert len(rows) == len(MESSAGES)
    for row, (topic, payload) in zip(rows, reversed(MESSAGES), strict=True):
        assert topic in row
        assert any(payload in cell for cell in row)
    page.get_by_role("button", name="Copy as").click()
    return {
        item.locator(".menu-label").inner_text(): item.locator("code").text_content() or ""
        for item in page.get_by_role("menuitem").all()
    }


def test_copied_commands_print_what_the_page_shows(
    broker: Broker, open_real: Callable[[], Any], tmp_path: Path
) -> None:
    need("mosquitto_sub", "mosquitto-clients")
    need("curl", "curl")
    texts = copied(broker, open_real())
    shell = Shell(tmp_path)
    lines = [f"{topic} {payload}" for topic, payload in MESSAGES]

    assert shell.run(texts["mosquitto_sub, from the beginning of the range"], "-C", "3").splitlines() == lines
    assert shell.run(texts["holdfast sub"], "--count", "3").splitlines() == lines
    replayed = [json.loads(line) for line in shell.run(texts["holdfast replay"]).splitlines()]
    assert [(one["topic"], one["payload"]) for one in replayed if "topic" in one] == MESSAGES
    shell.run(texts["holdfast export"])
    exported = [json.loads(line) for line in (tmp_path / "messages.jsonl").read_text().splitlines()]
    assert [(one["topic"], one["payload"]) for one in exported] == MESSAGES
    newest = dict(MESSAGES)
    found = json.loads(shell.run(texts["holdfast state"], "--json"))["topics"]
    assert {one["topic"]["text"]: one["payload"]["text"] for one in found} == newest
    counted = json.loads(shell.run(texts["holdfast density"], "--json"))
    assert (counted["total"], counted["exact"]) == (len(MESSAGES), True)
    answered = json.loads(shell.run(texts["curl"]))["messages"]
    assert [(one["topic"]["text"], one["payload"]["text"]) for one in reversed(answered)] == MESSAGES
    printed = shell.run_python(texts["Python"]).splitlines()
    assert printed == [f"{topic} {payload.encode()!r}" for topic, payload in MESSAGES]


def test_the_commands_of_the_other_pages_run_as_they_are_copied(
    broker: Broker, open_real: Callable[[], Any], tmp_path: Path
) -> None:
    page = open_real()
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    hostile = "-it's $HOME"
    clients = [Client(broker, name, expiry_s=3600) for name in ("press-1", hostile)]
    shell = Shell(tmp_path)
    shown = quote(hostile, safe="")
    pages = {
        "/": "taking",
        "/clients?q=press&state=behind&sort=-owed": "",
        "/clients?sort=-since": hostile,
        "/clients?state=blocked": "",
        f"/clients/{shown}": hostile,
        f"/clients/{shown}?tab=explain&filter=plant/%23&since=-1h": "",
        "/subscriptions?topic=plant/1/temp": hostile,
        f"/events?reason=denied&client={shown}&topic=plant/%23": "",
        "/health": "",
    }
    try:
        for path, said in pages.items():
            page.goto(path)
            # The last one is that of the part that the address names.
            page.get_by_role("button", name="Copy as").last.click()
            command = page.get_by_role("menuitem", name="Command").first.locator("code").text_content() or ""
            assert command.startswith("holdfast "), path
            assert said in shell.run(command), command
        page.goto(f"/clients/{shown}")
        page.get_by_role("button", name="Disconnect").click()
        page.get_by_role("dialog").get_by_role("button", name="Copy as").click()
        shell.run(page.get_by_role("menuitem", name="Command").locator("code").text_content() or "")
        assert clients[1].gone.wait(30)
    finally:
        for client in clients:
            client.close()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_copied_spark_programs_print_what_the_page_shows(
    broker: Broker, open_real: Callable[[], Any], tmp_path: Path
) -> None:
    texts = copied(broker, open_real())
    shell = Shell(tmp_path)
    shown = shell.run_python(texts["PySpark"])
    assert [shown.count(topic) for topic in (TOPIC, "plant/2/temp", "plant/1/speed")] == [2, 1, 0]
    statement = texts["SQL (holdfast spark sql)"]
    rows = shell.run("holdfast spark sql", "--data", str(broker.data), "--format", "json", statement).splitlines()
    found = [json.loads(row) for row in rows]
    assert [(one["topic"], one["payload"]) for one in reversed(found)] == MESSAGES
