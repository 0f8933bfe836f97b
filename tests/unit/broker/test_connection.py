"""One connection without I/O: what is answered, and when it is closed."""

import pytest

from holdfast.broker.connection import CONNECT_DEADLINE_US, LIMIT_BYTES, Connection
from holdfast.model.clock import ManualClock
from holdfast.model.protocol import SERVER, V5, V31, V311
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Connect, Disconnect, Packet, Pingreq, Pingresp, Publish

pytestmark = pytest.mark.compiled

VERSIONS = [V31, V311, V5]


class Client:
    """The other end of a connection."""

    def __init__(self, version: int) -> None:
        self.clock = ManualClock()
        self.connection = Connection(self.clock, "assigned")
        self.version = version
        self.framer = Framer()

    def send(self, packet: Packet) -> list[Packet]:
        self.connection.receive(encode(packet, self.version))
        return self.answers()

    def answers(self) -> list[Packet]:
        return decode_all(self.framer, self.connection.take_output(), self.version, SERVER)


@pytest.mark.parametrize("version", VERSIONS)
def test_connect_and_ping_are_answered_and_disconnect_closes(version: int) -> None:
    client = Client(version)
    (connack,) = client.send(Connect(version, "c"))
    assert isinstance(connack, Connack)
    assert connack.reason == 0
    assert client.send(Pingreq()) == [Pingresp()]
    assert client.send(Disconnect()) == []
    assert client.connection.closed
    assert client.connection.complaint == ""


def test_an_mqtt_5_client_without_an_id_is_given_one() -> None:
    (connack,) = Client(V5).send(Connect(V5, ""))
    assert isinstance(connack, Connack)
    assert connack.properties.assigned_client_identifier == "assigned"


def test_what_is_not_served_is_refused_with_a_reason() -> None:
    client = Client(V5)
    client.send(Connect(V5, "c"))
    (answer,) = client.send(Publish("a", b"x"))
    assert isinstance(answer, Disconnect)
    assert answer.reason == 0x83
    assert "PUBLISH is not served yet" in (answer.properties.reason_string or "")
    assert client.connection.closed


def test_an_mqtt_3_client_is_closed_without_a_packet_it_does_not_know() -> None:
    client = Client(V311)
    client.send(Connect(V311, "c"))
    assert client.send(Publish("a", b"x")) == []
    assert client.connection.closed


def test_nothing_is_answered_after_the_connection_closed() -> None:
    client = Client(V5)
    client.send(Connect(V5, "c"))
    client.send(Disconnect())
    assert client.send(Pingreq()) == []


def test_a_refused_mqtt_5_connect_is_told_the_reason_in_connack() -> None:
    client = Client(V5)
    client.connection.receive(encode(Connect(V5, "c"), V5).replace(b"MQTT\x05\x02", b"MQTT\x05\x03"))
    (connack,) = client.answers()
    assert isinstance(connack, Connack)
    assert connack.reason == 0x81
    assert "reserved" in (connack.properties.reason_string or "")


def test_an_empty_client_id_is_rejected_for_mqtt_3_with_clean_session_off() -> None:
    client = Client(V311)
    assert client.send(Connect(V311, "", clean_start=False)) == [Connack(2)]


def test_a_packet_above_the_limit_is_refused_before_it_arrives() -> None:
    client = Client(V5)
    client.send(Connect(V5, "c"))
    client.connection.receive(b"\x30\xff\xff\xff\x7f")
    (answer,) = client.answers()
    assert isinstance(answer, Disconnect)
    assert answer.reason == 0x95
    assert str(LIMIT_BYTES) in (answer.properties.reason_string or "")


def test_a_client_that_never_connects_is_closed() -> None:
    client = Client(V5)
    assert client.connection.check_silence() == CONNECT_DEADLINE_US
    client.clock.advance(CONNECT_DEADLINE_US)
    assert client.connection.check_silence() == 0
    assert client.connection.closed


def test_a_silent_client_is_closed_after_one_and_a_half_keep_alives() -> None:
    client = Client(V5)
    client.send(Connect(V5, "c", keep_alive_s=10))
    client.clock.advance(14_999_999)
    assert client.connection.check_silence() == 1
    client.send(Pingreq())
    assert client.connection.check_silence() == 15_000_000
    client.clock.advance(15_000_000)
    assert client.connection.check_silence() == 0
    (answer,) = client.answers()
    assert isinstance(answer, Disconnect)
    assert answer.reason == 0x8D


def test_keep_alive_zero_means_no_limit() -> None:
    client = Client(V5)
    client.send(Connect(V5, "c", keep_alive_s=0))
    client.clock.advance(10**12)
    assert client.connection.check_silence() == 0
    assert not client.connection.closed
