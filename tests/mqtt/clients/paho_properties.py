"""What paho has and aiomqtt shares: properties of MQTT 5, and the socket."""

import socket
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.mqtt.clients.contract import Note, Terms

#: Seconds that a kept session lives.
KEPT_S = 600


def properties_of(note: Note, kind: int = PacketTypes.PUBLISH) -> Properties:
    properties = Properties(kind)  # type: ignore[no-untyped-call]
    if note.content_type is not None:
        properties.ContentType = note.content_type
    if note.response_topic is not None:
        properties.ResponseTopic = note.response_topic
    if note.correlation_data is not None:
        properties.CorrelationData = note.correlation_data
    if note.expiry_s is not None:
        properties.MessageExpiryInterval = note.expiry_s
    if note.user_properties:
        properties.UserProperty = list(note.user_properties)
    return properties


def shut(client: Client) -> None:
    """Cut the connection of a client, without a word: what TLS has for a goodbye is passed over."""
    found: Any = client.socket()
    socket.socket.shutdown(getattr(found, "_socket", found), socket.SHUT_RDWR)


def connect_properties(terms: Terms) -> Properties:
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    if terms.keep:
        properties.SessionExpiryInterval = KEPT_S
    return properties


def note_of(topic: str, message: MQTTMessage, properties: Properties | None) -> Note:
    def get(name: str) -> object:
        return getattr(properties, name, None)

    content, response, correlation, expiry = map(
        get, ("ContentType", "ResponseTopic", "CorrelationData", "MessageExpiryInterval")
    )
    assert isinstance(content, str | None)
    assert isinstance(response, str | None)
    assert isinstance(correlation, bytes | None)
    assert isinstance(expiry, int | None)
    pairs = get("UserProperty") or ()
    assert isinstance(pairs, list | tuple)
    return Note(
        topic,
        bytes(message.payload),
        message.qos,
        bool(message.retain),
        content,
        response,
        correlation,
        expiry,
        tuple((name, value) for name, value in pairs),
    )
