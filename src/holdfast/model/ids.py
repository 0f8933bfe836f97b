"""Identifiers as distinct types, so that mypy tells a client id from a topic."""

from typing import Final, NewType

ClientId = NewType("ClientId", str)

#: 0 is no packet id [MQTT-2.2.1-3].
FIRST_PACKET_ID: Final = 1
LAST_PACKET_ID: Final = 65_535


def packet_id_after(packet_id: int) -> int:
    """The next packet id in turn: 65,535 is followed by 1, never by 0."""
    return FIRST_PACKET_ID if packet_id >= LAST_PACKET_ID else packet_id + 1
