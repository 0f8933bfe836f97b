"""Replays of foreign clients into the lake, with a real broker and a real history process, and through kills."""

import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.storage.rocks.log.leases import remove_lease
from tests.history.processes import DEADLINE_S, Broker, until
from tests.unit.pipeline.local_archive import archive
from tests.unit.storage.rocks.log_node import Node

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()")
OLD = 3_000
NEW = 200
#: Messages in flight to a client that is interrupted.
WINDOW = 20
#: Older than what is kept.
BEGIN_US = 1_700_000_000_000_000


def fill(data: Path) -> None:
    """Messages of long ago, in several generations."""
    node = Node(data, ManualClock(wall_us=BEGIN_US), shards=2, layout="paged")
    for first in range(0, OLD, 100):
        node.clock.advance(1_000_000)
        messages = [
            # The subscription decides which QoS they are sent with.
            Message(b"t/%d" % (number % 7), b"%d" % number, 2, ClientId("p"), node.clock.wall_us())
            for number in range(first, first + 100)
        ]
        node.taken(node.log.write(node.batch(messages)))
        node.settle()
        if first % 1_000 == 900:
            node.clock.advance(60_000_000)
            node.maintenance.rotate(node.zone)
            node.settle()
    node.log.close()


class Reader:
    """A client of the paho library, with MQTT 5, that acknowledges when it is told to."""

    def __init__(self, broker: Broker, name: str, *, window: int = 100, qos: int = 1) -> None:
        self.got: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.subscribed: queue.Queue[Properties | None] = queue.Queue()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5, manual_ack=True)
        self._client.on_message = lambda _client, _data, message: self.got.put(message)
        self._client.on_subscribe = lambda _client, _data, _id, _reasons, properties: self.subscribed.put(properties)
        self._qos = qos
        self._client.on_connect = lambda _client, _data, _flags, _reason, _properties: self._connected.put(None)
        self._connected: queue.Queue[None] = queue.Queue()
        self._taken: list[paho.MQTTMessage] = []
        self._options: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        self._options.SessionExpiryInterval = 600
        self._options.ReceiveMaximum = window
        self._connect(broker)

    def _connect(self, broker: Broker) -> None:
        until(lambda: connects_to(broker, self._client, self._options), "the broker takes connections")
        self._client.loop_start()
        self._connected.get(timeout=DEADLINE_S)

    def replay(self, text: str) -> dict[str, str]:
        """What SUBACK says."""
        self._client.subscribe(text, qos=self._qos)
        found = self.subscribed.get(timeout=DEADLINE_S)
        return dict(getattr(found, "UserProperty", []))

    def take(self, count: int) -> list[int]:
        """The numbers of so many messages."""
        found = []
        for _index in range(count):
            message = self.got.get(timeout=DEADLINE_S)
            found.append(int(message.payload))
            self._client.ack(message.mid, message.qos)
            self._taken.append(message)
        return found

    def come_back(self, broker: Broker) -> list[int]:
        """The numbers of messages that had come and were not taken: those of QoS 1 come again, the others are here.

        The client has the state of its session: a QoS 2 message that it knows is not delivered twice.
        """
        found = []
        while not self.got.empty():
            message = self.got.get()
            found.append(int(message.payload))
            self._taken.append(message)
        self._connect(broker)
        if self._qos == 2:
            # What the broker had not stored of these is asked for again, and the library does not answer.
            for message in self._taken[-2 * WINDOW :]:
                self._client.ack(message.mid, message.qos)
        return found

    def leave(self) -> None:
        """Without a word."""
        self._client.loop_stop()
        self._client._reset_sockets()  # those of its thread, too: they are made anew when it comes back

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def connects_to(broker: Broker, client: paho.Client, options: Properties) -> bool:
    try:
        client.connect("127.0.0.1", broker.port, clean_start=False, properties=options)
    except OSError:
        return False
    return True


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    lake = tmp_path / "lake"
    broker = Broker(tmp_path, f"history.lake={lake}", "storage.shards=2", "sys.interval_s=1")
    fill(broker.data)
    archive(broker.data, lake, batch_rows=700)
    remove_lease(broker.data, "archive-main")
    yield broker
    if broker.process is not None:
        assert broker.end() == 0


