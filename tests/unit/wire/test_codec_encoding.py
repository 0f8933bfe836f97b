"""Encoding: misuse is loud, MQTT 3 gets what it has room for, and secrets stay out of what is printed."""

import pytest

from holdfast.model.errors import MisuseError
from holdfast.model.protocol import CLIENT, PUBACK, PUBCOMP, PUBREC, PUBREL, V5, V31, V311
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from holdfast.wire.primitives import ByteReader, encode_varint
from holdfast.wire.properties import PROPERTIES as CODE_PROPERTIES
from holdfast.wire.properties import Properties
from tests.formats.standard import PACKET_TYPES, PROPERTIES, Property
from tests.unit.wire.refusals import decode_bytes

pytestmark = pytest.mark.compiled

FILTER = parse_filter(b"t")
SHARED = parse_filter(b"$share/g/t")
LONG = "x" * 65_536
USER = Properties(user_properties=(("k", "v"),))


def subscribe(line: Subscription) -> Subscribe:
    return Subscribe(1, (line,))


MISUSES: list[tuple[str, Packet, int, str]] = [
    ("QoS 1 with packet id 0", Publish("t", b"", 1), V5, "packet id 0"),
    ("QoS 2 with packet id 0", Publish("t", b"", 2), V311, "packet id 0"),
    ("QoS 0 with a packet id", Publish("t", b"", 0, 1), V5, "packet id 1"),
    ("QoS 3", Publish("t", b"", 3, 1), V5, "no QoS 3"),
    ("QoS -1", Publish("t", b"", -1, 1), V5, "no QoS -1"),
    ("QoS 1 with packet id 65,536", Publish("t", b"", 1, 65_536), V5, "65536"),
    ("QoS 1 with packet id -1", Publish("t", b"", 1, -1), V311, "-1"),
    ("dup with QoS 0", Publish("t", b"", dup=True), V5, "DUP"),
    ("no topic", Publish("", b""), V311, "empty"),
    ("no topic and no alias", Publish("", b""), V5, "empty"),
    ("an alias instead of a topic in MQTT 3", Publish("", b"", properties=Properties(topic_alias=1)), V311, "empty"),
    ("a topic that is too long", Publish(LONG, b""), V5, "65536 bytes"),
    ("a topic that is too long in bytes", Publish("\u00e9" * 32_768, b""), V5, "65536 bytes"),
    ("NUL in a topic", Publish("a\0b", b""), V5, "U+0000"),
    ("lone surrogate in a topic", Publish("\ud800", b""), V5, "surrogate"),
    ("NUL in a client id", Connect(V5, "\0"), V5, "U+0000"),
    ("a client id that is too long", Connect(V5, LONG), V5, "65536 bytes"),
    ("a user name that is too long", Connect(V311, "a", user_name=LONG), V311, "65536 bytes"),
    ("a password that is too long", Connect(V5, "a", password=b"x" * 65_536), V5, "65536 bytes"),
    ("a password without a user name", Connect(V311, "a", password=b"p"), V311, "without a user name"),
    ("keep alive 65,536", Connect(V5, "a", True, 65_536), V5, "two bytes"),
    ("keep alive -1", Connect(V5, "a", True, -1), V5, "two bytes"),
    ("level 6", Connect(6, "a"), V5, "level 6"),
    ("will QoS 3", Connect(V5, "a", will=Will("w", b"", 3)), V5, "no QoS 3"),
    ("will QoS 4", Connect(V311, "a", will=Will("w", b"", 4)), V311, "no QoS 4"),
    ("a will payload that is too long", Connect(V5, "a", will=Will("w", b"x" * 65_536)), V5, "65536 bytes"),
    ("NUL in a will topic", Connect(V5, "a", will=Will("w\0", b"")), V5, "U+0000"),
    ("session present in a refusal", Connack(0x87, True), V5, "session present"),
    ("session present in a refusal", Connack(5, True), V311, "session present"),
    ("a CONNACK code of MQTT 5 in MQTT 3", Connack(0x87), V311, "return code"),
    ("a CONNACK code of MQTT 3 in MQTT 5", Connack(5), V5, "no reason for CONNACK"),
    ("a CONNACK code of DISCONNECT", Connack(0x8E), V5, "no reason for CONNACK"),
    ("PUBACK with packet id 0", Ack(PUBACK, 0), V5, "no packet id"),
    ("PUBREC with packet id 65,536", Ack(PUBREC, 65_536), V5, "no packet id"),
    ("PUBREL with packet id -1", Ack(PUBREL, -1), V311, "no packet id"),
    ("PUBREL with a reason of PUBACK", Ack(PUBREL, 1, 0x80), V5, "no reason for PUBREL"),
    ("PUBCOMP with a reason of PUBACK", Ack(PUBCOMP, 1, 0x10), V5, "no reason for PUBCOMP"),
    ("PUBACK with a reason of a byte and more", Ack(PUBACK, 1, 0x180), V5, "no reason for PUBACK"),
    ("SUBSCRIBE with packet id 0", Subscribe(0, (Subscription(FILTER),)), V5, "no packet id"),
    ("SUBSCRIBE without a filter", Subscribe(1, ()), V5, "without a topic filter"),
    ("a subscription with QoS 3", subscribe(Subscription(FILTER, 3)), V5, "no QoS 3"),
    ("a subscription with QoS 4", subscribe(Subscription(FILTER, 4)), V311, "no QoS 4"),
    ("retain handling 3", subscribe(Subscription(FILTER, retain_handling=3)), V5, "retain handling 3"),
    ("no local on a shared filter", subscribe(Subscription(SHARED, no_local=True)), V5, "no local"),
    (
        "a filter that is too long",
        subscribe(Subscription(TopicFilter(LONG.encode(), (LONG.encode(),), "", ""))),
        V5,
        "65536 bytes",
    ),
    (
        "two subscription identifiers in SUBSCRIBE",
        Subscribe(1, (Subscription(FILTER),), Properties(subscription_identifiers=(1, 2))),
        V5,
        "at most one",
    ),
    ("SUBACK with packet id 0", Suback(0, (0,)), V5, "no packet id"),
    ("SUBACK without a reason", Suback(1, ()), V5, "without a reason"),
    ("SUBACK without a return code", Suback(1, ()), V311, "without a reason"),
    ("SUBACK with a reason of CONNACK", Suback(1, (0, 0x84)), V5, "no reason for SUBACK"),
    ("UNSUBSCRIBE with packet id 0", Unsubscribe(0, (FILTER,)), V5, "no packet id"),
    ("UNSUBSCRIBE without a filter", Unsubscribe(1, ()), V311, "without a topic filter"),
    ("UNSUBACK with packet id 0", Unsuback(0, (0,)), V311, "no packet id"),
    ("UNSUBACK without a reason", Unsuback(1), V5, "without a reason"),
    ("UNSUBACK with a reason of SUBACK", Unsuback(1, (1,)), V5, "no reason for UNSUBACK"),
    ("DISCONNECT with a reason of CONNACK", Disconnect(0x84), V5, "no reason for DISCONNECT"),
    ("AUTH with a reason of DISCONNECT", Auth(0x04), V5, "no reason for AUTH"),
    ("AUTH in MQTT 3.1.1", Auth(), V311, "MQTT 5 only"),
    ("AUTH in MQTT 3.1", Auth(), V31, "MQTT 5 only"),
    ("data without method", Auth(0x18, Properties(authentication_data=b"d")), V5, "without an authentication method"),
]


