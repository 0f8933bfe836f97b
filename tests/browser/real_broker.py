"""A real broker with its console for tests of the page, and clients of it."""

from __future__ import annotations

import json
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import paho.mqtt.client as mqtt
import psutil  # type: ignore[import-untyped]
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench.ports import free_port
from holdfast.console.access.one_time_links import login_address, make_link
from holdfast.node.processes.console_main import ADDRESS_FILE
from holdfast.node.processes.console_supervisor import STATE_FOLDER
from tests.history.processes import until

_SERVE: Final = "from holdfast.cli.main import main; main()"
_HISTORY: Final = "holdfast.node.processes.history_main"


class Broker:
    """A process of `holdfast serve`, and the link that its console printed."""

    def __init__(self, folder: Path, *settings: str) -> None:
        """`settings` are files of users or tokens, such as `console.user_file=…`."""
        self.port, console_port = free_port(), free_port()
        self.data: Final = folder / "data"
        words = [
            "serve",
            "--data",
            str(self.data),
            "--port",
            str(self.port),
            "--set",
            f"console.port={console_port}",
            "--set",
            "console.enabled=true",  # tests switch it off for all others
            *(word for setting in settings for word in ("--set", setting)),
        ]
        self._errors: Final = (folder / "errors").open("wb")
        self.process: Final = subprocess.Popen(
            [sys.executable, "-c", _SERVE, *words], stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        # It prints a link only while nobody has another way in.
        self.link: Final = self._make_link() if settings else self._read_link()

    @property
    def address(self) -> str:
        return self.link.partition("/login")[0]

    def reload(self) -> None:
        """Have files read again, as an administrator does."""
        self.process.send_signal(signal.SIGHUP)

    @contextmanager
    def slow_history(self) -> Iterator[None]:
        """The history process, which runs, gets a twenty-fifth of the time: counting takes long on every machine."""
        (history,) = [
            child for child in psutil.Process(self.process.pid).children(recursive=True) if _HISTORY in child.cmdline()
        ]
        ended = threading.Event()

        def hold_back() -> None:
            while not ended.is_set():
                history.suspend()
                ended.wait(0.048)
                history.resume()
                ended.wait(0.002)

        holding = threading.Thread(target=hold_back)
        holding.start()
        try:
            yield
        finally:
            ended.set()
            holding.join()

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()
        self._errors.close()

    def _make_link(self) -> str:
        folder = self.data / STATE_FOLDER
        until((folder / ADDRESS_FILE).exists, "the console is served")
        assert self.process.stdout is not None
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return login_address(json.loads((folder / ADDRESS_FILE).read_text())["url"], make_link(folder))

    def _read_link(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://\S+/login#token=\S+", line):
                # What it prints from now on is read by nobody, and must not fill the pipe.
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return found[0]
        raise AssertionError("the broker ended before its console was served")


def refusal(broker: Broker, name: str) -> int:
    """The reason code by which a client is answered that connects; 0 if it is let in."""
    answered: queue.Queue[int] = queue.Queue()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5, reconnect_on_failure=False)
    client.on_connect = lambda _client, _user, _flags, reason, _properties: answered.put(reason.value)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        return answered.get(timeout=30)
    finally:
        client.disconnect()
        client.loop_stop()


class Client:
    """An MQTT client that does not come back when its connection is ended."""

    def __init__(self, broker: Broker, name: str, topic_filter: str = "plant/#", expiry_s: int = 0) -> None:
        self.gone: Final = threading.Event()
        subscribed = threading.Event()
        self._client: Final = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5, reconnect_on_failure=False
        )
        self._client.on_disconnect = lambda *_given: self.gone.set()
        self._client.on_subscribe = lambda *_given: subscribed.set()
        #: Topics and payloads in the order in which they came.
        self.received: Final[queue.Queue[tuple[str, bytes]]] = queue.Queue()
        self._client.on_message = lambda _client, _user, message: self.received.put(
            (message.topic, bytes(message.payload))
        )
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = expiry_s
        self._client.connect("127.0.0.1", broker.port, clean_start=not expiry_s, properties=properties)
        self._client.loop_start()
        self._client.subscribe(topic_filter, 1)
        assert subscribed.wait(30)

    def publish(self, topic: str, payload: bytes) -> None:
        self._client.publish(topic, payload, qos=1).wait_for_publish(30)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
