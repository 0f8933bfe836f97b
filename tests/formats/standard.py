"""What the MQTT 5 standard says in its tables, typed from there and from nowhere else.

Tests hold the code's own tables against these, so nothing here may be derived from the code but the packet numbers.
"""

from dataclasses import dataclass

from holdfast.model.protocol import CLIENT, EITHER, SERVER

#: Section 2.1.2: control packet types. "Will" is not one: it has a property list of its own, inside CONNECT.
PACKET_TYPES = {
    "CONNECT": 1,
    "CONNACK": 2,
    "PUBLISH": 3,
    "PUBACK": 4,
    "PUBREC": 5,
    "PUBREL": 6,
    "PUBCOMP": 7,
    "SUBSCRIBE": 8,
    "SUBACK": 9,
    "UNSUBSCRIBE": 10,
    "UNSUBACK": 11,
    "PINGREQ": 12,
    "PINGRESP": 13,
    "DISCONNECT": 14,
    "AUTH": 15,
}

#: Section 2.1.2: direction of flow. What is missing may come from both sides.
FROM_CLIENT_ONLY = ("CONNECT", "SUBSCRIBE", "UNSUBSCRIBE", "PINGREQ")
FROM_SERVER_ONLY = ("CONNACK", "SUBACK", "UNSUBACK", "PINGRESP")


@dataclass(frozen=True)
class Property:
    """A row of table 2-4, with a value that is allowed wherever the property is."""

    identifier: int
    name: str
    #: An example as it stands on the wire behind the identifier, and what it means.
    wire: str
    value: object
    places: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def encoded(self) -> bytes:
        """The example with its identifier; authentication data needs a method in front of it."""
        own = bytes((self.identifier,)) + bytes.fromhex(self.wire)
        return bytes.fromhex("15 00 01 6D") + own if self.name == "authentication_data" else own


def _row(identifier: int, name: str, wire: str, value: object, places: str) -> Property:
    return Property(identifier, name, wire, value, tuple(places.split()))


_ANSWERS = "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH"

#: Section 2.2.2.2.
PROPERTIES = [
    _row(0x01, "payload_format_indicator", "01", 1, "PUBLISH Will"),
    _row(0x02, "message_expiry_interval", "00 00 01 00", 256, "PUBLISH Will"),
    _row(0x03, "content_type", "00 01 63", "c", "PUBLISH Will"),
    _row(0x08, "response_topic", "00 01 72", "r", "PUBLISH Will"),
    _row(0x09, "correlation_data", "00 01 FF", b"\xff", "PUBLISH Will"),
    _row(0x0B, "subscription_identifiers", "80 01", (128,), "PUBLISH SUBSCRIBE"),
    _row(0x11, "session_expiry_interval", "00 00 00 01", 1, "CONNECT CONNACK DISCONNECT"),
    _row(0x12, "assigned_client_identifier", "00 01 61", "a", "CONNACK"),
    _row(0x13, "server_keep_alive", "00 0A", 10, "CONNACK"),
    _row(0x15, "authentication_method", "00 01 6D", "m", "CONNECT CONNACK AUTH"),
    _row(0x16, "authentication_data", "00 01 FF", b"\xff", "CONNECT CONNACK AUTH"),
    _row(0x17, "request_problem_information", "00", 0, "CONNECT"),
    _row(0x18, "will_delay_interval", "00 00 00 05", 5, "Will"),
    _row(0x19, "request_response_information", "01", 1, "CONNECT"),
    _row(0x1A, "response_information", "00 01 69", "i", "CONNACK"),
    _row(0x1C, "server_reference", "00 01 73", "s", "CONNACK DISCONNECT"),
    _row(0x1F, "reason_string", "00 01 77", "w", _ANSWERS),
    _row(0x21, "receive_maximum", "00 14", 20, "CONNECT CONNACK"),
    _row(0x22, "topic_alias_maximum", "00 0A", 10, "CONNECT CONNACK"),
    _row(0x23, "topic_alias", "00 07", 7, "PUBLISH"),
    _row(0x24, "maximum_qos", "00", 0, "CONNACK"),
    _row(0x25, "retain_available", "00", 0, "CONNACK"),
    _row(
        0x26,
        "user_properties",
        "00 01 6B 00 01 76",
        (("k", "v"),),
        _ANSWERS + " CONNECT PUBLISH Will SUBSCRIBE UNSUBSCRIBE",
    ),
    _row(0x27, "maximum_packet_size", "00 01 00 00", 65_536, "CONNECT CONNACK"),
    _row(0x28, "wildcard_subscription_available", "00", 0, "CONNACK"),
    _row(0x29, "subscription_identifiers_available", "00", 0, "CONNACK"),
    _row(0x2A, "shared_subscription_available", "00", 0, "CONNACK"),
]

#: Places with a property list.
PLACES = sorted({place for row in PROPERTIES for place in row.places})