@pytest.mark.parametrize(
    ("packet", "version", "says"), [pytest.param(*rest, id=f"v{rest[1]} {name}") for name, *rest in MISUSES]
)
def test_what_may_not_be_sent_is_not_encoded(packet: Packet, version: int, says: str) -> None:
    with pytest.raises(MisuseError) as caught:
        encode(packet, version)
    assert says in str(caught.value)


def carrier(place: str, properties: Properties) -> Packet:
    """A valid MQTT 5 packet around a property list."""
    packets: dict[str, Packet] = {
        "CONNECT": Connect(V5, "a", properties=properties),
        "Will": Connect(V5, "a", will=Will("w", b"", properties=properties)),
        "CONNACK": Connack(properties=properties),
        "PUBLISH": Publish("t", b"", properties=properties),
        "PUBACK": Ack(PUBACK, 1, properties=properties),
        "PUBREC": Ack(PUBREC, 1, properties=properties),
        "PUBREL": Ack(PUBREL, 1, properties=properties),
        "PUBCOMP": Ack(PUBCOMP, 1, properties=properties),
        "SUBSCRIBE": Subscribe(1, (Subscription(FILTER),), properties),
        "SUBACK": Suback(1, (0,), properties),
        "UNSUBSCRIBE": Unsubscribe(1, (FILTER,), properties),
        "UNSUBACK": Unsuback(1, (0,), properties),
        "DISCONNECT": Disconnect(properties=properties),
        "AUTH": Auth(properties=properties),
    }
    return packets[place]


