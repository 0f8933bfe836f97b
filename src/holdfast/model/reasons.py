"""MQTT 5 reason codes: one table with the name, the meaning, and where each may appear.

The decoder, the encoder, the MQTT 3 translation and the reference page read this table.
A code may have another name in another packet (0x00 is "Success" in PUBACK, "Granted QoS 0"
in SUBACK), so a row is a (code, packets) pair.
"""

from typing import Final

from holdfast.model.protocol import (
    AUTH,
    CLIENT,
    CONNACK,
    DISCONNECT,
    EITHER,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SERVER,
    SUBACK,
    UNSUBACK,
)

SUCCESS: Final = 0x00
NORMAL_DISCONNECTION: Final = 0x00
GRANTED_QOS_0: Final = 0x00
GRANTED_QOS_1: Final = 0x01
GRANTED_QOS_2: Final = 0x02
DISCONNECT_WITH_WILL: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION_EXISTED: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
RE_AUTHENTICATE: Final = 0x19
#: From here on a code means failure.
UNSPECIFIED_ERROR: Final = 0x80
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_SPECIFIC_ERROR: Final = 0x83
UNSUPPORTED_PROTOCOL_VERSION: Final = 0x84
CLIENT_IDENTIFIER_NOT_VALID: Final = 0x85
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
BANNED: Final = 0x8A
SERVER_SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90
PACKET_IDENTIFIER_IN_USE: Final = 0x91
PACKET_IDENTIFIER_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
TOPIC_ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
MESSAGE_RATE_TOO_HIGH: Final = 0x96
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_FORMAT_INVALID: Final = 0x99
RETAIN_NOT_SUPPORTED: Final = 0x9A
QOS_NOT_SUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0x9E
CONNECTION_RATE_EXCEEDED: Final = 0x9F
MAXIMUM_CONNECT_TIME: Final = 0xA0
SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: Final = 0xA1
WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0xA2

# Return codes of an MQTT 3 CONNACK.
V3_ACCEPTED: Final = 0
V3_UNACCEPTABLE_PROTOCOL: Final = 1
V3_IDENTIFIER_REJECTED: Final = 2
V3_SERVER_UNAVAILABLE: Final = 3
V3_BAD_USER_NAME_OR_PASSWORD: Final = 4
V3_NOT_AUTHORIZED: Final = 5

#: The failure code of an MQTT 3.1.1 SUBACK; equal to UNSPECIFIED_ERROR by the standard's design.
V3_SUBACK_FAILURE: Final = 0x80


class Reason:
    """One row of the table."""

    def __init__(self, code: int, name: str, packets: tuple[int, ...], meaning: str, sender: int = EITHER) -> None:
        self.code: Final = code
        self.name: Final = name
        #: Packet types that may carry it.
        self.packets: Final = packets
        #: Who may put it into a DISCONNECT; for the other packets see `_ONE_SIDED`.
        self.disconnect_sender: Final = sender
        self.meaning: Final = meaning


_PUBLISH_REPLIES: Final = (PUBACK, PUBREC)
_REFUSALS: Final = (CONNACK, PUBACK, PUBREC, SUBACK, UNSUBACK, DISCONNECT)
_ENDINGS: Final = (CONNACK, DISCONNECT)
_REPLIES: Final = (CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, UNSUBACK, AUTH)