def started(broker: Broker) -> None:
    """It runs, retention has dropped all that is old, and something new is there."""
    broker.start()
    broker.publish("t/new", [b"%d" % number for number in range(OLD, OLD + NEW)])
    until(lambda: len(broker.said("generation dropped")) >= 3, "retention drops what is archived")


def everything() -> list[int]:
    return list(range(OLD + NEW))


def test_a_foreign_client_replays_the_lake_and_the_log_as_one(broker: Broker) -> None:
    started(broker)
    reader = Reader(broker, "reader")
    told = reader.replay("$replay/earliest/t/+")
    assert int(told["replay-lake"]) > BEGIN_US
    assert reader.take(OLD + NEW) == everything()
    broker.publish("t/live", [b"-1"])
    assert reader.take(1) == [-1]
    reader.close()
    counts = Reader(broker, "counts")
    counts.replay("$SYS/broker/replays/lake/messages")
    while counts.take(1) != [OLD]:
        pass
    counts.close()


def test_a_kill_of_the_history_process_in_the_middle_costs_a_replay_nothing(broker: Broker) -> None:
    started(broker)
    reader = Reader(broker, "reader")
    reader.replay("$replay/earliest/t/+")
    got = reader.take(700)
    os.kill(broker.history_pids()[-1], signal.SIGKILL)
    got += reader.take(OLD + NEW - 700)
    assert got == everything()
    assert len(broker.history_pids()) == 2
    reader.close()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_broker_killed_in_the_middle_goes_on_with_the_replay_of_a_session(broker: Broker, qos: int) -> None:
    started(broker)
    reader = Reader(broker, "reader", window=WINDOW, qos=qos)
    reader.replay("$replay/earliest/t/+")
    got = reader.take(500)
    broker.end(signal.SIGKILL)
    reader.leave()
    broker.start()
    delivered = reader.come_back(broker)
    if qos == 2:
        got += delivered
    came: list[int] = []
    while len({*got, *came}) < OLD + NEW:
        came += reader.take(1)
    broker.publish("t/live", [b"-1"])
    while came[-1] != -1:
        came += reader.take(1)
    came.remove(-1)
    if qos == 1:
        assert not set(got[:250]) & set(came), "what was done well before the kill comes again"
        came = list(dict.fromkeys(came))
    else:
        assert sorted(got + came) == everything(), "once"
    # Order is that of one QoS.
    for part in ([one for one in came if one < OLD], [one for one in came if one >= OLD]):
        assert part == sorted(part)
    reader.close()


def test_a_session_that_was_away_goes_on_with_its_replay(broker: Broker) -> None:
    started(broker)
    reader = Reader(broker, "reader", window=WINDOW)
    reader.replay("$replay/earliest/t/+")
    got = reader.take(500)
    reader.leave()
    reader.come_back(broker)
    came = reader.take(1)
    while came[-1] != OLD + NEW - 1:
        came += reader.take(1)
    # What was acknowledged last may not have reached the broker.
    assert not set(got[:-WINDOW]) & set(came)
    assert sorted({*got, *came}) == everything()
    assert came == sorted(set(came)), "once on this connection, and in order"
    reader.close()


def test_without_its_lake_a_replay_has_the_log_and_the_events_say_why(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "lake").rename(tmp_path / "elsewhere")
    started(broker)
    reader = Reader(broker, "reader")
    reader.replay(f"$replay/{BEGIN_US}/t/+")
    assert reader.take(NEW) == list(range(OLD, OLD + NEW))
    told = reader.replay(f"$replay/{BEGIN_US}/t/#")
    assert told["replay-lake-state"] == "away"
    assert str(tmp_path) not in str(told)

    def events() -> str:
        command = [*COMMAND, "events", "--data", str(broker.data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, env=broker.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    until(lambda: "lake_away" in events(), "the event is stored")
    explained = subprocess.run(
        [*COMMAND, "explain", "--json", "--client", "reader", "--topic", "t/#", "--data", str(broker.data)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=broker.environment,
        check=True,
    )
    assert "lake_away" in explained.stdout
    assert "is no lake" in explained.stdout
    reader.close()