def properties_with(name: str, value: object) -> Properties:
    values: dict[str, object] = {name: value}
    if name == "authentication_data":
        values["authentication_method"] = "m"
    return Properties(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("row", PROPERTIES, ids=str)
@pytest.mark.parametrize("place", ["Will", *(name for name in PACKET_TYPES if not name.startswith("PING"))])
def test_a_property_is_encoded_exactly_where_it_may_stand(place: str, row: Property) -> None:
    packet = carrier(place, properties_with(row.name, row.value))

    if place in row.places:
        assert row.encoded() in encode(packet, V5)
    else:
        with pytest.raises(MisuseError, match=f"{row.name}.* may not stand in"):
            encode(packet, V5)


BAD_VALUES: list[tuple[str, object, str]] = [
    ("payload_format_indicator", 2, "PUBLISH"),
    ("payload_format_indicator", -1, "PUBLISH"),
    ("message_expiry_interval", 4_294_967_296, "PUBLISH"),
    ("message_expiry_interval", -1, "PUBLISH"),
    ("topic_alias", 0, "PUBLISH"),
    ("topic_alias", 65_536, "PUBLISH"),
    ("subscription_identifiers", (0,), "PUBLISH"),
    ("subscription_identifiers", (268_435_456,), "SUBSCRIBE"),
    ("receive_maximum", 0, "CONNECT"),
    ("maximum_packet_size", 0, "CONNACK"),
    ("maximum_qos", 2, "CONNACK"),
    ("content_type", LONG, "PUBLISH"),
    ("content_type", "a\0", "PUBLISH"),
    ("content_type", "\udfff", "PUBLISH"),
    ("correlation_data", b"x" * 65_536, "PUBLISH"),
    ("user_properties", (("k\0", "v"),), "AUTH"),
    ("user_properties", (("k", "\ud800"),), "DISCONNECT"),
    ("user_properties", ((LONG, ""),), "CONNECT"),
]


@pytest.mark.parametrize(("name", "value", "place"), BAD_VALUES, ids=lambda v: repr(v)[:24])
def test_a_value_that_a_property_cannot_have_is_not_encoded(name: str, value: object, place: str) -> None:
    with pytest.raises(MisuseError):
        encode(carrier(place, properties_with(name, value)), V5)


def test_the_table_of_properties_is_the_one_of_the_standard() -> None:
    ours = {(spec.identifier, spec.name, frozenset(spec.packets)) for spec in CODE_PROPERTIES}
    places = {"Will": 0} | PACKET_TYPES

    assert ours == {(row.identifier, row.name, frozenset(places[p] for p in row.places)) for row in PROPERTIES}
    assert len(CODE_PROPERTIES) == len(PROPERTIES)


@pytest.mark.parametrize("version", [V31, V311])
@pytest.mark.parametrize(
    ("packet", "wire"),
    [
        (Connack(properties=USER), "20 02 00 00"),
        (Publish("t", b"x", properties=USER), "30 04 0001 74 78"),
        (Ack(PUBACK, 1, 0x10, USER), "40 02 0001"),
        (Ack(PUBREL, 1, 0x92, USER), "62 02 0001"),
        (Subscribe(1, (Subscription(FILTER, 1, True, True, 2),), USER), "82 06 0001 0001 74 01"),
        (Suback(1, (0, 1, 2), USER), "90 05 0001 00 01 02"),
        (Suback(1, (0x87, 0x97, 0x80)), "90 05 0001 80 80 80"),
        (Unsubscribe(1, (FILTER,), USER), "A2 05 0001 0001 74"),
        (Unsuback(1, (0, 0x11), USER), "B0 02 0001"),
        (Disconnect(0x8E, USER), "E0 00"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_mqtt_3_leaves_out_what_it_has_no_room_for(packet: Packet, wire: str, version: int) -> None:
    assert encode(packet, version) == bytes.fromhex(wire)


def test_mqtt_3_1_1_connect_leaves_out_properties() -> None:
    packet = Connect(V311, "a", will=Will("w", b"", properties=USER), properties=USER)

    assert encode(packet, V5) == bytes.fromhex("10 12 0004 4D515454 04 06 0000 0001 61 0001 77 0000")


def test_mqtt_3_1_has_no_session_present() -> None:
    assert encode(Connack(0, True), V31) == bytes.fromhex("20 02 00 00")
    assert encode(Connack(0, True), V311) == bytes.fromhex("20 02 01 00")


def test_a_string_of_the_largest_length_is_encoded() -> None:
    packet = Publish("x" * 65_535, b"")

    assert decode_bytes(encode(packet, V311), V311, CLIENT) == [packet]


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (0, "00"),
        (127, "7F"),
        (128, "80 01"),
        (16_383, "FF 7F"),
        (16_384, "80 80 01"),
        (2_097_151, "FF FF 7F"),
        (2_097_152, "80 80 80 01"),
        (268_435_455, "FF FF FF 7F"),
    ],
)
def test_a_variable_byte_integer_has_the_bytes_of_table_1_1(value: int, wire: str) -> None:
    raw = bytes.fromhex(wire)

    assert encode_varint(value) == raw
    assert ByteReader(raw, 0, len(raw)).varint("x") == value


@pytest.mark.parametrize("value", [-1, 268_435_456, 2**32])
def test_what_no_variable_byte_integer_can_hold_is_not_encoded(value: int) -> None:
    with pytest.raises(MisuseError, match="variable byte integer"):
        encode_varint(value)


SECRET = b"correct horse"


@pytest.mark.parametrize(
    "packet",
    [
        Connect(V5, "a", user_name="ann", password=SECRET),
        Connect(V5, "a", properties=Properties(authentication_method="m", authentication_data=SECRET)),
        Auth(0x18, Properties(authentication_method="m", authentication_data=SECRET)),
        Connack(properties=Properties(authentication_method="m", authentication_data=SECRET)),
    ],
    ids=["password", "CONNECT data", "AUTH data", "CONNACK data"],
)
def test_a_secret_is_never_printed(packet: Packet) -> None:
    shown = f"{packet!r} {packet}"

    assert "correct horse" not in shown
    assert type(packet).__name__ in shown


def test_a_payload_is_printed_as_its_size() -> None:
    shown = repr(Publish("t", b"personal", 1, 7))

    assert "personal" not in shown
    assert "8 B" in shown
    assert "packet_id=7" in shown


def test_properties_print_what_is_there_and_nothing_else() -> None:
    assert repr(Properties(reason_string="why", maximum_qos=0)) == "Properties(reason_string='why', maximum_qos=0)"
    assert repr(Properties()) == "Properties()"


def test_packets_are_equal_by_content() -> None:
    assert Publish("t", b"x", 1, 7) == Publish("t", b"x", 1, 7)
    assert hash(Publish("t", b"x", 1, 7)) == hash(Publish("t", b"x", 1, 7))
    others = [
        Publish("u", b"x", 1, 7),
        Publish("t", b"y", 1, 7),
        Publish("t", b"x", 2, 7),
        Publish("t", b"x", 1, 8),
        Publish("t", b"x", 1, 7, retain=True),
        Publish("t", b"x", 1, 7, dup=True),
        Publish("t", b"x", 1, 7, properties=USER),
    ]
    assert all(other != Publish("t", b"x", 1, 7) for other in others)
    assert Ack(PUBACK, 1) != Ack(PUBREC, 1)
