"""How a broker ends: in peace, within a bound, at once; and what was acknowledged is there again each time."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import SERVER_SHUTTING_DOWN
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Publish, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.mqtt.raw import RawClient

Start = Callable[..., RunningBroker]

pytestmark = pytest.mark.slow

_KEPT = Properties(session_expiry_interval=3600)
_MESSAGES = 2000
#: The disk hangs when it is closed: so that the interpreter can go on, and so that it cannot.
_HANGS = "import time, holdfast.node.storage as s; s.DiskStorage.close = lambda self: time.sleep(600)"
_HOLDS = "import ctypes, holdfast.node.storage as s; s.DiskStorage.close = lambda self: ctypes.PyDLL(None).sleep(600)"


def settings(*, within_s: float = 10.0, durability: str = "fsync") -> str:
    return f"""
[listeners.default]
port = 0
[mqtt]
receive_maximum = 65535
[limits]
stop_timeout_s = {within_s}
[storage]
durability = "{durability}"
data = "data"
min_free_bytes = 0
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers on one data folder; those that a failed test leaves behind are killed."""
    started: list[RunningBroker] = []

    def begin(settings_toml: str, sabotage: str = "") -> RunningBroker:
        started.append(RunningBroker(tmp_path, settings_toml, sabotage=sabotage))
        return started[-1]

    yield begin
    for broker in started:
        if broker.process.poll() is None:
            broker.process.kill()
            ended(broker)


def connected(broker: RunningBroker, name: str, version: int = V5, *, kept: bool = False) -> RawClient:
    client = RawClient(broker.ports["default"], version)
    properties = _KEPT if kept else Properties()
    client.send(Connect(version, name, clean_start=not kept, properties=properties))
    assert client.expect(Connack).reason == 0
    return client


def subscribe_and_leave(broker: RunningBroker) -> None:
    with connected(broker, "keeper", kept=True) as keeper:
        keeper.subscribe("numbers", qos=1)
        keeper.send(Disconnect())
        assert keeper.receive() is None


def acknowledged(publisher: RawClient) -> set[int]:
    """What is acknowledged until the connection ends."""
    found = set()
    while (packet := publisher.receive()) is not None:
        if isinstance(packet, Ack):
            found.add(packet.packet_id)
    return found


def delivered(broker: RunningBroker, at_least: set[int]) -> set[int]:
    """What the keeper gets, until it has everything that it has to have."""
    found: set[int] = set()
    with connected(broker, "keeper", kept=True) as keeper:
        while not at_least <= found:
            packet = keeper.expect(Publish)
            found.add(int(packet.payload))
            keeper.send(Ack(4, packet.packet_id))
    return found


def ended(broker: RunningBroker, within_s: float = DEADLINE_S) -> int:
    """The status of a process that was told to end."""
    status = broker.process.wait(within_s)
    broker._reader.join(DEADLINE_S)
    assert broker.process.stderr is not None
    broker.process.stderr.close()
    return status


def test_clients_are_told_and_the_process_ends_in_peace(start: Start) -> None:
    broker = start(settings())
    with connected(broker, "five") as five, connected(broker, "three", V311) as three:
        broker.process.send_signal(signal.SIGINT)
        goodbye = five.expect(Disconnect)
        assert goodbye.reason == SERVER_SHUTTING_DOWN
        assert five.receive() is None
        assert three.receive() is None
        assert ended(broker) == 0
    assert broker.complaints() == []
    assert len(broker.events("stopped")) == 1


def test_a_client_that_never_reads_does_not_hold_up_the_end(start: Start) -> None:
    broker = start(settings(within_s=2))
    with connected(broker, "deaf") as deaf, connected(broker, "loud") as loud:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.subscribe("noise", qos=1)
        for number in range(1, 101):
            loud.send(Publish("noise", bytes(200_000), 1, number))
            loud.expect(Ack)
        broker.stop()
    assert len(broker.events("stopped")) == 1


def test_scans_for_retained_messages_hold_up_neither_the_signal_nor_the_end(start: Start) -> None:
    """A thousand filters that match none of thousands of topics take minutes, if they are looked at in one go."""
    broker = start(settings(within_s=5))
    with connected(broker, "keeper") as keeper, connected(broker, "looker") as looker:
        for number in range(8000):
            keeper.send(Publish(f"a/{number}/b", b"x", retain=True))
        assert keeper.ping() == []
        filters = tuple(Subscription(parse_filter(b"+/+/none-%d" % number), 1) for number in range(1000))
        looker.send(Subscribe(1, filters))
        broker.process.send_signal(signal.SIGTERM)
        assert ended(broker, within_s=10) == 0  # its bound, and as long for the process itself
    assert len(broker.events("stopped")) == 1


def test_what_was_sent_before_the_signal_is_acknowledged_or_not_stored_at_all(start: Start) -> None:
    """A second signal in the middle of the end takes nothing that was acknowledged (M9)."""
    broker = start(settings(), sabotage=_HANGS)
    subscribe_and_leave(broker)
    with connected(broker, "publisher") as publisher:
        publisher.send(*(Publish("numbers", b"%d" % number, 1, number) for number in range(1, _MESSAGES + 1)))
        publisher.expect(Ack)
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_for("stopping")
        broker.process.send_signal(signal.SIGTERM)
        assert ended(broker) == -signal.SIGTERM
        safe = acknowledged(publisher) | {1}
    assert broker.events("stopped") == []

    again = start(settings())
    assert safe <= delivered(again, safe)
    again.stop()


@pytest.mark.parametrize(
    ("sabotage", "durability", "status"),
    [(_HANGS, "os", 1), (_HOLDS, "fsync", -signal.SIGALRM)],
    ids=["the loop hangs", "the interpreter hangs"],
)
def test_a_disk_that_hangs_does_not_keep_the_process(start: Start, sabotage: str, durability: str, status: int) -> None:
    broker = start(settings(within_s=1, durability=durability), sabotage=sabotage)
    subscribe_and_leave(broker)
    with connected(broker, "publisher") as publisher:
        publisher.send(*(Publish("numbers", b"%d" % number, 1, number) for number in range(1, _MESSAGES + 1)))
        safe = {publisher.expect(Ack).packet_id for _ in range(_MESSAGES)}
        broker.process.send_signal(signal.SIGTERM)
        assert ended(broker) == status
    if status == 1:
        assert len(broker.events("the stop takes too long, the process ends now")) == 1

    again = start(settings(durability=durability))
    assert delivered(again, safe) == safe
    again.stop()
