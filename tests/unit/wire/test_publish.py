"""PUBLISH: what the decoder refuses, and with which reason."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import CLIENT, SERVER, V5, V31, V311
from holdfast.wire.packets import Publish
from holdfast.wire.properties import Properties
from holdfast.wire.publish import PublishScan
from tests.formats.standard import PROPERTIES, Property
from tests.unit.wire.refusals import (
    MALFORMED,
    PROTOCOL,
    QUOTA,
    WRONG_ALIAS,
    Refusal,
    assert_refused,
    decode_bytes,
    decode_one,
    from_server,
    in_version,
)

pytestmark = pytest.mark.compiled

#: Bytes of the topic name itself.
TOPIC_BYTES = [
    Refusal("[MQTT-3.3.2-1] topic is no UTF-8", "30", "0001 FF 00", MALFORMED, "topic name is not valid UTF-8"),
    Refusal("[MQTT-1.5.4-1] overlong form in the topic", "30", "0002 C0AF 00", MALFORMED, "UTF-8"),
    Refusal("[MQTT-1.5.4-1] surrogate U+D800 in the topic", "30", "0003 EDA080 00", MALFORMED, "UTF-8"),
    Refusal("[MQTT-1.5.4-1] surrogate U+DFFF in the topic", "30", "0003 EDBFBF 00", MALFORMED, "UTF-8"),
    Refusal("[MQTT-1.5.4-1] above U+10FFFF in the topic", "30", "0004 F4908080 00", MALFORMED, "UTF-8"),
    Refusal("[MQTT-1.5.4-1] cut character in the topic", "30", "0002 E282 00", MALFORMED, "UTF-8"),
    Refusal("[MQTT-1.5.4-2] U+0000 in the topic", "30", "0003 610062 00", MALFORMED, "U+0000"),
    Refusal("[MQTT-3.3.2-2] topic with #", "30", "0003 612F23 00", MALFORMED, "wildcard"),
    Refusal("[MQTT-3.3.2-2] topic with +", "30", "0003 612F2B 00", MALFORMED, "wildcard"),
    Refusal("[MQTT-3.3.2-2] + within a level", "30", "0003 612B62 00", MALFORMED, "wildcard"),
]

EITHER_VERSION_5 = [
    Refusal("[MQTT-2.2.1-3] packet id 0, QoS 1", "32", "0001 74 0000 00", PROTOCOL, "packet id 0"),
    Refusal("[MQTT-2.2.1-3] packet id 0, QoS 2", "34", "0001 74 0000 00", PROTOCOL, "packet id 0"),
    Refusal("3.3.2.1 no topic, no properties", "30", "0000 00", PROTOCOL, "empty"),
    Refusal("3.3.2.1 no topic, no alias", "30", "0000 02 01 00", PROTOCOL, "empty"),
    Refusal("[MQTT-3.3.2-8] topic alias 0", "30", "0001 74 03 23 0000", WRONG_ALIAS, "topic_alias is 0"),
    Refusal("3.3.2.3.4 topic alias twice", "30", "0001 74 06 23 0001 23 0001", PROTOCOL, "topic_alias stands twice"),
    Refusal("[MQTT-3.3.2-13] response topic is no UTF-8", "30", "0001 74 04 08 0001 FF", MALFORMED, "response_topic"),
    Refusal("[MQTT-3.3.2-14] response topic with #", "30", "0001 74 04 08 0001 23", PROTOCOL, "response topic"),
    Refusal("[MQTT-3.3.2-14] response topic with +", "30", "0001 74 06 08 0003 612F2B", PROTOCOL, "response topic"),
    Refusal("[MQTT-4.7.3-1] empty response topic", "30", "0001 74 03 08 0000", PROTOCOL, "response topic"),
    Refusal("[MQTT-3.3.2-19] content type is no UTF-8", "30", "0001 74 04 03 0001 80", MALFORMED, "content_type"),
    Refusal(
        "3.3.2.3.2 payload format indicator 2", "30", "0001 74 02 01 02", PROTOCOL, "payload_format_indicator is 2"
    ),
    Refusal("empty body", "30", "", MALFORMED, "topic name"),
    Refusal("cut within the topic length", "30", "00", MALFORMED, "topic name"),
    Refusal("topic past the end", "30", "0003 7474", MALFORMED, "topic name"),
    Refusal("no packet id", "32", "0001 74", MALFORMED, "packet id"),
    Refusal("half a packet id", "34", "0001 74 00", MALFORMED, "packet id"),
    Refusal("no property length", "30", "0001 74", MALFORMED, "property length"),
    Refusal("no property length behind the packet id", "32", "0001 74 0001", MALFORMED, "property length"),
    Refusal("properties past the end", "30", "0001 74 03 01 00", MALFORMED, "properties run past"),
    Refusal(
        "[MQTT-1.5.5-1] property length 0 in two bytes", "30", "0001 74 80 00", MALFORMED, "more bytes than it needs"
    ),
    Refusal("1.5.5 property length of five bytes", "30", "0001 74 80 80 80 80 01", MALFORMED, "more than four bytes"),
    Refusal("property id in two bytes", "30", "0001 74 03 81 00 00", MALFORMED, "more bytes than it needs"),
    Refusal("property id 128", "30", "0001 74 02 80 01", MALFORMED, "0x80 is no property"),
    Refusal("value past the properties", "30", "0001 74 02 23 00 01", MALFORMED, "topic_alias"),
    Refusal("interval past the properties", "30", "0001 74 04 02 000000 01", MALFORMED, "message_expiry_interval"),
    Refusal("flag past the properties", "30", "0001 74 01 01 01", MALFORMED, "payload_format_indicator"),
    Refusal("text past the properties", "30", "0001 74 04 03 0002 61 62", MALFORMED, "content_type"),
    Refusal("data past the properties", "30", "0001 74 04 09 0002 61 62", MALFORMED, "correlation_data"),
    Refusal("user property without value", "30", "0001 74 04 26 0001 6B 0001 76", MALFORMED, "user property"),
]

FROM_CLIENT = [
    Refusal("[MQTT-3.3.4-6] subscription identifier", "30", "0001 74 02 0B 01", PROTOCOL, "subscription identifier"),
    Refusal("[MQTT-3.3.4-6] even one that is 0", "30", "0001 74 02 0B 00", PROTOCOL, "subscription identifier"),
]

FROM_SERVER = [
    Refusal("3.3.2.3.8 subscription identifier 0", "30", "0001 74 02 0B 00", PROTOCOL, "is 0", V5, SERVER),
    Refusal("[MQTT-1.5.5-1] identifier 1 in two bytes", "30", "0001 74 03 0B 81 00", MALFORMED, "needs", V5, SERVER),
    Refusal("1.5.5 identifier of five bytes", "30", "0001 74 06 0B FFFFFFFF 01", MALFORMED, "four bytes", V5, SERVER),
    Refusal("identifier past the properties", "30", "0001 74 02 0B 80 01", MALFORMED, "identifier", V5, SERVER),
]

VERSION_3 = [
    Refusal("v3 [MQTT-2.3.1-1] packet id 0", "32", "0001 74 0000", PROTOCOL, "packet id 0", V311),
    Refusal("v3 [MQTT-3.3.2-1] topic is no UTF-8", "30", "0001 FF", MALFORMED, "UTF-8", V311),
    Refusal("v3 [MQTT-1.5.3-2] U+0000 in the topic", "30", "0001 00", MALFORMED, "U+0000", V311),
    Refusal("v3 [MQTT-3.3.2-2] topic with #", "30", "0001 23", MALFORMED, "wildcard", V311),
    Refusal("v3 [MQTT-4.7.3-1] empty topic", "30", "0000", PROTOCOL, "empty", V311),
    Refusal("no packet id", "34", "0001 74", MALFORMED, "packet id", V311),
]


@pytest.mark.parametrize(
    "case",
    [
        *TOPIC_BYTES,
        *map(from_server, TOPIC_BYTES),
        *EITHER_VERSION_5,
        *map(from_server, EITHER_VERSION_5),
        *FROM_CLIENT,
        *FROM_SERVER,
        *VERSION_3,
        *in_version(V31, VERSION_3),
    ],
    ids=str,
)
def test_a_violation_is_refused_with_its_reason(case: Refusal) -> None:
    assert_refused(case)


def test_the_packet_that_the_cases_bend_is_valid() -> None:
    assert decode_one("30", "0001 74 00") == Publish("t", b"")
    assert decode_one("32", "0001 74 0001 00") == Publish("t", b"", 1, 1)
    assert decode_one("30", "0001 74", V311) == Publish("t", b"")


def test_zero_is_a_value_like_any_other_for_an_expiry_interval() -> None:
    packet = decode_one("30", "0001 74 05 02 00000000")

    assert packet == Publish("t", b"", properties=Properties(message_expiry_interval=0))


def test_bytes_behind_the_properties_are_payload_whatever_they_are() -> None:
    assert decode_one("30", "0001 74 00 00FF FE") == Publish("t", b"\x00\xff\xfe")


@pytest.mark.parametrize("text", ["\ufffe", "\uffff", "\x01", "\x7f", "\U0010ffff"])
def test_discouraged_code_points_are_let_through(text: str) -> None:
    # 1.5.4: a receiver MAY refuse control characters and non-characters; it need not.
    raw = text.encode()

    assert decode_bytes(bytes((0x30, 2 + len(raw), 0, len(raw))) + raw, V311) == [Publish(text, b"")]


@pytest.mark.parametrize(("count", "lawful"), [(1024, True), (1025, False)])
def test_the_number_of_user_properties_is_bounded(count: int, lawful: bool) -> None:
    wire = publish_with_properties(b"\x26\x00\x00\x00\x00" * count)

    if lawful:
        (packet,) = decode_bytes(wire)
        assert isinstance(packet, Publish)
        assert packet.properties.user_properties == (("", ""),) * count
    else:
        with pytest.raises(PeerError) as caught:
            decode_bytes(wire)
        assert caught.value.reason == QUOTA


@pytest.mark.parametrize(("count", "lawful"), [(1024, True), (1025, False)])
def test_the_number_of_subscription_identifiers_is_bounded(count: int, lawful: bool) -> None:
    wire = publish_with_properties(b"\x0b\x01" * count)

    if lawful:
        (packet,) = decode_bytes(wire, sender=SERVER)
        assert isinstance(packet, Publish)
        assert packet.properties.subscription_identifiers == (1,) * count
    else:
        with pytest.raises(PeerError) as caught:
            decode_bytes(wire, sender=SERVER)
        assert caught.value.reason == QUOTA


def publish_with_properties(properties: bytes) -> bytes:
    """A PUBLISH to "t" with between 128 and 16,000 bytes of properties."""
    length = bytes((len(properties) & 0x7F | 0x80, len(properties) >> 7))
    body = b"\x00\x01t" + length + properties
    return b"\x30" + bytes((len(body) & 0x7F | 0x80, len(body) >> 7)) + body


def scan(body: str, version: int = V5) -> tuple[PublishScan, bytes]:
    data = bytes.fromhex(body)
    result = PublishScan()
    result.scan(data, 0x32, 0, len(data), version, CLIENT)
    return result, data


# A node that forwards a message scans it and decodes no more, so the scan alone has to find what is wrong.
@pytest.mark.parametrize(
    "case", [*EITHER_VERSION_5, *map(from_server, EITHER_VERSION_5), *FROM_CLIENT, *FROM_SERVER], ids=str
)
def test_a_scan_alone_refuses_what_decoding_refuses(case: Refusal) -> None:
    data = bytes.fromhex(case.body)

    with pytest.raises(PeerError) as caught:
        PublishScan().scan(data, int(case.first, 16), 0, len(data), V5, case.sender)
    assert caught.value.reason == case.reason
    assert case.says in caught.value.detail


@pytest.mark.parametrize("row", PROPERTIES, ids=str)
def test_a_scan_alone_knows_where_properties_stand_and_how_often(row: Property) -> None:
    once = bytes((row.identifier,)) + bytes.fromhex(row.wire)
    repeatable = row.name in ("user_properties", "subscription_identifiers")

    def refusal(properties: bytes) -> int | None:
        data = b"\x00\x01t" + bytes((len(properties),)) + properties
        try:
            PublishScan().scan(data, 0x30, 0, len(data), V5, SERVER)
        except PeerError as error:
            return error.reason
        return None

    if "PUBLISH" in row.places:
        assert refusal(once) is None
        assert refusal(once * 2) == (None if repeatable else PROTOCOL)
    else:
        assert refusal(once) == MALFORMED


def test_a_scan_tells_where_the_parts_lie() -> None:
    found, data = scan("0003 612F62  0A0B  07 02 0000000A 01 01  6869")

    assert data[found.topic_start : found.topic_end] == b"a/b"
    assert (found.qos, found.packet_id) == (1, 0x0A0B)
    assert data[found.properties_start : found.properties_end] == bytes.fromhex("02 0000000A 01 01")
    assert data[found.payload_start : found.end] == b"hi"
    assert (found.alias(), found.expiry_s()) == (0, 10)
    assert data[found.properties.expiry_at] == 0x02
    assert found.properties.utf8_payload


def test_a_scan_forgets_the_message_before_it() -> None:
    found, _ = scan("0001 74 0001 0A 23 0007 02 0000000A 01 01")
    assert (found.alias(), found.expiry_s(), found.properties.utf8_payload) == (7, 10, True)

    plain = bytes.fromhex("0001 74 0002 00")
    found.scan(plain, 0x32, 0, len(plain), V5, CLIENT)
    assert (found.alias(), found.expiry_s(), found.packet_id) == (0, -1, 2)

    other = bytes.fromhex("0001 74 03 09 0000")
    found.scan(other, 0x30, 0, len(other), V5, CLIENT)
    assert (found.alias(), found.expiry_s(), found.packet_id) == (0, -1, 0)
    assert not found.properties.utf8_payload
