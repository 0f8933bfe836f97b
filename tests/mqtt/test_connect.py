"""Connecting and leaving, by foreign clients and by raw bytes."""

import queue
import socket

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from holdfast.wire.packets import Disconnect, Publish, Will
from tests.mqtt.raw import RawClient

pytestmark = pytest.mark.compiled

VERSIONS = [MQTTProtocolVersion.MQTTv31, MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5]
Events = queue.Queue[tuple[str, ReasonCode]]


def start_paho(version: MQTTProtocolVersion, port: int) -> tuple[paho.Client, Events]:
    """A running paho client, and its callbacks as a queue.

    The callbacks know the queue alone: a cycle with the client would leave its sockets to the garbage collector.
    """
    events: Events = queue.Queue()
    client = paho.Client(CallbackAPIVersion.VERSION2, "paho", protocol=version, reconnect_on_failure=False)
    client.on_connect = lambda _client, _data, _flags, code, _properties: events.put(("connect", code))
    client.on_disconnect = lambda _client, _data, _flags, code, _properties: events.put(("disconnect", code))
    client.connect("127.0.0.1", port, keepalive=30)
    client.loop_start()
    return client, events


@pytest.mark.parametrize("version", VERSIONS)
def test_paho_connects_and_disconnects(version: MQTTProtocolVersion, broker_port: int) -> None:
    client, events = start_paho(version, broker_port)
    name, code = events.get(timeout=10)
    assert (name, code.is_failure) == ("connect", False)
    client.disconnect()
    name, code = events.get(timeout=10)
    assert (name, code.is_failure) == ("disconnect", False)
    client.loop_stop()


def test_a_client_whose_id_is_taken_over_is_told_so(broker_port: int) -> None:
    first, events = start_paho(MQTTProtocolVersion.MQTTv5, broker_port)
    assert events.get(timeout=10)[0] == "connect"
    second, second_events = start_paho(MQTTProtocolVersion.MQTTv5, broker_port)
    name, code = events.get(timeout=10)
    assert (name, code.value) == ("disconnect", 0x8E)
    name, code = second_events.get(timeout=10)
    assert (name, code.is_failure) == ("connect", False)
    second.disconnect()
    assert second_events.get(timeout=10)[0] == "disconnect"
    first.loop_stop()
    second.loop_stop()


def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes and read until the broker closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        while chunk := connection.recv(4096):
            received += chunk
        return received


CONNECT_V5 = bytes.fromhex("10 0e 0004 4d515454 05 02 003c 00 0001 61".replace(" ", ""))
CONNECT_V311 = bytes.fromhex("10 0d 0004 4d515454 04 02 003c 0001 61".replace(" ", ""))


def test_ping_and_disconnect_are_answered_by_the_book(broker_port: int) -> None:
    assert exchange(broker_port, CONNECT_V311 + b"\xc0\x00\xe0\x00") == b"\x20\x02\x00\x00\xd0\x00"


def test_a_publish_in_front_of_disconnect_is_acknowledged_before_the_connection_closes(broker_port: int) -> None:
    sent = CONNECT_V311 + b"\x32\x07\x00\x01a\x00\x07hi" + b"\xe0\x00"
    assert exchange(broker_port, sent) == b"\x20\x02\x00\x00\x40\x02\x00\x07"


def test_a_client_that_closes_right_behind_its_disconnect_has_no_will_published(broker_port: int) -> None:
    """[MQTT-3.14.4-3]; one that closes without a DISCONNECT has."""
    with RawClient(broker_port) as watcher:
        watcher.connect("watcher")
        watcher.subscribe("will/#")
        with RawClient(broker_port) as polite:
            polite.connect("polite", will=Will("will/polite", b""))
            polite.send(Disconnect())
        with RawClient(broker_port) as rude:
            rude.connect("rude", will=Will("will/rude", b""))
        assert watcher.expect(Publish).topic == "will/rude"


def test_a_publish_behind_its_connect_is_acknowledged(broker_port: int) -> None:
    """[MQTT-3.1.4-5]: a client need not wait for CONNACK."""
    with socket.create_connection(("127.0.0.1", broker_port), timeout=10) as connection:
        connection.sendall(CONNECT_V311 + b"\x32\x07\x00\x01a\x00\x07hi")
        expected = b"\x20\x02\x00\x00\x40\x02\x00\x07"
        received = b""
        while len(received) < len(expected) and (chunk := connection.recv(4096)):
            received += chunk
        assert received == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", b"", id="HTTP"),
        pytest.param(b"\xc0\x00", b"", id="MQTT-3.1.0-1 first packet is not CONNECT"),
        pytest.param(CONNECT_V311.replace(b"MQTT\x04", b"MQTT\x02"), b"\x20\x02\x00\x01", id="MQTT-3.1.2-2 level 2"),
        pytest.param(CONNECT_V311 + CONNECT_V311, b"\x20\x02\x00\x00", id="MQTT-3.1.0-2 second CONNECT"),
    ],
)
def test_violations_close_the_connection(sent: bytes, expected: bytes, broker_port: int) -> None:
    assert exchange(broker_port, sent) == expected


def test_a_level_of_the_future_is_refused_as_mqtt_5_does(broker_port: int) -> None:
    """[MQTT-3.1.2-2]"""
    answer = exchange(broker_port, CONNECT_V5.replace(b"MQTT\x05", b"MQTT\x06"))
    assert (answer[0], answer[2:4]) == (0x20, b"\x00\x84")


def test_an_mqtt_5_client_is_told_why(broker_port: int) -> None:
    answer = exchange(broker_port, CONNECT_V5 + CONNECT_V5)
    assert b"a second CONNECT" in answer
    assert answer[answer.index(b"\xe0") + 2] == 0x82
