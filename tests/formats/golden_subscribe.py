"""Golden SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK."""

from holdfast.model.protocol import CLIENT, SERVER, V5, V31, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties
from tests.formats.golden import Golden

_USER = Properties(user_properties=(("k", "v"),))
_WHY = Properties(reason_string="why", user_properties=(("k", "v"),))

# packet id 10, then filter "a/b" QoS 1, then filter "c/#" QoS 2
_TWO_FILTERS = "0E 00 0A  00 03 61 2F 62 01  00 03 63 2F 23 02"
_TWO = Subscribe(10, (Subscription(parse_filter(b"a/b"), 1), Subscription(parse_filter(b"c/#"), 2)))

SUBSCRIBES = [
    Golden("SUBSCRIBE to two filters", V31, CLIENT, bytes.fromhex("82" + _TWO_FILTERS), _TWO),
    Golden("SUBSCRIBE sent again", V31, CLIENT, bytes.fromhex("8A" + _TWO_FILTERS), _TWO, shortest=False),
    Golden("SUBSCRIBE to two filters", V311, CLIENT, bytes.fromhex("82" + _TWO_FILTERS), _TWO),
    Golden(
        "SUBSCRIBE minimal",
        V311,
        CLIENT,
        bytes.fromhex(
            "82 06"  # SUBSCRIBE, 6 bytes follow
            "00 01"  # packet id 1
            "00 01 23"  # filter "#"
            "00"  # QoS 0
        ),
        Subscribe(1, (Subscription(parse_filter(b"#")),)),
    ),
    Golden(
        "SUBSCRIBE minimal",
        V5,
        CLIENT,
        bytes.fromhex(
            "82 07"  # SUBSCRIBE, 7 bytes follow
            "FF FF"  # packet id 65,535
            "00"  # no properties
            "00 01 2B"  # filter "+"
            "00"  # options: QoS 0
        ),
        Subscribe(65_535, (Subscription(parse_filter(b"+")),)),
    ),
    Golden(
        "SUBSCRIBE with each option alone",
        V5,
        CLIENT,
        bytes.fromhex(
            "82 1B"  # SUBSCRIBE, 27 bytes follow
            "00 01"  # packet id 1
            "00"  # no properties
            "00 01 61 01"  # filter "a", options: QoS 1
            "00 01 62 02"  # filter "b", options: QoS 2
            "00 01 63 04"  # filter "c", options: no local
            "00 01 64 08"  # filter "d", options: retain as published
            "00 01 65 10"  # filter "e", options: retain handling 1
            "00 01 66 20"  # filter "f", options: retain handling 2
        ),
        Subscribe(
            1,
            (
                Subscription(parse_filter(b"a"), qos=1),
                Subscription(parse_filter(b"b"), qos=2),
                Subscription(parse_filter(b"c"), no_local=True),
                Subscription(parse_filter(b"d"), retain_as_published=True),
                Subscription(parse_filter(b"e"), retain_handling=1),
                Subscription(parse_filter(b"f"), retain_handling=2),
            ),
        ),
    ),
    Golden(
        "SUBSCRIBE full",
        V5,
        CLIENT,
        bytes.fromhex(
            "82 28"  # SUBSCRIBE, 40 bytes follow
            "00 0A"  # packet id 10
            "0C"  # 12 bytes of properties
            "0B FF FF FF 7F"  # subscription identifier 268,435,455, the highest
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "00 03 61 2F 2B"  # filter "a/+"
            "2E"  # options: retain handling 2, retain as published, no local, QoS 2
            "00 0C 24 73 68 61 72 65 2F 67 2F 62 2F 23"  # filter "$share/g/b/#"
            "19"  # options: retain handling 1, retain as published, QoS 1
            "00 01 23"  # filter "#"
            "00"  # options: QoS 0
        ),
        Subscribe(
            10,
            (
                Subscription(parse_filter(b"a/+"), 2, True, True, 2),
                Subscription(parse_filter(b"$share/g/b/#"), 1, False, True, 1),
                Subscription(parse_filter(b"#")),
            ),
            Properties(subscription_identifiers=(268_435_455,), user_properties=(("k", "v"),)),
        ),
    ),
]

