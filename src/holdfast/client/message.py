"""A message that a client publishes, encoded as far as it is the same for every attempt. Pure."""

from typing import NamedTuple

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import PUBLISH, V5
from holdfast.topics.names import check_topic_name
from holdfast.wire.primitives import encode_text
from holdfast.wire.properties import NO_PROPERTIES, Properties, encode_property_list
from holdfast.wire.publish import RETAIN


class OutgoingMessage(NamedTuple):
    """Everything of a PUBLISH but its packet id and DUP."""

    #: The first byte of PUBLISH, without DUP.
    first: int
    topic: bytes
    #: The property list without its length; empty for MQTT 3.
    properties: bytes
    payload: bytes

    @property
    def qos(self) -> int:
        return self.first >> 1 & 3


def encode_message(
    topic: str, payload: bytes, qos: int, version: int, *, retain: bool = False, properties: Properties = NO_PROPERTIES
) -> OutgoingMessage:
    """MisuseError if MQTT cannot carry it."""
    if not 0 <= qos <= 2:
        raise MisuseError(f"there is no QoS {qos}; it is 0, 1 or 2")
    name = encode_text(topic)[2:]
    try:
        check_topic_name(name)
    except PeerError as error:
        raise MisuseError(error.detail) from None
    encoded = b""
    if properties != NO_PROPERTIES:
        if version != V5:
            raise MisuseError("properties need MQTT 5")
        encoded = encode_property_list(properties, PUBLISH)
    return OutgoingMessage(PUBLISH << 4 | qos << 1 | (RETAIN if retain else 0), name, encoded, payload)
