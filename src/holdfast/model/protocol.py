"""Numbers fixed by the MQTT standards: protocol levels, packet types, qualities of service.

Plain `Final` integers rather than enums, because they are compared once per packet
and an enum member costs an object lookup each time.
"""

from typing import Final

# Protocol levels, as they stand in CONNECT.
V31: Final = 3
V311: Final = 4
V5: Final = 5

# Packet types: the high half of a packet's first byte.
CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15

#: Not a packet: the will inside CONNECT, which has its own property list. Uses the reserved type 0.
WILL: Final = 0

PACKET_NAMES: Final = (
    "will",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
)

# Who sent a packet; a bit each, so that a table can allow both.
CLIENT: Final = 1
SERVER: Final = 2
EITHER: Final = 3

QOS_0: Final = 0
QOS_1: Final = 1
QOS_2: Final = 2

#: Largest value of a variable byte integer, and so of a remaining length (four bytes of seven bits).
MAX_VARINT: Final = 268_435_455
#: Largest two-byte integer: the longest string, the highest packet id.
MAX_U16: Final = 65_535
#: Largest four-byte integer; as a session expiry interval it means "never".
MAX_U32: Final = 4_294_967_295
