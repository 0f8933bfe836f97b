"""Golden PUBLISH: every combination of flags, every property, and the steps of the remaining length."""

from holdfast.model.protocol import CLIENT, SERVER, V5, V31, V311
from holdfast.wire.packets import Publish
from holdfast.wire.properties import Properties
from tests.formats.golden import Golden

#: First byte; what its flags say: QoS, retain, dup.
_FLAGS = [
    ("30", 0, False, False),
    ("31", 0, True, False),
    ("32", 1, False, False),
    ("33", 1, True, False),
    ("3A", 1, False, True),
    ("3B", 1, True, True),
    ("34", 2, False, False),
    ("35", 2, True, False),
    ("3C", 2, False, True),
    ("3D", 2, True, True),
]

_QOS_0_V3 = (
    "07"  # 7 bytes follow
    "00 03 61 2F 62"  # topic "a/b"
    "68 69"  # payload "hi"
)
_QOS_0_V5 = (
    "08"  # 8 bytes follow
    "00 03 61 2F 62"  # topic "a/b"
    "00"  # no properties
    "68 69"  # payload "hi"
)
_QOS_1_2_V3 = (
    "09"  # 9 bytes follow
    "00 03 61 2F 62"  # topic "a/b"
    "12 34"  # packet id 4660
    "68 69"  # payload "hi"
)
_QOS_1_2_V5 = (
    "0A"  # 10 bytes follow
    "00 03 61 2F 62"  # topic "a/b"
    "12 34"  # packet id 4660
    "00"  # no properties
    "68 69"  # payload "hi"
)


def _every_flag() -> list[Golden]:
    cases: list[Golden] = []
    for version, qos_0, qos_1_2 in (
        (V31, _QOS_0_V3, _QOS_1_2_V3),
        (V311, _QOS_0_V3, _QOS_1_2_V3),
        (V5, _QOS_0_V5, _QOS_1_2_V5),
    ):
        for first, qos, retain, dup in _FLAGS:
            name = f"PUBLISH QoS {qos}{' retain' * retain}{' dup' * dup}"
            wire = bytes.fromhex(first + (qos_1_2 if qos else qos_0))
            packet = Publish("a/b", b"hi", qos, 0x1234 if qos else 0, retain=retain, dup=dup)
            cases.append(Golden(name, version, CLIENT, wire, packet))
    return cases


def _sized(version: int, head: str, payload_bytes: int) -> Golden:
    """A PUBLISH to "t" whose payload makes it exactly as long as the header says."""
    wire = bytes.fromhex(head) + b"x" * payload_bytes
    return Golden(f"PUBLISH {head[:14].strip()}", version, CLIENT, wire, Publish("t", b"x" * payload_bytes))


# header and topic "t"; in MQTT 5 an empty property list behind them
_LENGTHS = [
    _sized(V311, "30 03          00 01 74", 0),
    _sized(V311, "30 7F          00 01 74", 127 - 3),
    _sized(V311, "30 80 01       00 01 74", 128 - 3),
    _sized(V311, "30 FF 7F       00 01 74", 16_383 - 3),
    _sized(V311, "30 80 80 01    00 01 74", 16_384 - 3),
    _sized(V311, "30 FF FF 7F    00 01 74", 2_097_151 - 3),
    _sized(V311, "30 80 80 80 01 00 01 74", 2_097_152 - 3),
    _sized(V5, "30 04          00 01 74 00", 0),
    _sized(V5, "30 7F          00 01 74 00", 127 - 4),
    _sized(V5, "30 80 01       00 01 74 00", 128 - 4),
    _sized(V5, "30 FF 7F       00 01 74 00", 16_383 - 4),
    _sized(V5, "30 80 80 01    00 01 74 00", 16_384 - 4),
    _sized(V5, "30 FF FF 7F    00 01 74 00", 2_097_151 - 4),
    _sized(V5, "30 80 80 80 01 00 01 74 00", 2_097_152 - 4),
]

