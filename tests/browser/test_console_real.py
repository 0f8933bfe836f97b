"""The page in front of a real broker with its console: what the stand-in promises is what the console does."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.browser.browsing import PATIENCE_MS, REPORT, Watch, expect
from tests.browser.stand_in_data import HOSTILE_NAMES

pytestmark = [pytest.mark.slow, pytest.mark.browser]

_SERVE: Final = "from holdfast.cli.main import main; main()"


class Broker:
    """A process of `holdfast serve`, and the link that its console printed."""

    def __init__(self, folder: Path) -> None:
        self.port, console_port = _free_port(), _free_port()
        words = [
            "serve",
            "--data",
            str(folder / "data"),
            "--port",
            str(self.port),
            "--set",
            f"console.port={console_port}",
            "--set",
            "console.enabled=true",  # tests switch it off for all others
        ]
        self._errors: Final = (folder / "errors").open("wb")
        self.process: Final = subprocess.Popen(
            [sys.executable, "-c", _SERVE, *words], stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.link: Final = self._read_link()

    @property
    def address(self) -> str:
        return self.link.partition("/login")[0]

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()
        self._errors.close()

    def _read_link(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://\S+/login#token=\S+", line):
                # What it prints from now on is read by nobody, and must not fill the pipe.
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return found[0]
        raise AssertionError("the broker ended before its console was served")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    try:
        yield broker
    finally:
        broker.close()


@pytest.fixture
def open_real(browser: Any, broker: Broker) -> Iterator[Callable[[], Any]]:
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


class Client:
    """An MQTT client that does not come back when its connection is ended."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.gone: Final = threading.Event()
        subscribed = threading.Event()
        self._client: Final = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5, reconnect_on_failure=False
        )
        self._client.on_disconnect = lambda *_given: self.gone.set()
        self._client.on_subscribe = lambda *_given: subscribed.set()
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()
        self._client.subscribe("plant/#", 1)
        assert subscribed.wait(30)

    def publish(self, topic: str, payload: bytes) -> None:
        self._client.publish(topic, payload, qos=1).wait_for_publish(30)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def test_a_real_link_logs_in_once_and_the_overview_moves(broker: Broker, open_real: Callable[[], Any]) -> None:
    page = open_real()
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("#node-state")).to_contain_text("Taking messages")
    clients = page.locator(".tile", has_text="Clients").locator(".tile-value")
    expect(clients).to_have_text("0")
    client = Client(broker, "press-1")
    try:
        expect(clients).to_have_text("1")
    finally:
        client.close()
    again = open_real()
    again.watch.allow("status of 401")
    again.goto(broker.link)
    expect(again.get_by_role("alert")).to_be_visible()


def test_a_real_client_is_found_explained_and_kicked(broker: Broker, open_real: Callable[[], Any]) -> None:
    page = open_real()
    page.goto(broker.link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    clients = [Client(broker, name) for name in ("press-1", HOSTILE_NAMES[0], HOSTILE_NAMES[2])]
    try:
        clients[0].publish("plant/1/temp", b"<b>21.5</b>")
        page.goto("/clients")
        expect(page.locator("tbody tr")).to_have_count(3)
        assert page.locator("main img").count() == 0
        for name in (HOSTILE_NAMES[0], HOSTILE_NAMES[2]):
            page.goto(f"/clients/{quote(name, safe='')}")
            expect(page.get_by_role("heading", name=name)).to_be_visible()
            expect(page.get_by_text("Connected", exact=True).first).to_be_visible()
        page.goto("/subscriptions?topic=plant/1/temp")
        expect(page.locator("tbody tr")).to_have_count(3)
        page.goto("/clients/press-1")
        # Its session ends with its connection, and then there is nothing to show.
        page.watch.allow("status of 404")
        page.get_by_role("button", name="Disconnect").click()
        page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        assert clients[0].gone.wait(30)
        expect(page.get_by_text("No session has the name press-1")).to_be_visible()
    finally:
        for client in clients:
            client.close()
