"""Queues of a TBMQ, and the clients that they are for: each gets all of its messages from its first connection on."""

import queue
import threading
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from redis import Redis
from typer.testing import CliRunner

from bench.queues.redis_server import RedisServer
from holdfast.cli.main import app
from holdfast.storage.redis.options import RedisOptions
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.servers.test_tbmq_import import put

#: How many messages a client gets; its queue is longer than a page.
MESSAGES = 700


@pytest.fixture
def tbmq(redis: RedisServer) -> str:
    """The URL of a TBMQ with a client that is owed a PUBREL, and messages of QoS 1 and 2."""
    with Redis(port=redis.port, db=6) as raw:
        raw.flushdb()
        with raw.pipeline() as at_once:
            put(at_once, "device", 65_535, 65_535, "/w==", qos=2, packetType="PUBREL")
            for number in range(1, MESSAGES + 1):
                put(at_once, "device", 65_535 + number, number, "eA==", qos=1 + number % 2, topicName=f"t/{number}")
            put(at_once, "other", 1, 1, "eA==")
            at_once.execute()
    return redis.url.replace("/0", "/6")


class Device:
    """A paho client with a session that is kept."""

    def __init__(self, port: int, version: MQTTProtocolVersion) -> None:
        self.messages: queue.Queue[MQTTMessage] = queue.Queue()
        self.released = threading.Event()
        self.present: queue.Queue[bool] = queue.Queue()
        v5 = version == MQTTProtocolVersion.MQTTv5
        self._client = Client(
            CallbackAPIVersion.VERSION2, "device", clean_session=None if v5 else False, protocol=version
        )
        self._client.on_connect = lambda _client, _data, flags, _code, _properties: self.present.put(
            flags.session_present
        )
        self._client.on_message = lambda _client, _data, message: self.messages.put(message)
        self._client.on_log = lambda _client, _data, _level, text: self._read(text)
        if v5:
            self._client.connect("127.0.0.1", port, clean_start=False)
        else:
            self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _read(self, text: str) -> None:
        if text.startswith("Received PUBREL (Mid: 65535)"):
            self.released.set()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def check_device(port: int, version: MQTTProtocolVersion) -> None:
    """The client has its session, the PUBREL it is owed, and every message under the packet id that TBMQ gave it."""
    device = Device(port, version)
    try:
        assert device.present.get(timeout=DEADLINE_S) is True
        got = [device.messages.get(timeout=DEADLINE_S) for _message in range(MESSAGES)]
        assert device.released.wait(DEADLINE_S)
        for qos in (1, 2):  # paho hands out QoS 2 with PUBREL: in order among themselves
            wanted = [(f"t/{number}", number) for number in range(1, MESSAGES + 1) if 1 + number % 2 == qos]
            assert [(message.topic, message.mid) for message in got if message.qos == qos] == wanted
        assert device.messages.empty()
    finally:
        device.close()


def serve(folder: Path, options: RedisOptions) -> RunningBroker:
    return RunningBroker(
        folder,
        f"""
        [listeners.tcp]
        port = 0
        [storage]
        data = "{folder / "data"}"
        min_free_bytes = 0
        [sessions]
        queue = "redis"
        [redis]
        url = "{options.urls[0]}"
        prefix = "{options.prefix}"
        """,
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_a_client_receives_everything_that_was_imported_at_its_first_connection(
    tbmq: str, redis_options: RedisOptions, tmp_path: Path, version: MQTTProtocolVersion
) -> None:
    """P3, T8"""
    words = ["queue", "import-tbmq", "--to", "redis", "--from-redis", tbmq, "--resume", str(tmp_path / "resume.json")]
    for setting in (
        f"redis.url={redis_options.urls[0]}",
        f"redis.prefix={redis_options.prefix}",
        f"storage.data={tmp_path / 'data'}",
    ):
        words += ["--set", setting]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    broker = serve(tmp_path, redis_options)
    try:
        check_device(broker.ports["tcp"], version)
    finally:
        broker.stop()
