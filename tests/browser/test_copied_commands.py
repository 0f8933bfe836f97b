"""What the time machine copies is run, as it was copied: each text prints the messages that the page shows."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest

import holdfast
from holdfast.files.token_file import add_token
from tests.browser.browsing import expect
from tests.browser.real_broker import Broker, Client
from tests.browser.time_page import ALL_ROWS, all_messages, iso, settled
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.browser]

#: A topic and a payload that a shell, Python and SQL would each take for something else.
TOPIC = "plant/it's $HOME `x`/temp"
FILTER = "plant/+/temp"
MESSAGES = [(TOPIC, "1"), ("plant/2/temp", '"two" \\ $2'), (TOPIC, "3")]

ZONE = "factory"
PRESS = "it's press-$1"
TEXT = 'it\'s "$2" \\'
CONDITION = "$.t > 0.5"
#: Of tools that know a topic filter and a range, and nothing else.
NOT_NARROWED = ("mosquitto_sub, from the beginning of the range", "holdfast sub", "holdfast replay", "holdfast export")


class Published(NamedTuple):
    client: str
    topic: str
    payload: str

    @property
    def line(self) -> tuple[str, str]:
        return self.topic, self.payload


#: Of each pair that differs in its topic's zone, its client or its payload, one is shown.
PUBLISHED = [
    Published(PRESS, TOPIC, json.dumps({"t": 1, "say": TEXT})),
    Published("other", TOPIC, json.dumps({"t": 2, "say": TEXT})),
    Published(PRESS, "office/it's/temp", json.dumps({"t": 3, "say": TEXT})),
    Published(PRESS, TOPIC, json.dumps({"t": "9", "say": "other"})),
    Published(PRESS, "plant/2/temp", f'{{"t": 5, "say": "{TEXT}"}} is no JSON'),
    Published(PRESS, "plant/3/temp", '{"t": 0.25}'),
    Published("other", "office/4/temp", '{"t": 7}'),
]
ALL_FILTER = "+/+/temp"


def is_shown(one: Published, *, zone: str = "", client: str = "", payload: str = "") -> bool:
    """What the page says that it shows, looked up in what was published."""
    if zone and not one.topic.startswith("plant/"):
        return False
    if client and one.client != client:
        return False
    if payload == CONDITION:
        try:
            value = json.loads(one.payload)["t"]
        except ValueError:
            return False
        return isinstance(value, int | float) and value > 0.5
    # As JSON has it, or as it is.
    return payload in one.payload


NARROWED = {
    "zone": {"zone": ZONE},
    "client": {"client": PRESS},
    "text": {"payload": json.dumps(TEXT)[1:-1]},
    "condition": {"payload": CONDITION},
    "all": {"zone": ZONE, "client": PRESS, "payload": json.dumps(TEXT)[1:-1]},
    "all with a condition": {"zone": ZONE, "client": PRESS, "payload": CONDITION},
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """With a token for what is copied as curl, and a zone."""
    token_file = tmp_path / "tokens"
    (tmp_path / "token").write_text(add_token(token_file, "test", role="reader"))
    made = Broker(tmp_path, f"console.token_file={token_file}", f"zones.{ZONE}.filter=plant/#")
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
    return copied_texts(page)


def copied_texts(page: Any) -> dict[str, str]:
    page.get_by_role("button", name="Copy as").first.click()
    return {
        item.locator(".menu-label").inner_text(): item.locator("code").text_content() or ""
        for item in page.get_by_role("menuitem").all()
    }


def publish_all(broker: Broker, page: Any) -> list[int]:
    """Publish PUBLISHED, one after the other; when each was stored."""
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    clients = {name: Client(broker, name, "none") for name in (PRESS, "other")}
    try:
        for one in PUBLISHED:
            clients[one.client].publish(one.topic, one.payload.encode())
    finally:
        for client in clients.values():
            client.close()
    asked = f"/api/v1/history/messages?filter={quote(ALL_FILTER)}&at=latest&limit=100"
    listed = page.request.get(asked).json()["messages"]
    assert len(listed) == len(PUBLISHED)
    return sorted(message["at_us"] for message in listed)


def open_narrowed(page: Any, times: list[int], narrowed: dict[str, str]) -> list[Published]:
    """The page shows, newest first, what brute force finds among what was published; that, oldest first."""
    address = {"f": ALL_FILTER, "from": iso(times[0]), "to": iso(times[-1] + 1), "at": iso(times[-1]), **narrowed}
    page.goto(f"/time?{urlencode(address)}")
    settled(page)
    wanted = [one for one in PUBLISHED if is_shown(one, **narrowed)]
    assert 0 < len(wanted) < len(PUBLISHED)
    foot = page.locator(".time-messages .time-foot")
    if set(narrowed) & {"client", "payload"}:
        expect(foot).to_contain_text(f"{len(wanted)} found: all of the range")
        rows = page.get_by_role("grid", name="Messages, newest first").evaluate(ALL_ROWS)
    else:
        rows = all_messages(page)
    assert [(row[1], row[3]) for row in rows] == [(one.topic, one.client) for one in reversed(wanted)]
    return wanted


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


def test_narrowed_by_zone_client_and_payload_copied_commands_print_what_the_page_shows(
    broker: Broker, open_real: Callable[[], Any], tmp_path: Path
) -> None:
    need("curl", "curl")
    page, shell = open_real(), Shell(tmp_path)
    times = publish_all(broker, page)
    for name, narrowed in NARROWED.items():
        wanted = open_narrowed(page, times, narrowed)
        shown = {row[0]: row[1] for row in page.get_by_role("grid", name="State at A").evaluate(ALL_ROWS)}
        of_zone = [one for one in PUBLISHED if is_shown(one, zone=narrowed.get("zone", ""))]
        texts = copied_texts(page)
        notes = page.locator(".menu-notes").inner_text()
        for label in NOT_NARROWED:
            assert label not in texts, (name, label)
            assert label in notes, (name, label)

        answered = json.loads(shell.run(texts["curl"]))["messages"]
        lines = [(one["topic"]["text"], one["payload"]["text"]) for one in reversed(answered)]
        assert lines == [one.line for one in wanted], name
        printed = shell.run_python(texts["Python"]).splitlines()
        assert printed == [f"{one.topic} {one.payload.encode()!r}" for one in wanted], name
        if "payload" in narrowed:
            assert "curl, the range as a file" in notes
        else:
            shell.run(texts["curl, the range as a file"])
            exported = [json.loads(line) for line in (tmp_path / "messages.jsonl").read_text().splitlines()]
            assert [(one["topic"]["text"], one["payload"]["text"]) for one in exported] == [one.line for one in wanted]
        # The state and the bars of the page know the filter and the zone alone, and so do these.
        newest = {one.topic: one.payload for one in of_zone}
        assert shown.keys() == newest.keys()
        for found in (shell.run(texts["holdfast state"], "--json"), shell.run(texts["curl, state"])):
            state = {one["topic"]["text"]: one["payload"]["text"] for one in json.loads(found)["topics"]}
            assert state == newest, name
        counted = json.loads(shell.run(texts["holdfast density"], "--json"))
        drawn = json.loads(shell.run(texts["curl, density"]).splitlines()[-1])
        assert counted["counts"] == drawn["counts"]
        assert (counted["total"], counted["exact"]) == (len(of_zone), True)
        expect(page.locator(".total")).to_contain_text(f"{len(of_zone)} messages")


def test_a_copied_plot_and_comparison_are_those_of_the_page(
    broker: Broker, open_real: Callable[[], Any], tmp_path: Path
) -> None:
    need("curl", "curl")
    page, shell = open_real(), Shell(tmp_path)
    times = publish_all(broker, page)
    address = {
        "f": ALL_FILTER, "from": iso(times[0]), "to": iso(times[-1] + 1), "at": iso(times[-1]), "b": iso(times[0]),
        "plot": TOPIC, "path": "$.t",
    }  # fmt: skip
    page.goto(f"/time?{urlencode(address)}")
    settled(page)
    texts = copied_texts(page)
    [series] = json.loads(shell.run(texts["curl, plot"]))["series"]
    assert series["topic"] == TOPIC or series["topic"]["text"] == TOPIC
    numbers = [json.loads(one.payload)["t"] for one in PUBLISHED if one.topic == TOPIC]
    assert sum(column[4] for column in series["columns"]) == len([one for one in numbers if not isinstance(one, str)])
    first, newest = {TOPIC: PUBLISHED[0].payload}, {one.topic: one.payload for one in PUBLISHED}
    for text in (shell.run(texts["curl, A against B"]), shell.run(texts["holdfast state"], "--json")):
        found = json.loads(text)
        assert [one["topic"]["text"] for one in found["changed"]] == [TOPIC]
        assert {one["topic"]["text"] for one in found["came"]} == newest.keys() - first.keys()
        assert found["silent"] == []


def test_live_offers_what_goes_on_from_now(broker: Broker, open_real: Callable[[], Any], tmp_path: Path) -> None:
    need("curl", "curl")
    page, shell = open_real(), Shell(tmp_path)
    publish_all(broker, page)
    page.goto(f"/time?{urlencode({'f': ALL_FILTER, 'mode': 'live', 'zone': ZONE, 'client': PRESS})}")
    expect(page.get_by_role("heading", name="Live messages")).to_be_visible()
    expect(page.locator(".total[data-exact=true]")).to_be_visible()
    texts = copied_texts(page)
    assert not [label for label in texts if label.startswith(("mosquitto_sub", "holdfast sub"))]
    answered = json.loads(shell.run(texts["curl, the newest messages"]))["messages"]
    wanted = [one.line for one in PUBLISHED if is_shown(one, zone=ZONE, client=PRESS)]
    assert [(one["topic"]["text"], one["payload"]["text"]) for one in reversed(answered)] == wanted
    of_zone = {one.topic: one.payload for one in PUBLISHED if is_shown(one, zone=ZONE)}
    for found in (shell.run(texts["holdfast state"], "--json"), shell.run(texts["curl, state"])):
        assert {one["topic"]["text"]: one["payload"]["text"] for one in json.loads(found)["topics"]} == of_zone
    page.goto(f"/time?{urlencode({'f': 'plant/+/temp', 'mode': 'live'})}")
    expect(page.get_by_role("heading", name="Live messages")).to_be_visible()
    texts = copied_texts(page)
    assert texts["mosquitto_sub, from now on"].endswith(" -v -t plant/+/temp")
    assert texts["holdfast sub, from now on"].startswith("holdfast sub plant/+/temp")


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


@pytest.mark.spark
@pytest.mark.timeout(450)
def test_narrowed_by_zone_client_and_payload_copied_spark_programs_print_what_the_page_shows(
    broker: Broker, open_real: Callable[[], Any], tmp_path: Path
) -> None:
    page, shell = open_real(), Shell(tmp_path)
    times = publish_all(broker, page)
    for name in ("all", "all with a condition"):
        wanted = open_narrowed(page, times, NARROWED[name])
        texts = copied_texts(page)
        shown = shell.run_python(texts["PySpark"])
        lines = [line for line in shown.splitlines() if "/temp" in line]
        assert len(lines) == len(wanted), (name, shown)
        if name == "all with a condition":
            # SQL compares what can be read as a number, and the page numbers alone.
            assert "SQL (holdfast spark sql)" not in texts
            assert "SQL (holdfast spark sql)" in page.locator(".menu-notes").inner_text()
            continue
        statement = texts["SQL (holdfast spark sql)"]
        rows = shell.run("holdfast spark sql", "--data", str(broker.data), "--format", "json", statement).splitlines()
        found = [json.loads(row) for row in rows]
        assert [(one["topic"], one["payload"]) for one in reversed(found)] == [one.line for one in wanted]
