"""Topic names: what a message is published to.

    plant/hall-2/press/temp      four levels
    /a//b                        empty levels are levels
    $SYS/broker/uptime           `$` at the start: not matched by a wildcard at the first level

Names are handled as bytes from the wire to the disk. They are checked here, once, on arrival.
"""

from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.protocol import MAX_U16
from holdfast.model.reasons import MALFORMED_PACKET, PROTOCOL_ERROR
from holdfast.model.text import decode_text

SEPARATOR: Final = b"/"
# As numbers: looking for a byte in bytes costs a tenth of looking for a bytes object of length one.
_DOLLAR: Final = 0x24
PLUS: Final = 0x2B
HASH: Final = 0x23


def check_topic_name(raw: bytes) -> None:
    """Raise PeerError unless `raw` is a topic name that a message may be published to."""
    if not raw:  # [MQTT-4.7.3-1]; v5 3.3.2.1 calls it a protocol error
        raise PeerError(PROTOCOL_ERROR, "the topic name is empty")
    if len(raw) > MAX_U16:  # [MQTT-4.7.3-3]
        raise PeerError(MALFORMED_PACKET, f"the topic name has {len(raw)} bytes, at most {MAX_U16} are allowed")
    text = decode_text(raw, "the topic name")  # [MQTT-3.3.2-1] [MQTT-4.7.3-2]
    if PLUS in raw or HASH in raw:  # [MQTT-3.3.2-2] [MQTT-4.7.0-1]
        raise PeerError(MALFORMED_PACKET, f"topic name {text!r} contains a wildcard; only filters may")


def is_dollar(topic: bytes) -> bool:
    """Whether `topic` is one of the `$`-topics, which wildcards at the first level leave out [MQTT-4.7.2-1]."""
    return len(topic) > 0 and topic[0] == _DOLLAR


def in_level_order(topic: bytes) -> bytes:
    """Something that sorts as topics do by their levels: `a/b` before `a-b`, though not by bytes."""
    return topic.replace(SEPARATOR, b"\x00")
