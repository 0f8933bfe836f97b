"""A broker in a process of its own, with data on disk, and publishers that remember what they sent."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from holdfast.wire.properties import Properties
from tests.mqtt.broker_process import RunningBroker

#: No topics of the broker itself among those of the test.
SETTINGS = """
[listeners.tcp]
port = 0
[sys]
interval_s = 0
[storage]
data = "data"
min_free_bytes = 0
"""


@dataclass(frozen=True)
class Sent:
    """One message, as its publisher knows it."""

    topic: str
    payload: bytes = b""
    client_id: str = "device"
    qos: int = 1
    retain: bool = False
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    expiry_s: int | None = None


HISTORY = """
[history]
enabled = true
flight_port = 0
http_port = 0
"""


class Broker:
    """`holdfast serve` on a folder; every message that was published is acknowledged, and in `sent`."""

    def __init__(self, folder: Path, storage_toml: str = "", *, served: bool = False) -> None:
        """`storage_toml`: more settings, beginning inside of the table `storage`. `served`: by Flight, too."""
        self._served = served
        self.data = folder / "data"
        self.sent: list[Sent] = []
        self._folder = folder
        self._settings = self._settings_of(storage_toml)
        self._running: RunningBroker | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self.stop()

    @property
    def process(self) -> RunningBroker:
        assert self._running is not None, "the broker does not run"
        return self._running

    @property
    def where(self) -> dict[str, str]:
        """The option that leads to its history: by Flight, if it is served."""
        if not self._served:
            return {"path": str(self.data)}
        return {"endpoint": f"grpc://127.0.0.1:{self.process.wait_for('history is served')[-1]['flight_port']}"}

    def start(self) -> None:
        self._running = RunningBroker(self._folder, self._settings)

    def restart(self, storage_toml: str) -> None:
        """Stop, and start with other settings of `storage`."""
        self.stop()
        self._settings = self._settings_of(storage_toml)
        self.start()

    def _settings_of(self, storage_toml: str) -> str:
        return SETTINGS + storage_toml + (HISTORY if self._served else "")

    def stop(self) -> None:
        running, self._running = self.process, None
        running.stop()

    def kill(self) -> None:
        """kill -9."""
        running, self._running = self.process, None
        running.process.kill()
        running.process.wait()
        running._reader.join()
        assert running.process.stderr is not None
        running.process.stderr.close()

    def publish(self, messages: Iterable[Sent]) -> list[Sent]:
        """Publish in this order, each by its own client, and wait until all are acknowledged."""
        messages = list(messages)
        asyncio.run(self._publish(messages))
        self.sent += messages
        return messages

    async def _publish(self, messages: list[Sent]) -> None:
        port = self.process.ports["tcp"]
        for client_id, run in groupby(messages, key=lambda message: message.client_id):
            async with Client(ConnectionOptions(port=port, client_id=client_id, timeout_s=60.0)) as client:
                for message in run:
                    await client.publish(
                        message.topic,
                        message.payload,
                        message.qos,
                        retain=message.retain,
                        properties=_properties(message),
                    )
                await client.settle()


@contextmanager
def meanwhile(work: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Do something again and again, for as long as the block takes."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.is_set():
            work()
            ended.wait(pause_s)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _properties(message: Sent) -> Properties:
    return Properties(
        content_type=message.content_type,
        response_topic=message.response_topic,
        correlation_data=message.correlation_data,
        user_properties=message.user_properties,
        message_expiry_interval=message.expiry_s,
    )