SUBACKS = [
    # packet id, one granted QoS for each filter
    Golden("SUBACK", V31, SERVER, bytes.fromhex("90 05 00 0A 00 01 02"), Suback(10, (0, 1, 2))),
    Golden("SUBACK", V311, SERVER, bytes.fromhex("90 06 00 0A 00 01 02 80"), Suback(10, (0, 1, 2, 0x80))),
    # packet id, no properties, one reason for each filter
    Golden("SUBACK minimal", V5, SERVER, bytes.fromhex("90 04 00 01 00 00"), Suback(1, (0,))),
    Golden(
        "SUBACK full",
        V5,
        SERVER,
        bytes.fromhex(
            "90 1C"  # SUBACK, 28 bytes follow
            "00 0A"  # packet id 10
            "0D"  # 13 bytes of properties
            "1F 00 03 77 68 79"  # reason string "why"
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "00 01 02"  # granted QoS 0, 1, 2
            "80 83 87 8F 91 97 9E A1 A2"  # every refusal that a SUBACK may carry
        ),
        Suback(10, (0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2), _WHY),
    ),
]

# packet id 10, filter "a/b", filter "c/#"
_TWO_TO_LEAVE = "0C 00 0A  00 03 61 2F 62  00 03 63 2F 23"
_LEAVE = Unsubscribe(10, (parse_filter(b"a/b"), parse_filter(b"c/#")))

UNSUBSCRIBES = [
    Golden("UNSUBSCRIBE from two filters", V31, CLIENT, bytes.fromhex("A2" + _TWO_TO_LEAVE), _LEAVE),
    Golden("UNSUBSCRIBE sent again", V31, CLIENT, bytes.fromhex("AA" + _TWO_TO_LEAVE), _LEAVE, shortest=False),
    Golden("UNSUBSCRIBE from two filters", V311, CLIENT, bytes.fromhex("A2" + _TWO_TO_LEAVE), _LEAVE),
    Golden(
        "UNSUBSCRIBE minimal",
        V5,
        CLIENT,
        bytes.fromhex(
            "A2 06"  # UNSUBSCRIBE, 6 bytes follow
            "00 01"  # packet id 1
            "00"  # no properties
            "00 01 61"  # filter "a"
        ),
        Unsubscribe(1, (parse_filter(b"a"),)),
    ),
    Golden(
        "UNSUBSCRIBE full",
        V5,
        CLIENT,
        bytes.fromhex(
            "A2 19"  # UNSUBSCRIBE, 25 bytes follow
            "00 0A"  # packet id 10
            "07"  # 7 bytes of properties
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "00 01 61"  # filter "a"
            "00 0A 24 73 68 61 72 65 2F 67 2F 62"  # filter "$share/g/b"
        ),
        Unsubscribe(10, (parse_filter(b"a"), parse_filter(b"$share/g/b")), _USER),
    ),
]

UNSUBACKS = [
    # packet id alone
    Golden("UNSUBACK", V31, SERVER, bytes.fromhex("B0 02 00 0A"), Unsuback(10)),
    Golden("UNSUBACK", V311, SERVER, bytes.fromhex("B0 02 00 0A"), Unsuback(10)),
    # packet id, no properties, one reason for each filter
    Golden("UNSUBACK minimal", V5, SERVER, bytes.fromhex("B0 04 00 01 00 00"), Unsuback(1, (0,))),
    Golden(
        "UNSUBACK full",
        V5,
        SERVER,
        bytes.fromhex(
            "B0 17"  # UNSUBACK, 23 bytes follow
            "00 0A"  # packet id 10
            "0D"  # 13 bytes of properties
            "1F 00 03 77 68 79"  # reason string "why"
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "00 11 80 83 87 8F 91"  # every reason that an UNSUBACK may carry
        ),
        Unsuback(10, (0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91), _WHY),
    ),
]
