"""Properties: where each may stand, how often, and with which values (MQTT 5, section 2.2.2)."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import CLIENT, SERVER, V5
from holdfast.wire.packets import Connect, Packet, Pingreq, Pingresp
from holdfast.wire.primitives import ByteReader
from holdfast.wire.properties import Properties, decode_properties
from tests.formats.standard import PACKET_TYPES, PLACES, PROPERTIES, Property
from tests.unit.wire.refusals import MALFORMED, PROTOCOL, WRONG_ALIAS, Refusal, assert_refused, decode_one

pytestmark = pytest.mark.compiled

#: Around a property list: first byte, what is in front of it, what is behind it, who sends it here.
CARRIERS = {
    "CONNECT": ("10", "0004 4D515454 05 02 0000", "0001 61", CLIENT),
    "Will": ("10", "0004 4D515454 05 06 0000 00 0001 61", "0001 77 0000", CLIENT),
    "CONNACK": ("20", "00 00", "", SERVER),
    "PUBLISH": ("30", "0001 74", "", SERVER),
    "PUBACK": ("40", "0001 00", "", SERVER),
    "PUBREC": ("50", "0001 00", "", SERVER),
    "PUBREL": ("62", "0001 00", "", SERVER),
    "PUBCOMP": ("70", "0001 00", "", SERVER),
    "SUBSCRIBE": ("82", "0001", "0001 74 00", CLIENT),
    "SUBACK": ("90", "0001", "00", SERVER),
    "UNSUBSCRIBE": ("A2", "0001", "0001 74", CLIENT),
    "UNSUBACK": ("B0", "0001", "00", SERVER),
    "DISCONNECT": ("E0", "00", "", SERVER),
    "AUTH": ("F0", "00", "", SERVER),
}

#: Those may be repeated.
REPEATABLE = {("user_properties", place) for place in PLACES} | {("subscription_identifiers", "PUBLISH")}
#: A client's word although both sides send the packet.
FROM_CLIENT = {("session_expiry_interval", "DISCONNECT")}

PLACED = [(row, place) for row in PROPERTIES for place in row.places]
MISPLACED = [(row, place) for row in PROPERTIES for place in PLACES if place not in row.places]


def case_of(row: Property, place: str, properties: bytes, reason: int, says: str) -> Refusal:
    first, head, tail, sender = CARRIERS[place]
    if (row.name, place) in FROM_CLIENT:
        sender = CLIENT
    body = f"{head} {len(properties):02X} {properties.hex()} {tail}"
    return Refusal(f"{row.name} in {place}", first, body, reason, says, V5, sender)


def properties_at(place: str, packet: Packet) -> Properties:
    if place == "Will":
        assert isinstance(packet, Connect)
        assert packet.will is not None
        return packet.will.properties
    assert not isinstance(packet, Pingreq | Pingresp)
    return packet.properties


def at(pair: object) -> str | None:
    return str(pair) if isinstance(pair, str | Property) else None


@pytest.mark.parametrize(("row", "place"), PLACED, ids=at)
def test_a_property_is_read_wherever_it_may_stand(row: Property, place: str) -> None:
    case = case_of(row, place, row.encoded(), 0, "")

    found = properties_at(place, decode_one(case.first, case.body, V5, case.sender)).present()

    assert found.pop(row.name) == row.value
    assert set(found) <= {"authentication_method"}


@pytest.mark.parametrize(("row", "place"), MISPLACED, ids=at)
def test_a_property_anywhere_else_makes_the_packet_malformed(row: Property, place: str) -> None:
    own = bytes((row.identifier,)) + bytes.fromhex(row.wire)

    assert_refused(case_of(row, place, own, MALFORMED, f"{row.name} may not stand in"))


@pytest.mark.parametrize(
    ("row", "place"), [pair for pair in PLACED if (pair[0].name, pair[1]) not in REPEATABLE], ids=at
)
def test_a_property_that_stands_twice_is_a_protocol_error(row: Property, place: str) -> None:
    own = bytes((row.identifier,)) + bytes.fromhex(row.wire)

    assert_refused(case_of(row, place, row.encoded() + own, PROTOCOL, f"{row.name} stands twice"))


@pytest.mark.parametrize("place", PLACES)
def test_a_user_property_may_be_repeated_and_keeps_its_order(place: str) -> None:
    first, head, tail, sender = CARRIERS[place]
    twice = "26 0001 62 0001 31  26 0001 61 0001 32  26 0001 62 0001 31"

    packet = decode_one(first, f"{head} 15 {twice} {tail}", V5, sender)

    assert properties_at(place, packet).user_properties == (("b", "1"), ("a", "2"), ("b", "1"))


@pytest.mark.parametrize("row", PROPERTIES, ids=str)
def test_a_value_that_is_cut_short_makes_the_packet_malformed(row: Property) -> None:
    place = row.places[0]
    whole = bytes((row.identifier,)) + bytes.fromhex(row.wire)

    for end in range(1, len(whole)):
        assert_refused(case_of(row, place, whole[:end], MALFORMED, "the packet ends within"))


def with_value(name: str, value: str, place: str, reason: int, says: str) -> Refusal:
    (row,) = [row for row in PROPERTIES if row.name == name]
    properties = bytes((row.identifier,)) + bytes.fromhex(value)
    case = case_of(row, place, properties, reason, says)
    return Refusal(f"{case.clause} is {value}", case.first, case.body, reason, says, V5, case.sender)


BAD_VALUES = [
    *[
        with_value(name, value, place, PROTOCOL, "only 0 and 1 are allowed")
        for value in ("02", "FF")
        for name, place in [
            ("payload_format_indicator", "PUBLISH"),
            ("payload_format_indicator", "Will"),
            ("request_problem_information", "CONNECT"),
            ("request_response_information", "CONNECT"),
            ("maximum_qos", "CONNACK"),
            ("retain_available", "CONNACK"),
            ("wildcard_subscription_available", "CONNACK"),
            ("subscription_identifiers_available", "CONNACK"),
            ("shared_subscription_available", "CONNACK"),
        ]
    ],
    with_value("receive_maximum", "0000", "CONNECT", PROTOCOL, "receive_maximum is 0"),
    with_value("receive_maximum", "0000", "CONNACK", PROTOCOL, "receive_maximum is 0"),
    with_value("maximum_packet_size", "00000000", "CONNECT", PROTOCOL, "maximum_packet_size is 0"),
    with_value("maximum_packet_size", "00000000", "CONNACK", PROTOCOL, "maximum_packet_size is 0"),
    with_value("subscription_identifiers", "00", "SUBSCRIBE", PROTOCOL, "is 0"),
    with_value("subscription_identifiers", "00", "PUBLISH", PROTOCOL, "is 0"),
    with_value("topic_alias", "0000", "PUBLISH", WRONG_ALIAS, "topic_alias is 0"),
    with_value("response_topic", "0001 23", "Will", PROTOCOL, "response topic"),
    with_value("response_topic", "0001 2B", "Will", PROTOCOL, "response topic"),
    with_value("response_topic", "0000", "Will", PROTOCOL, "response topic"),
    with_value("authentication_data", "0000", "CONNECT", PROTOCOL, "without an authentication method"),
    with_value("authentication_data", "0000", "CONNACK", PROTOCOL, "without an authentication method"),
    with_value("authentication_data", "0000", "AUTH", PROTOCOL, "without an authentication method"),
    *[
        with_value(name, value, place, MALFORMED, name)
        for value in ("0001 FF", "0001 00", "0003 EDA080")
        for name, place in [
            ("content_type", "PUBLISH"),
            ("content_type", "Will"),
            ("response_topic", "PUBLISH"),
            ("response_topic", "Will"),
            ("authentication_method", "CONNECT"),
            ("assigned_client_identifier", "CONNACK"),
            ("response_information", "CONNACK"),
            ("server_reference", "CONNACK"),
            ("reason_string", "PUBACK"),
        ]
    ],
    *[
        with_value("user_properties", value, place, MALFORMED, "a user property's")
        for value in ("0001 FF 0001 76", "0001 6B 0001 FF", "0001 00 0001 76", "0001 6B 0001 00")
        for place in ("CONNECT", "Will", "PUBLISH", "SUBSCRIBE", "AUTH")
    ],
]


@pytest.mark.parametrize("case", BAD_VALUES, ids=str)
def test_a_value_that_is_not_allowed_is_refused(case: Refusal) -> None:
    assert_refused(case)


def test_the_two_readers_of_publish_properties_refuse_a_zero_alias_alike() -> None:
    # Decoding a PUBLISH scans the list before it reads it, so the reader is asked directly.
    with pytest.raises(PeerError) as caught:
        decode_properties(ByteReader(bytes.fromhex("03 23 0000"), 0, 4), PACKET_TYPES["PUBLISH"], CLIENT)

    assert caught.value.reason == WRONG_ALIAS  # [MQTT-3.3.2-8]


LARGEST = [
    ("session_expiry_interval", "11 FFFFFFFF", 4_294_967_295),
    ("receive_maximum", "21 FFFF", 65_535),
    ("topic_alias_maximum", "22 FFFF", 65_535),
    ("topic_alias_maximum", "22 0000", 0),
    ("maximum_packet_size", "27 FFFFFFFF", 4_294_967_295),
    ("maximum_packet_size", "27 00000001", 1),
    ("authentication_method", "15 0000", ""),
]


@pytest.mark.parametrize(("name", "wire", "value"), LARGEST)
def test_the_ends_of_a_range_are_allowed(name: str, wire: str, value: object) -> None:
    first, head, tail, sender = CARRIERS["CONNECT"]
    length = len(bytes.fromhex(wire))

    packet = decode_one(first, f"{head} {length:02X} {wire} {tail}", V5, sender)

    assert properties_at("CONNECT", packet).present() == {name: value}


@pytest.mark.parametrize("place", PLACES)
def test_an_identifier_that_no_property_has_makes_the_packet_malformed(place: str) -> None:
    first, head, tail, sender = CARRIERS[place]
    known = {row.identifier for row in PROPERTIES}

    for identifier in sorted(set(range(128)) - known):
        body = f"{head} 02 {identifier:02X} 00 {tail}"
        assert_refused(Refusal("2.2.2.2", first, body, MALFORMED, f"0x{identifier:02X} is no property", V5, sender))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("wire", "says"),
    [
        ("80 00", "more bytes than it needs"),
        ("80 80 80 00", "more bytes than it needs"),
        ("80 80 80 80 00", "more than four bytes"),
        ("FF FF FF FF 7F", "more than four bytes"),
        ("FF FF FF 7F", "run past the end"),
        ("02 A6 00 00", "more bytes than it needs"),  # id 0x26 in two bytes
        ("02 80 01", "0x80 is no property"),
    ],
)
def test_a_property_list_with_bad_integers_makes_the_packet_malformed(place: str, wire: str, says: str) -> None:
    first, head, _, sender = CARRIERS[place]  # [MQTT-1.5.5-1]

    assert_refused(Refusal("2.2.2.1", first, f"{head} {wire}", MALFORMED, says, V5, sender))
