"""A real Mosquitto as bridge, `topic # both`: each message is once on the other side, and what is retained stays so."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.ports import free_port
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V311
from holdfast.wire.packets import Ack, Publish
from tests.mqtt.broker_process import DEADLINE_S
from tests.mqtt.conftest import StartBroker
from tests.mqtt.raw import RawClient
from tests.services import need

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

STATE = "$SYS/broker/connection/mosquitto.bridge/state"
STORED = '[storage]\ndata = "data"\n'


class Mosquitto:
    """A Mosquitto broker with one bridge, to a broker on `remote_port`."""

    def __init__(self, folder: Path, remote_port: int, version: str, more: str = "") -> None:
        self.port = free_port()
        config = folder / "mosquitto.conf"
        config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser root\nlog_dest stderr\nlog_type all\n"
            f"connection bridge\naddress 127.0.0.1:{remote_port}\nremote_clientid mosquitto.bridge\n"
            f"topic # both 2\nrestart_timeout 1\nbridge_protocol_version {version}\n{more}"
        )
        self.process = subprocess.Popen(
            [need("mosquitto", "mosquitto"), "-c", str(config)], stderr=subprocess.PIPE, text=True
        )
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()

    def wait_for(self, words: str, count: int = 1) -> None:
        """Wait until the log had these words so many times."""
        with self._news:
            found = self._news.wait_for(lambda: sum(words in line for line in self._lines) >= count, DEADLINE_S)
            assert found, "".join(self._lines)

    def bridged(self, count: int = 1) -> None:
        """Wait until the bridge is connected and has subscribed, for the `count`th time."""
        self.wait_for("Received SUBACK", count)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


StartBridge = Callable[..., Mosquitto]


@pytest.fixture
def start_bridge(tmp_path: Path) -> Iterator[StartBridge]:
    """Starts Mosquitto and waits until its bridge stands; the test's end kills it."""
    with ExitStack() as running:

        def start(remote_port: int, version: str = "mqttv311") -> Mosquitto:
            mosquitto = Mosquitto(tmp_path, remote_port, version)
            running.callback(lambda: None if mosquitto.process.returncode is not None else mosquitto.kill())
            mosquitto.bridged()
            return mosquitto

        yield start


class Subscriber(RawClient):
    """Collects messages, and acknowledges them."""

    def __init__(self, port: int, client_id: str, topic: str = "#") -> None:
        super().__init__(port, V311)
        self.got: list[tuple[str, bytes, int, bool]] = []
        assert self.connect(client_id).reason == 0
        assert self.subscribe(topic, qos=2) == (2,)

    def until(self, payload: bytes) -> list[tuple[str, bytes, int, bool]]:
        """Everything that came, up to the message with this payload."""
        while not self.got or self.got[-1][1] != payload:
            self.take_next()
        return self.got

    def take_next(self) -> None:
        """Handle one packet."""
        packet = self.receive()
        if isinstance(packet, Publish):
            self.got.append((packet.topic, packet.payload, packet.qos, packet.retain))
            if packet.qos:
                self.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            self.send(Ack(PUBCOMP, packet.packet_id))
        else:
            assert packet is not None, self.got


def publisher(port: int, client_id: str) -> RawClient:
    client = RawClient(port, V311)
    assert client.connect(client_id).reason == 0
    return client


@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv50"])
def test_each_message_is_once_on_the_other_side_of_a_bridge(
    version: str, start_broker: StartBroker, start_bridge: StartBridge
) -> None:
    broker = start_broker()
    mosquitto = start_bridge(broker.ports["tcp"], version)
    ports = {"here": broker.ports["tcp"], "there": mosquitto.port}
    with ExitStack() as open_clients:
        subscribers = {side: open_clients.enter_context(Subscriber(port, "sub")) for side, port in ports.items()}
        publishers = {side: open_clients.enter_context(publisher(port, "pub")) for side, port in ports.items()}
        expected: list[tuple[str, bytes, int, bool]] = []
        for side, other in (("here", "there"), ("there", "here")):
            for qos in (0, 1, 2):
                publishers[side].publish(f"from/{side}", b"%d" % qos, qos)
            last = f"last from {side}".encode()
            publishers[side].publish(f"from/{side}", last, 2)
            expected += [(f"from/{side}", b"%d" % qos, qos, False) for qos in (0, 1, 2)]
            expected += [(f"from/{side}", last, 2, False)]
            subscribers[side].until(last)
            subscribers[other].until(last)
        # What came back would have come before these: both ways of a bridge keep the order.
        for number, (side, other) in enumerate((("here", "there"), ("there", "here"), ("here", "there"))):
            payload = f"end {number}".encode()
            publishers[side].publish("end", payload, 2)
            subscribers[other].until(payload)
            expected += [("end", payload, 2, False)]
        for side in ports:
            assert subscribers[side].until(b"end 2") == expected


def retained(port: int) -> list[tuple[str, bytes, int, bool]]:
    """What a new subscription gets."""
    with Subscriber(port, "late", "kept/#") as late, publisher(port, "end") as client:
        client.publish("kept/end", b"end", 1)
        return sorted(late.until(b"end")[:-1])


@pytest.mark.parametrize("version", ["mqttv311", "mqttv50"])
def test_retained_messages_are_retained_on_the_other_side_of_a_bridge(
    version: str, start_broker: StartBroker, start_bridge: StartBridge
) -> None:
    """Those from before the bridge too, and a Mosquitto that lost its own has them back."""
    broker = start_broker(STORED)
    port = broker.ports["tcp"]
    with publisher(port, "early") as client:
        client.publish("kept/early", b"before the bridge", 1, retain=True)
    mosquitto = start_bridge(port, version)
    with Subscriber(mosquitto.port, "watch", "kept/#") as there, Subscriber(port, "watch", "kept/#") as here:
        with publisher(port, "here") as client:
            client.publish("kept/here", b"from here", 1, retain=True)
        there.until(b"from here")
        with publisher(mosquitto.port, "there") as client:
            client.publish("kept/there", b"from there", 1, retain=True)
        here.until(b"from there")
    kept = [
        ("kept/early", b"before the bridge", 1, True),
        ("kept/here", b"from here", 1, True),
        ("kept/there", b"from there", 1, True),
    ]
    assert retained(port) == kept
    assert retained(mosquitto.port) == kept
    mosquitto.kill()
    mosquitto = start_bridge(port, version)
    with Subscriber(mosquitto.port, "watch", "kept/#") as there:
        while len(there.got) < len(kept):
            there.take_next()
    assert retained(mosquitto.port) == kept


def test_the_state_of_a_bridge_can_be_read_and_its_will_tells_its_end(
    start_broker: StartBroker, start_bridge: StartBridge
) -> None:
    broker = start_broker(STORED)
    port = broker.ports["tcp"]
    mosquitto = start_bridge(port)
    with Subscriber(port, "watch", "$SYS/broker/connection/+/state") as watch:
        assert watch.until(b"1") == [(STATE, b"1", 1, True)]
        mosquitto.kill()
        assert watch.until(b"0")[1:] == [(STATE, b"0", 1, False)]
    with Subscriber(port, "late", "$SYS/broker/connection/+/state") as late:
        assert late.until(b"0") == [(STATE, b"0", 1, True)]