PUBLISHES = [
    *_every_flag(),
    *_LENGTHS,
    Golden(
        "PUBLISH with the highest packet id and an empty payload",
        V311,
        SERVER,
        bytes.fromhex(
            "34 05"  # PUBLISH QoS 2, 5 bytes follow
            "00 01 2F"  # topic "/"
            "FF FF"  # packet id 65,535
        ),
        Publish("/", b"", 2, 65_535),
    ),
    Golden(
        "PUBLISH to a topic beyond ASCII",
        V311,
        SERVER,
        bytes.fromhex(
            "30 0E"  # PUBLISH QoS 0, 14 bytes follow
            "00 0C"  # topic of 12 bytes
            "EF BB BF"  # U+FEFF, which is part of the string
            "C3 A9"  # U+00E9, two bytes
            "E2 82 AC"  # U+20AC, three bytes
            "F0 9F 8C 8A"  # U+1F30A, four bytes
        ),
        Publish("\ufeff\u00e9\u20ac\U0001f30a", b""),
    ),
    Golden(
        "PUBLISH full from a client",
        V5,
        CLIENT,
        bytes.fromhex(
            "32 29"  # PUBLISH QoS 1, 41 bytes follow
            "00 01 74"  # topic "t"
            "00 01"  # packet id 1
            "20"  # 32 bytes of properties
            "01 00"  # payload format indicator: bytes
            "02 FF FF FF FF"  # message expiry interval 4,294,967,295 s
            "03 00 00"  # content type ""
            "08 00 03 72 2F 31"  # response topic "r/1"
            "09 00 03 00 FF 01"  # correlation data
            "23 FF FF"  # topic alias 65,535
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "68 6F 69"  # payload "hoi"
        ),
        Publish(
            "t",
            b"hoi",
            1,
            1,
            properties=Properties(
                payload_format_indicator=0,
                message_expiry_interval=4_294_967_295,
                content_type="",
                response_topic="r/1",
                correlation_data=b"\x00\xff\x01",
                topic_alias=65_535,
                user_properties=(("k", "v"),),
            ),
        ),
    ),
    Golden(
        "PUBLISH full from a server",
        V5,
        SERVER,
        bytes.fromhex(
            "3D 30"  # PUBLISH dup QoS 2 retain, 48 bytes follow
            "00 03 61 2F 62"  # topic "a/b"
            "00 0A"  # packet id 10
            "26"  # 38 bytes of properties
            "01 01"  # payload format indicator: UTF-8
            "02 00 01 51 80"  # message expiry interval 86,400 s
            "03 00 04 6A 73 6F 6E"  # content type "json"
            "08 00 03 72 2F 31"  # response topic "r/1"
            "09 00 00"  # empty correlation data
            "0B 01"  # subscription identifier 1
            "0B 80 01"  # subscription identifier 128: several subscriptions matched
            "23 00 07"  # topic alias 7
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "68 69"  # payload "hi"
        ),
        Publish(
            "a/b",
            b"hi",
            2,
            10,
            retain=True,
            dup=True,
            properties=Properties(
                payload_format_indicator=1,
                message_expiry_interval=86_400,
                content_type="json",
                response_topic="r/1",
                correlation_data=b"",
                subscription_identifiers=(1, 128),
                topic_alias=7,
                user_properties=(("k", "v"),),
            ),
        ),
    ),
    Golden(
        "PUBLISH with a topic alias instead of a topic",
        V5,
        CLIENT,
        bytes.fromhex(
            "30 07"  # PUBLISH QoS 0, 7 bytes follow
            "00 00"  # no topic
            "03"  # 3 bytes of properties
            "23 00 01"  # topic alias 1
            "21"  # payload "!"
        ),
        Publish("", b"!", properties=Properties(topic_alias=1)),
    ),
    Golden(
        "PUBLISH with properties in another order",
        V5,
        CLIENT,
        bytes.fromhex(
            "30 0E"  # PUBLISH QoS 0, 14 bytes follow
            "00 01 74"  # topic "t"
            "0A"  # 10 bytes of properties
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "23 00 01"  # topic alias 1
        ),
        Publish("t", b"", properties=Properties(topic_alias=1, user_properties=(("k", "v"),))),
        shortest=False,
    ),
    Golden(
        "PUBLISH with a property length of two bytes",
        V5,
        CLIENT,
        bytes.fromhex(
            "30 85 01"  # PUBLISH QoS 0, 133 bytes follow
            "00 01 74"  # topic "t"
            "80 01"  # 128 bytes of properties
            "26 00 01 6B 00 7A"  # user property "k", its value has 122 bytes
        )
        + b"v" * 122,
        Publish("t", b"", properties=Properties(user_properties=(("k", "v" * 122),))),
    ),
]
