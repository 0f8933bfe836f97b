"""MQTT.js, in one Node process for all its connections; `mqttjs_bridge.cjs` is its other end."""

import base64
import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.mqtt.broker_process import DEADLINE_S
from tests.mqtt.clients.contract import HOST, WEBSOCKET_PATH, Note, Terms, Way
from tests.npm_packages import npm_package
from tests.services import need

VERSION = "5.16.0"
BRIDGE = Path(__file__).with_name("mqttjs_bridge.cjs")

PROTOCOLS = {"3.1": 3, "3.1.1": 4, "5": 5}
SCHEMES = {"tcp": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}


def _plain(note: Note) -> dict[str, Any]:
    correlation = note.correlation_data
    return {
        **asdict(note),
        "payload": base64.b64encode(note.payload).decode(),
        "correlation_data": None if correlation is None else base64.b64encode(correlation).decode(),
    }


def _note(plain: dict[str, Any]) -> Note:
    correlation = plain["correlation_data"]
    plain["payload"] = base64.b64decode(plain["payload"])
    plain["correlation_data"] = None if correlation is None else base64.b64decode(correlation)
    plain["user_properties"] = tuple((name, value) for name, value in plain["user_properties"])
    return Note(**plain)


class Bridge:
    """The Node process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._numbers = 0
        self._answers: dict[int, queue.Queue[str | None]] = {}
        self.notes: dict[int, queue.Queue[Note]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def open(self) -> int:
        self._numbers += 1
        self.notes[self._numbers] = queue.Queue()
        return self._numbers

    def ask(self, client: int, act: str, **order: Any) -> None:
        self._numbers += 1
        number = self._numbers
        answer = self._answers[number] = queue.Queue()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"number": number, "client": client, "act": act, **order}) + "\n")
        self._process.stdin.flush()
        assert answer.get(timeout=DEADLINE_S) is None

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(DEADLINE_S) == 0
        self._reader.join(DEADLINE_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "note" in said:
                self.notes[said["client"]].put(_note(said["note"]))
            else:
                self._answers[said["number"]].put(said["error"])


class MqttJsClient:
    def __init__(self, bridge: Bridge, way: Way, terms: Terms) -> None:
        self._bridge = bridge
        self._number = bridge.open()
        bridge.ask(
            self._number,
            "connect",
            url=f"{SCHEMES[way.transport]}://{HOST}:{way.port}{WEBSOCKET_PATH if way.web else ''}",
            version=PROTOCOLS[way.version],
            authority=str(way.authority) if way.secure else None,
            client_id=terms.client_id,
            clean=terms.clean,
            keep=terms.keep,
            will=None if terms.will is None else _plain(terms.will),
        )

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self._bridge.ask(self._number, "subscribe", filter=topic_filter, qos=qos)

    def publish(self, note: Note) -> None:
        self._bridge.ask(self._number, "publish", note=_plain(note))

    def receive(self) -> Note:
        return self._bridge.notes[self._number].get(timeout=DEADLINE_S)

    def disconnect(self) -> None:
        self._bridge.ask(self._number, "disconnect")

    def drop(self) -> None:
        self._bridge.ask(self._number, "drop")


class MqttJs:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def connect(self, way: Way, terms: Terms) -> MqttJsClient:
        return MqttJsClient(self._bridge, way, terms)


@contextmanager
def running() -> Iterator[MqttJs]:
    """The library, as long as the block lasts."""
    package = npm_package("mqtt", VERSION)
    command = [need("node", "nodejs"), str(BRIDGE), str(package)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        bridge = Bridge(process)
        yield MqttJs(bridge)
        bridge.close()