#: Section 2.4: code, name, packets.
REASONS = [
    (0x00, "Success", "CONNACK PUBACK PUBREC PUBREL PUBCOMP UNSUBACK AUTH"),
    (0x00, "Normal disconnection", "DISCONNECT"),
    (0x00, "Granted QoS 0", "SUBACK"),
    (0x01, "Granted QoS 1", "SUBACK"),
    (0x02, "Granted QoS 2", "SUBACK"),
    (0x04, "Disconnect with Will Message", "DISCONNECT"),
    (0x10, "No matching subscribers", "PUBACK PUBREC"),
    (0x11, "No subscription existed", "UNSUBACK"),
    (0x18, "Continue authentication", "AUTH"),
    (0x19, "Re-authenticate", "AUTH"),
    (0x80, "Unspecified error", "CONNACK PUBACK PUBREC SUBACK UNSUBACK DISCONNECT"),
    (0x81, "Malformed Packet", "CONNACK DISCONNECT"),
    (0x82, "Protocol Error", "CONNACK DISCONNECT"),
    (0x83, "Implementation specific error", "CONNACK PUBACK PUBREC SUBACK UNSUBACK DISCONNECT"),
    (0x84, "Unsupported Protocol Version", "CONNACK"),
    (0x85, "Client Identifier not valid", "CONNACK"),
    (0x86, "Bad User Name or Password", "CONNACK"),
    (0x87, "Not authorized", "CONNACK PUBACK PUBREC SUBACK UNSUBACK DISCONNECT"),
    (0x88, "Server unavailable", "CONNACK"),
    (0x89, "Server busy", "CONNACK DISCONNECT"),
    (0x8A, "Banned", "CONNACK"),
    (0x8B, "Server shutting down", "DISCONNECT"),
    (0x8C, "Bad authentication method", "CONNACK DISCONNECT"),
    (0x8D, "Keep Alive timeout", "DISCONNECT"),
    (0x8E, "Session taken over", "DISCONNECT"),
    (0x8F, "Topic Filter invalid", "SUBACK UNSUBACK DISCONNECT"),
    (0x90, "Topic Name invalid", "CONNACK PUBACK PUBREC DISCONNECT"),
    (0x91, "Packet Identifier in use", "PUBACK PUBREC SUBACK UNSUBACK"),
    (0x92, "Packet Identifier not found", "PUBREL PUBCOMP"),
    (0x93, "Receive Maximum exceeded", "DISCONNECT"),
    (0x94, "Topic Alias invalid", "DISCONNECT"),
    (0x95, "Packet too large", "CONNACK DISCONNECT"),
    (0x96, "Message rate too high", "DISCONNECT"),
    (0x97, "Quota exceeded", "CONNACK PUBACK PUBREC SUBACK DISCONNECT"),
    (0x98, "Administrative action", "DISCONNECT"),
    (0x99, "Payload format invalid", "CONNACK PUBACK PUBREC DISCONNECT"),
    (0x9A, "Retain not supported", "CONNACK DISCONNECT"),
    (0x9B, "QoS not supported", "CONNACK DISCONNECT"),
    (0x9C, "Use another server", "CONNACK DISCONNECT"),
    (0x9D, "Server moved", "CONNACK DISCONNECT"),
    (0x9E, "Shared Subscriptions not supported", "SUBACK DISCONNECT"),
    (0x9F, "Connection rate exceeded", "CONNACK DISCONNECT"),
    (0xA0, "Maximum connect time", "DISCONNECT"),
    (0xA1, "Subscription Identifiers not supported", "SUBACK DISCONNECT"),
    (0xA2, "Wildcard Subscriptions not supported", "SUBACK DISCONNECT"),
]

#: Section 3.14.2.1, table 3-10: who may send a reason in DISCONNECT. Bad authentication method (0x8C) is missing
#: there although section 2.4 places it in DISCONNECT; as it answers a client's method, it is a server's.
DISCONNECT_SENDERS = {
    0x00: EITHER,
    0x04: CLIENT,
    0x80: EITHER,
    0x81: EITHER,
    0x82: EITHER,
    0x83: EITHER,
    0x87: SERVER,
    0x89: SERVER,
    0x8B: SERVER,
    0x8C: SERVER,
    0x8D: SERVER,
    0x8E: SERVER,
    0x8F: SERVER,
    0x90: EITHER,
    0x93: EITHER,
    0x94: EITHER,
    0x95: EITHER,
    0x96: EITHER,
    0x97: EITHER,
    0x98: EITHER,
    0x99: EITHER,
    0x9A: SERVER,
    0x9B: SERVER,
    0x9C: SERVER,
    0x9D: SERVER,
    0x9E: SERVER,
    0x9F: SERVER,
    0xA0: SERVER,
    0xA1: SERVER,
    0xA2: SERVER,
}

#: Section 3.15.2.1, table 3-11: the same for AUTH.
AUTH_SENDERS = {0x00: SERVER, 0x18: EITHER, 0x19: CLIENT}
