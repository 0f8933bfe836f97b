"""The properties of a PUBLISH, scanned in place.

Does what `properties.decode_properties` does for this one packet, without making objects: every
rule is checked, and only what the broker acts on is kept. A property test holds the two together.
"""

from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.protocol import PUBLISH
from holdfast.model.reasons import MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_ALIAS_INVALID
from holdfast.model.text import decode_text
from holdfast.wire.primitives import ByteReader
from holdfast.wire.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY_INTERVAL,
    PAYLOAD_FORMAT_INDICATOR,
    RESPONSE_TOPIC,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    USER_PROPERTY,
    check_count,
    check_response_topic,
    spec_of,
    stands_twice,
)

#: Bytes of a topic alias and of a message expiry interval, with their ids.
ALIAS_BYTES: Final = 3
EXPIRY_BYTES: Final = 5


class PublishProperties:
    """What the broker needs to know of a PUBLISH's properties, and where it stands."""

    def __init__(self) -> None:
        #: 0 if there is none.
        self.alias = 0
        #: Where the alias begins (its id): it concerns one connection and is cut out before forwarding.
        self.alias_at = 0
        #: -1 if there is none.
        self.expiry_s = -1
        #: Where the expiry begins (its id): what is forwarded carries the time that remains.
        self.expiry_at = 0
        self.utf8_payload = False

    def scan(self, data: bytes, pos: int, end: int, sender: int) -> None:
        """Scan the list at data[pos:end]; PeerError if it breaks a rule."""
        self.alias = 0
        self.expiry_s = -1
        self.utf8_payload = False
        seen = 0
        repeated = 0
        while pos < end:
            identifier = data[pos]
            start = pos + 1
            if identifier == USER_PROPERTY:
                repeated += 1
                pos = _skip_text(data, start, end, "a user property's name")
                pos = _skip_text(data, pos, end, "a user property's value")
                continue
            if identifier == SUBSCRIPTION_IDENTIFIER:
                repeated += 1
                pos = _skip_identifier(data, start, end, sender)
                continue
            if identifier > USER_PROPERTY:
                # Ids above 0x7F are encoded in two bytes; no property has one.
                spec_of(ByteReader(data, pos, end).varint("a property id"), PUBLISH, sender)
            bit = 1 << identifier
            if identifier == TOPIC_ALIAS:
                pos = start + 2
                _check_room(pos, end, "topic_alias")
                self.alias = data[start] << 8 | data[start + 1]
                self.alias_at = start - 1
                if self.alias == 0:  # [MQTT-3.3.2-8]
                    raise PeerError(TOPIC_ALIAS_INVALID, "topic_alias is 0")
            elif identifier == MESSAGE_EXPIRY_INTERVAL:
                pos = start + 4
                _check_room(pos, end, "message_expiry_interval")
                self.expiry_s = data[start] << 24 | data[start + 1] << 16 | data[start + 2] << 8 | data[start + 3]
                self.expiry_at = start - 1
            elif identifier == PAYLOAD_FORMAT_INDICATOR:
                pos = start + 1
                _check_room(pos, end, "payload_format_indicator")
                flag = data[start]
                if flag > 1:
                    raise PeerError(PROTOCOL_ERROR, f"payload_format_indicator is {flag}, only 0 and 1 are allowed")
                self.utf8_payload = flag == 1
            elif identifier == CORRELATION_DATA:
                pos = _skip_binary(data, start, end, "correlation_data")
            elif identifier == CONTENT_TYPE:
                pos = _skip_text(data, start, end, "content_type")  # [MQTT-3.3.2-19]
            elif identifier == RESPONSE_TOPIC:
                pos = _skip_text(data, start, end, "response_topic")  # [MQTT-3.3.2-13]
                check_response_topic(data[start + 2 : pos])
            else:
                spec_of(identifier, PUBLISH, sender)
            if seen & bit:
                raise stands_twice(spec_of(identifier, PUBLISH, sender).name)
            seen |= bit
        check_count(repeated)


def _check_room(pos: int, end: int, what: str) -> None:
    if pos > end:
        raise PeerError(MALFORMED_PACKET, f"the packet ends within {what}")


def _skip_binary(data: bytes, pos: int, end: int, what: str) -> int:
    _check_room(pos + 2, end, what)
    after = pos + 2 + (data[pos] << 8 | data[pos + 1])
    _check_room(after, end, what)
    return after


def _skip_text(data: bytes, pos: int, end: int, what: str) -> int:
    after = _skip_binary(data, pos, end, what)
    decode_text(data[pos + 2 : after], what)
    return after


def _skip_identifier(data: bytes, pos: int, end: int, sender: int) -> int:
    spec_of(SUBSCRIPTION_IDENTIFIER, PUBLISH, sender)
    reader = ByteReader(data, pos, end)
    if reader.varint("subscription_identifiers") == 0:
        raise PeerError(PROTOCOL_ERROR, "subscription_identifiers is 0")
    return reader.pos