REASONS: Final = (
    Reason(0x00, "Success", _REPLIES, "It was done."),
    Reason(0x00, "Normal disconnection", (DISCONNECT,), "Close the connection; the will is not published."),
    Reason(0x00, "Granted QoS 0", (SUBACK,), "Subscribed, at most QoS 0."),
    Reason(0x01, "Granted QoS 1", (SUBACK,), "Subscribed, at most QoS 1."),
    Reason(0x02, "Granted QoS 2", (SUBACK,), "Subscribed, at most QoS 2."),
    Reason(0x04, "Disconnect with Will Message", (DISCONNECT,), "Close, and publish the will.", CLIENT),
    Reason(0x10, "No matching subscribers", _PUBLISH_REPLIES, "Accepted; no client subscribes to it now."),
    Reason(0x11, "No subscription existed", (UNSUBACK,), "There was nothing to unsubscribe."),
    Reason(0x18, "Continue authentication", (AUTH,), "The next step of the exchange follows."),
    Reason(0x19, "Re-authenticate", (AUTH,), "Begin a new exchange on this connection."),
    Reason(0x80, "Unspecified error", _REFUSALS, "It failed and the reason is not told."),
    Reason(0x81, "Malformed Packet", _ENDINGS, "The bytes do not form a packet."),
    Reason(
        0x82, "Protocol Error", _ENDINGS, "A packet that is well formed came at a wrong time or with wrong contents."
    ),
    Reason(0x83, "Implementation specific error", _REFUSALS, "Valid, and not accepted by this implementation."),
    Reason(0x84, "Unsupported Protocol Version", (CONNACK,), "The protocol name or level is not one spoken here."),
    Reason(0x85, "Client Identifier not valid", (CONNACK,), "The client id is not allowed."),
    Reason(0x86, "Bad User Name or Password", (CONNACK,), "The credentials were not accepted."),
    Reason(0x87, "Not authorized", _REFUSALS, "Access rules do not allow it.", SERVER),
    Reason(0x88, "Server unavailable", (CONNACK,), "The server cannot take clients now."),
    Reason(0x89, "Server busy", _ENDINGS, "Try again later.", SERVER),
    Reason(0x8A, "Banned", (CONNACK,), "An administrator has banned this client."),
    Reason(0x8B, "Server shutting down", (DISCONNECT,), "The server stops.", SERVER),
    Reason(0x8C, "Bad authentication method", _ENDINGS, "The method is unknown or not the one in use.", SERVER),
    Reason(0x8D, "Keep Alive timeout", (DISCONNECT,), "Nothing came for one and a half keep-alive times.", SERVER),
    Reason(0x8E, "Session taken over", (DISCONNECT,), "A newer connection has the same client id.", SERVER),
    Reason(0x8F, "Topic Filter invalid", (SUBACK, UNSUBACK, DISCONNECT), "The filter is not accepted.", SERVER),
    Reason(0x90, "Topic Name invalid", (CONNACK, PUBACK, PUBREC, DISCONNECT), "The topic name is not accepted."),
    Reason(0x91, "Packet Identifier in use", (PUBACK, PUBREC, SUBACK, UNSUBACK), "The packet id is not free."),
    Reason(0x92, "Packet Identifier not found", (PUBREL, PUBCOMP), "The packet id is not known; normal after a loss."),
    Reason(0x93, "Receive Maximum exceeded", (DISCONNECT,), "More messages in flight than agreed."),
    Reason(0x94, "Topic Alias invalid", (DISCONNECT,), "The alias is 0 or too large."),
    Reason(0x95, "Packet too large", _ENDINGS, "The packet is larger than the receiver takes."),
    Reason(0x96, "Message rate too high", (DISCONNECT,), "Messages came faster than allowed."),
    Reason(0x97, "Quota exceeded", (CONNACK, PUBACK, PUBREC, SUBACK, DISCONNECT), "A limit was reached."),
    Reason(0x98, "Administrative action", (DISCONNECT,), "An administrator closed the connection."),
    Reason(0x99, "Payload format invalid", (CONNACK, PUBACK, PUBREC, DISCONNECT), "The payload is not what it claims."),
    Reason(0x9A, "Retain not supported", _ENDINGS, "Retained messages are switched off.", SERVER),
    Reason(0x9B, "QoS not supported", _ENDINGS, "The QoS is above the server's maximum.", SERVER),
    Reason(0x9C, "Use another server", _ENDINGS, "Use the server named, this time.", SERVER),
    Reason(0x9D, "Server moved", _ENDINGS, "Use the server named, from now on.", SERVER),
    Reason(0x9E, "Shared Subscriptions not supported", (SUBACK, DISCONNECT), "They are switched off.", SERVER),
    Reason(0x9F, "Connection rate exceeded", _ENDINGS, "Connects came faster than allowed.", SERVER),
    Reason(0xA0, "Maximum connect time", (DISCONNECT,), "The connection lasted as long as allowed.", SERVER),
    Reason(0xA1, "Subscription Identifiers not supported", (SUBACK, DISCONNECT), "They are switched off.", SERVER),
    Reason(0xA2, "Wildcard Subscriptions not supported", (SUBACK, DISCONNECT), "They are switched off.", SERVER),
)


#: What one side alone may send outside DISCONNECT: packet, code, sender (v5 3.15.2.1). "No matching subscribers"
#: means nothing from a client, but is one of the codes that [MQTT-3.4.2-1] lists, so it is let through.
_ONE_SIDED: Final = (
    (AUTH, SUCCESS, SERVER),
    (AUTH, RE_AUTHENTICATE, CLIENT),
)


def _allowed(sender: int) -> list[frozenset[int]]:
    """Codes by packet type that `sender` may send."""
    allowed: list[set[int]] = [set() for _type in range(16)]
    for row in REASONS:
        for packet in row.packets:
            if packet != DISCONNECT or row.disconnect_sender & sender:
                allowed[packet].add(row.code)
    for packet, code, only_sender in _ONE_SIDED:
        if not only_sender & sender:
            allowed[packet].discard(code)
    return [frozenset(codes) for codes in allowed]


_BY_CLIENT: Final = _allowed(CLIENT)
_BY_SERVER: Final = _allowed(SERVER)


def allowed_reasons(packet: int, sender: int) -> frozenset[int]:
    """The codes that `sender` may put into a packet of type `packet`."""
    return _BY_CLIENT[packet] if sender == CLIENT else _BY_SERVER[packet]


def reason_name(code: int, packet: int = 0) -> str:
    """The name of a code; with a packet type, the name it has there."""
    name = "Unknown reason"
    for row in REASONS:
        if row.code == code:
            if packet in row.packets:
                return row.name
            if name == "Unknown reason":
                name = row.name
    return name


def connack_v3(code: int) -> int:
    """The MQTT 3 CONNACK return code for a reason; -1 where the connection is just closed.

    Only six codes exist there, and a malformed CONNECT is answered by closing [MQTT-3.1.4-1].
    """
    if code == SUCCESS:
        return V3_ACCEPTED
    if code == UNSUPPORTED_PROTOCOL_VERSION:
        return V3_UNACCEPTABLE_PROTOCOL
    if code == CLIENT_IDENTIFIER_NOT_VALID:
        return V3_IDENTIFIER_REJECTED
    if code in (
        SERVER_UNAVAILABLE,
        SERVER_BUSY,
        QUOTA_EXCEEDED,
        CONNECTION_RATE_EXCEEDED,
        USE_ANOTHER_SERVER,
        SERVER_MOVED,
    ):
        return V3_SERVER_UNAVAILABLE
    if code == BAD_USER_NAME_OR_PASSWORD:
        return V3_BAD_USER_NAME_OR_PASSWORD
    if code in (NOT_AUTHORIZED, BANNED, BAD_AUTHENTICATION_METHOD):
        return V3_NOT_AUTHORIZED
    return -1
