"""PUBLISH: decoded to an object, or only scanned so that the hot path can forward slices.

first byte │ remaining length │ topic length │ topic │ packet id* │ properties* │ payload
0011 DUP QoS QoS RETAIN
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import MAX_U16, PUBLISH, V5
from holdfast.model.reasons import MALFORMED_PACKET, PROTOCOL_ERROR
from holdfast.topics.names import check_topic_name
from holdfast.wire.packets import Publish
from holdfast.wire.primitives import U8, U16, ByteReader, encode_text, encode_varint
from holdfast.wire.properties import NO_PROPERTIES, decode_properties, encode_properties
from holdfast.wire.publish_properties import PublishProperties

DUP: Final = 0x08
RETAIN: Final = 0x01
_TYPE: Final = PUBLISH << 4


class PublishScan:
    """Where the parts of one PUBLISH lie in a buffer.

    One object serves a connection for all its messages: a scan overwrites the last one, so that
    the path of a message makes no objects beside the slices it forwards.

    The topic's bytes are not checked here. The router looks them up in a cache of topics that were
    checked before (`topics.route_cache`), and checks new ones.
    """

    def __init__(self) -> None:
        self.qos = 0
        self.topic_start = 0
        self.topic_end = 0
        #: 0 for QoS 0.
        self.packet_id = 0
        #: The property list without its length; empty for MQTT 3.
        self.properties_start = 0
        self.properties_end = 0
        self.payload_start = 0
        self.end = 0
        #: What the property list says; only valid when it is not empty.
        self.properties: Final = PublishProperties()

    def scan(self, data: bytes, first: int, body: int, end: int, version: int, sender: int) -> None:
        """Find the parts of the PUBLISH whose body lies at data[body:end].

        Requires: `first` is a valid first byte (see `framing`).
        """
        start = body + 2
        if start > end:
            raise PeerError(MALFORMED_PACKET, "the packet ends within the topic name")
        pos = start + (data[body] << 8 | data[body + 1])
        if pos > end:
            raise PeerError(MALFORMED_PACKET, "the packet ends within the topic name")
        self.topic_start = start
        self.topic_end = pos
        qos = first >> 1 & 3
        self.qos = qos
        if qos:
            if pos + 2 > end:
                raise PeerError(MALFORMED_PACKET, "the packet ends within the packet id")
            packet_id = data[pos] << 8 | data[pos + 1]
            if packet_id == 0:  # [MQTT-2.2.1-3]
                raise PeerError(PROTOCOL_ERROR, "packet id 0")
            self.packet_id = packet_id
            pos += 2
        else:
            self.packet_id = 0
        self.end = end
        if version == V5:
            pos = self._scan_properties(data, pos, end, sender)
        else:
            self.properties_start = self.properties_end = pos
            if self.topic_end == start:  # [MQTT-4.7.3-1]
                raise PeerError(PROTOCOL_ERROR, "the topic name is empty")
        self.payload_start = pos

    def _scan_properties(self, data: bytes, pos: int, end: int, sender: int) -> int:
        """Scan the property list at `pos`; where the payload starts."""
        if pos < end and data[pos] == 0:  # most messages carry none
            self.properties_start = self.properties_end = pos + 1
        else:
            reader = ByteReader(data, pos, end)
            length = reader.varint("the property length")
            self.properties_start = reader.pos
            self.properties_end = reader.pos + length
            if self.properties_end > end:
                raise PeerError(MALFORMED_PACKET, "the properties run past the end of PUBLISH")
            self.properties.scan(data, self.properties_start, self.properties_end, sender)
        if self.topic_end == self.topic_start and self.alias() == 0:
            raise PeerError(PROTOCOL_ERROR, "the topic name is empty and no topic alias stands for it")
        return self.properties_end

    def alias(self) -> int:
        """The topic alias; 0 if there is none."""
        return 0 if self.properties_start == self.properties_end else self.properties.alias

    def expiry_s(self) -> int:
        """The message expiry interval; -1 if there is none."""
        return -1 if self.properties_start == self.properties_end else self.properties.expiry_s


def decode_publish(data: bytes, first: int, body: int, end: int, version: int, sender: int) -> Publish:
    """The whole packet as an object: for clients, tools and tests."""
    scan = PublishScan()
    scan.scan(data, first, body, end, version, sender)
    topic = data[scan.topic_start : scan.topic_end]
    if topic:  # an empty one has an alias, or the scan would have refused it
        check_topic_name(topic)
    properties = NO_PROPERTIES
    if scan.properties_start != scan.properties_end:
        properties = decode_properties(ByteReader(data, scan.topic_end + (2 if scan.qos else 0), end), PUBLISH, sender)
    return Publish(
        topic.decode(),
        data[scan.payload_start : end],
        scan.qos,
        scan.packet_id,
        retain=first & RETAIN != 0,
        dup=first & DUP != 0,
        properties=properties,
    )


def publish_head(first: int, topic: bytes, rest_bytes: int) -> bytes:
    """A PUBLISH up to its packet id; `rest_bytes` is the length of everything behind the topic.

    Made once for all receivers of a message: only the packet id differs between them.
    """
    return b"".join((U8[first], encode_varint(2 + len(topic) + rest_bytes), U16[len(topic)], topic))


def frame_publish(first: int, topic: bytes, packet_id: int, properties: bytes, payload: bytes) -> bytes:
    """A whole PUBLISH from encoded parts; `properties` comes with its length, and is empty for MQTT 3.

    Requires: `topic` has at most 65,535 bytes; `packet_id` is 0 exactly when `first` says QoS 0.
    """
    size = len(topic) + len(properties) + len(payload)
    if packet_id == 0:
        return b"".join((U8[first], encode_varint(2 + size), U16[len(topic)], topic, properties, payload))
    length = encode_varint(4 + size)
    return b"".join((U8[first], length, U16[len(topic)], topic, U16[packet_id], properties, payload))


def encode_publish(packet: Publish, version: int) -> bytes:
    if not 0 <= packet.qos <= 2:
        raise MisuseError(f"there is no QoS {packet.qos}")
    if (packet.packet_id == 0) != (packet.qos == 0):
        raise MisuseError(f"QoS {packet.qos} with packet id {packet.packet_id}")
    if not 0 <= packet.packet_id <= MAX_U16:
        raise MisuseError(f"{packet.packet_id} is no packet id (1 to {MAX_U16})")
    if not packet.topic and (version != V5 or packet.properties.topic_alias is None):  # [MQTT-4.7.3-1]
        raise MisuseError("the topic name is empty and no topic alias stands for it")
    if packet.dup and packet.qos == 0:  # [MQTT-3.3.1-2]
        raise MisuseError("DUP with QoS 0")
    first = _TYPE | packet.qos << 1 | (DUP if packet.dup else 0) | (RETAIN if packet.retain else 0)
    properties = encode_properties(packet.properties, PUBLISH) if version == V5 else b""
    return frame_publish(first, encode_text(packet.topic)[2:], packet.packet_id, properties, packet.payload)
