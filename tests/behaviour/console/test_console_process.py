"""A broker with its console beside it, as processes: logins, commands, kills, a port in use, a stopped folder."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from bench.ports import free_port
from holdfast.console.options import ConsoleOptions
from holdfast.node.processes.console_main import ConsoleStart, encode_start
from tests.history.processes import Program, is_running, until

pytestmark = pytest.mark.slow


class Place:
    """A broker and its console."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.data = folder / "data"
        self.port, self.console_port = free_port(), free_port()
        own = ("console.enabled=true", f"console.port={self.console_port}", "storage.min_free_bytes=0", *settings)
        given = [word for setting in own for word in ("--set", setting)]
        self.broker = Program(
            folder / "broker.log", "serve", "--port", str(self.port), "--data", str(self.data), *given
        )
        self.cookie = ""

    def console_pids(self) -> list[int]:
        return [line["pid"] for line in self.broker.said("console is served")]

    def printed_link(self) -> str:
        """The token of the first link; empty if none is printed yet."""
        lines = [line["event"] for line in self.broker.log() if line["event"].startswith("console: ")]
        return str(lines[0].partition("#token=")[2].split(" ")[0]) if lines else ""

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.console_port, timeout=30)
        headers = {"X-Holdfast": "1", "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        if self.cookie:
            headers["Cookie"] = self.cookie
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.getheader("Set-Cookie"):
            self.cookie = str(answer.getheader("Set-Cookie")).partition(";")[0]
        connection.close()
        return answer.status, json.loads(data) if data[:1] in b"{[" else data.decode()

    def log_in(self, link: str) -> int:
        return self.ask("POST", "/api/v1/login", {"link": link})[0]


@contextmanager
def place(folder: Path, *settings: str) -> Iterator[Place]:
    made = Place(folder, *settings)
    made.broker.start()
    try:
        until(lambda: made.console_pids(), "the console serves")
        yield made
    finally:
        if made.broker.process is not None:
            made.broker.end()


def holdfast(*arguments: str) -> str:
    program = [sys.executable, "-c", "from holdfast.cli.main import main; main()", *arguments]
    return subprocess.run(program, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_the_printed_link_logs_in_once_and_a_client_is_seen_and_kicked(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        until(lambda: here.printed_link(), "the link is printed")
        link = here.printed_link()
        assert here.log_in(link) == 200
        until(lambda: here.ask("GET", "/api/v1/node")[1]["state"] == "taking", "the broker reports")
        gone: list[Any] = []

        def noted(*words: Any) -> None:
            gone.append(words)

        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="press/7", reconnect_on_failure=False)
        client.on_disconnect = noted
        client.connect("127.0.0.1", here.port)
        client.loop_start()

        def names() -> list[str]:
            return [row["client_id"] for row in here.ask("GET", "/api/v1/clients?q=press")[1]["items"]]

        until(lambda: names() == ["press/7"], "the client is listed")
        status, detail = here.ask("GET", "/api/v1/clients/press%2F7")
        assert (status, detail["connection"]["client_id"]) == (200, "press/7")
        status, kicked = here.ask("POST", "/api/v1/clients/press%2F7/kick", {})
        assert (status, kicked["kicked"]) == (200, True)
        until(lambda: gone, "the client is disconnected")
        client.loop_stop()
        until(lambda: names() == [], "the client is gone from the list")
        audit = here.ask("GET", "/api/v1/audit")[1]["items"]
        assert [(entry["what"], entry["target"], entry["outcome"]) for entry in audit] == [("kick", "press/7", "done")]
        here.cookie = ""
        assert here.log_in(link) == 401
        fresh = holdfast("console", "open", "--data", str(here.data))
        assert fresh.startswith(f"http://127.0.0.1:{here.console_port}/login#token=")
        assert here.log_in(fresh.partition("=")[2]) == 200
        assert link not in "".join(json.dumps(line) for line in here.broker.log() if "level" in line)


def test_a_killed_console_comes_back_and_the_broker_does_not_notice(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        (first,) = here.console_pids()
        os.kill(first, signal.SIGKILL)
        until(lambda: len(here.console_pids()) == 2, "the console is started again")
        until(lambda: here.ask("GET", "/healthz")[0] == 200, "it finds the broker again")
        assert here.broker.process is not None
        assert here.broker.process.poll() is None
        assert len([line for line in here.broker.log() if line["event"].startswith("console: ")]) == 1


def test_a_console_whose_broker_was_killed_while_it_started_ends_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "console").mkdir()
    options = ConsoleOptions(port=0, state_folder=tmp_path / "console")
    start = encode_start(ConsoleStart(options=options, history=None, log_format="json"))
    command = [sys.executable, "-m", "holdfast.node.processes.console_main"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(start.decode())
        process.stdin.flush()
        said = process.stderr.read()
        assert process.wait(60) == 0
    assert '"console is served"' in said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_console_ends_with_the_broker(tmp_path: Path, number: int) -> None:
    with place(tmp_path) as here:
        (console,) = here.console_pids()
        here.broker.end(number)
        until(lambda: not is_running(console), "the console has ended")


def test_a_port_in_use_does_not_stop_the_broker(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with place(first) as here:
        other = Place(second, f"console.port={here.console_port}")
        other.broker.start()
        try:
            until(lambda: other.broker.said("console cannot be served; the broker runs on"), "the port is named")
            why = other.broker.said("console cannot be served; the broker runs on")[0]["why"]
            assert f"--set console.port={here.console_port + 1}" in why
            here.broker.end()
            until(lambda: other.console_pids(), "the port is taken once it is free")
        finally:
            other.broker.end()


def test_the_processes_of_a_broker_and_the_readers_of_an_enabled_history_are_in_the_metrics(tmp_path: Path) -> None:
    ports = (f"history.flight_port={free_port()}", f"history.http_port={free_port()}")
    with place(tmp_path, "console.open_metrics=true", "history.enabled=true", *ports) as here:

        def told(sample: str) -> bool:
            return any(line.startswith(sample) for line in str(here.ask("GET", "/metrics")[1]).splitlines())

        # Nobody has asked for the past yet.
        until(lambda: told("holdfast_history_readers_busy 0"), "the readers are counted")
        for process in ("broker", "history", "console"):
            assert told(f'holdfast_process_resident_memory_bytes{{process="{process}"}} '), process
        assert told('holdfast_connections_opened_total{listener="default"} ')
        assert told('holdfast_console_requests_total{route="metrics",code="200"} ')
        assert told('holdfast_disk_state{state="ok"} ')
        assert told("holdfast_replays 0")


def test_the_console_of_a_stopped_folder_shows_the_past_and_changes_nothing(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="p")
        client.connect("127.0.0.1", here.port)
        client.loop_start()
        client.publish("a/b", b"hello", qos=1).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()
        here.broker.end()
        alone = Program(tmp_path / "console.log", "console", "--data", str(here.data), "--port", str(here.console_port))
        alone.start()
        try:
            until(lambda: alone.said("console is served"), "the console serves alone")
            link = holdfast("console", "open", "--data", str(here.data))
            assert here.log_in(link.partition("=")[2]) == 200
            assert here.ask("GET", "/api/v1/node")[1]["state"] == "away"
            status, answer = here.ask("GET", "/api/v1/history/messages?filter=a/%23&at=latest")
            assert (status, [message["topic"] for message in answer["messages"]]) == (200, [{"text": "a/b"}])
            assert here.ask("POST", "/api/v1/reload", {})[0] == 503
        finally:
            alone.end()
