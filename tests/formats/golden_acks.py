"""Golden PUBACK, PUBREC, PUBREL and PUBCOMP."""

from holdfast.model.protocol import CLIENT, PUBACK, PUBCOMP, PUBREC, PUBREL, SERVER, V5, V31, V311
from holdfast.wire.packets import Ack
from holdfast.wire.properties import Properties
from tests.formats.golden import Golden

_WHY = Properties(reason_string="why", user_properties=(("k", "v"),))

_V3 = [
    # packet id alone
    Golden("PUBACK", V31, CLIENT, bytes.fromhex("40 02 00 01"), Ack(PUBACK, 1)),
    Golden("PUBREC", V31, CLIENT, bytes.fromhex("50 02 00 02"), Ack(PUBREC, 2)),
    Golden("PUBREL", V31, CLIENT, bytes.fromhex("62 02 00 03"), Ack(PUBREL, 3)),
    Golden("PUBCOMP", V31, CLIENT, bytes.fromhex("70 02 FF FF"), Ack(PUBCOMP, 65_535)),
    Golden("PUBREL sent again", V31, CLIENT, bytes.fromhex("6A 02 00 03"), Ack(PUBREL, 3), shortest=False),
    Golden("PUBACK", V311, SERVER, bytes.fromhex("40 02 00 01"), Ack(PUBACK, 1)),
    Golden("PUBREC", V311, SERVER, bytes.fromhex("50 02 00 02"), Ack(PUBREC, 2)),
    Golden("PUBREL", V311, SERVER, bytes.fromhex("62 02 00 03"), Ack(PUBREL, 3)),
    Golden("PUBCOMP", V311, SERVER, bytes.fromhex("70 02 FF FF"), Ack(PUBCOMP, 65_535)),
]

_V5_SHORT = [
    # packet id alone: success
    Golden("PUBACK success", V5, CLIENT, bytes.fromhex("40 02 00 01"), Ack(PUBACK, 1)),
    Golden("PUBREC success", V5, CLIENT, bytes.fromhex("50 02 00 02"), Ack(PUBREC, 2)),
    Golden("PUBREL success", V5, CLIENT, bytes.fromhex("62 02 00 03"), Ack(PUBREL, 3)),
    Golden("PUBCOMP success", V5, CLIENT, bytes.fromhex("70 02 FF FF"), Ack(PUBCOMP, 65_535)),
    # packet id and reason
    Golden("PUBACK no subscribers", V5, SERVER, bytes.fromhex("40 03 00 01 10"), Ack(PUBACK, 1, 0x10)),
    Golden("PUBACK unspecified error", V5, CLIENT, bytes.fromhex("40 03 00 01 80"), Ack(PUBACK, 1, 0x80)),
    Golden("PUBREC no subscribers", V5, SERVER, bytes.fromhex("50 03 00 01 10"), Ack(PUBREC, 1, 0x10)),
    Golden("PUBREC id in use", V5, CLIENT, bytes.fromhex("50 03 00 01 91"), Ack(PUBREC, 1, 0x91)),
    Golden("PUBREL id not found", V5, SERVER, bytes.fromhex("62 03 00 01 92"), Ack(PUBREL, 1, 0x92)),
    Golden("PUBCOMP id not found", V5, SERVER, bytes.fromhex("70 03 00 01 92"), Ack(PUBCOMP, 1, 0x92)),
]

_PROPERTIES = (
    "0D"  # 13 bytes of properties
    "1F 00 03 77 68 79"  # reason string "why"
    "26 00 01 6B 00 01 76"  # user property "k": "v"
)

# first byte and 17 bytes to follow, packet id, reason, properties
_V5_FULL = [
    Golden("PUBACK full", V5, SERVER, bytes.fromhex("40 11 00 0A 87" + _PROPERTIES), Ack(PUBACK, 10, 0x87, _WHY)),
    Golden("PUBREC full", V5, SERVER, bytes.fromhex("50 11 00 0A 97" + _PROPERTIES), Ack(PUBREC, 10, 0x97, _WHY)),
    Golden("PUBREL full", V5, SERVER, bytes.fromhex("62 11 00 0A 92" + _PROPERTIES), Ack(PUBREL, 10, 0x92, _WHY)),
    Golden("PUBCOMP full", V5, SERVER, bytes.fromhex("70 11 00 0A 92" + _PROPERTIES), Ack(PUBCOMP, 10, 0x92, _WHY)),
    # Success has to be written out when properties follow it.
    Golden("PUBACK success full", V5, CLIENT, bytes.fromhex("40 11 00 0A 00" + _PROPERTIES), Ack(PUBACK, 10, 0, _WHY)),
    Golden("PUBREC success full", V5, CLIENT, bytes.fromhex("50 11 00 0A 00" + _PROPERTIES), Ack(PUBREC, 10, 0, _WHY)),
    Golden("PUBREL success full", V5, CLIENT, bytes.fromhex("62 11 00 0A 00" + _PROPERTIES), Ack(PUBREL, 10, 0, _WHY)),
    Golden(
        "PUBCOMP success full", V5, CLIENT, bytes.fromhex("70 11 00 0A 00" + _PROPERTIES), Ack(PUBCOMP, 10, 0, _WHY)
    ),
]


def _written_out(name: str, kind: int, first: str) -> list[Golden]:
    """The same success and failure in the longer forms that the standard allows."""
    failure = 0x92 if kind in (PUBREL, PUBCOMP) else 0x80
    return [
        # packet id, reason
        Golden(
            f"{name} explicit success", V5, CLIENT, bytes.fromhex(f"{first} 03 00 01 00"), Ack(kind, 1), shortest=False
        ),
        # packet id, reason, no properties
        Golden(
            f"{name} explicit success, no properties",
            V5,
            CLIENT,
            bytes.fromhex(f"{first} 04 00 01 00 00"),
            Ack(kind, 1),
            shortest=False,
        ),
        Golden(
            f"{name} failure, no properties",
            V5,
            CLIENT,
            bytes.fromhex(f"{first} 04 00 01 {failure:02X} 00"),
            Ack(kind, 1, failure),
            shortest=False,
        ),
    ]


ACKS = [
    *_V3,
    *_V5_SHORT,
    *_V5_FULL,
    *_written_out("PUBACK", PUBACK, "40"),
    *_written_out("PUBREC", PUBREC, "50"),
    *_written_out("PUBREL", PUBREL, "62"),
    *_written_out("PUBCOMP", PUBCOMP, "70"),
]
