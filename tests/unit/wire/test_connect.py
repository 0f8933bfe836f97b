"""CONNECT and CONNACK: what the decoder refuses, and with which reason."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import SERVER, V5, V31, V311
from holdfast.wire.connect import connect_version
from holdfast.wire.packets import Connack, Connect
from tests.unit.wire.refusals import (
    MALFORMED,
    PROTOCOL,
    WRONG_CLIENT_ID,
    WRONG_VERSION,
    Refusal,
    assert_refused,
    decode_one,
)

pytestmark = pytest.mark.compiled

# Protocol name and level.
MQTT3 = "0004 4D515454 04"
MQTT5 = "0004 4D515454 05"
MQISDP = "0006 4D5149736470 03"

V5_CASES = [
    Refusal("[MQTT-3.1.2-1] name in lower case", "10", "0004 6D717474 05 02 0000 00 0001 61", WRONG_VERSION, "mqtt"),
    Refusal("[MQTT-3.1.2-1] empty name", "10", "0000 05 02 0000 00 0001 61", WRONG_VERSION, "b''"),
    Refusal("[MQTT-3.1.2-1] longer name", "10", "0005 4D51545431 05 02 0000 00 0001 61", WRONG_VERSION, "MQTT1"),
    Refusal(
        "[MQTT-3.1.2-1] 3.1 name, level 5", "10", "0006 4D5149736470 05 02 0000 00 0001 61", WRONG_VERSION, "MQIsdp"
    ),
    Refusal("[MQTT-3.1.2-1] 3.1 name, level 4", "10", "0006 4D5149736470 04 02 0000 0001 61", WRONG_VERSION, "level 4"),
    Refusal(
        "[MQTT-3.1.2-2] level 3 with the new name", "10", "0004 4D515454 03 02 0000 0001 61", WRONG_VERSION, "level 3"
    ),
    Refusal("[MQTT-3.1.2-2] level 6", "10", "0004 4D515454 06 02 0000 00 0001 61", WRONG_VERSION, "level 6"),
    Refusal("[MQTT-3.1.2-2] level 0", "10", "0004 4D515454 00 02 0000 00 0001 61", WRONG_VERSION, "level 0"),
    Refusal(
        "[MQTT-3.1.2-2] bridge bit of MQTT 5", "10", "0004 4D515454 85 02 0000 00 0001 61", WRONG_VERSION, "level 133"
    ),
    Refusal(
        "[MQTT-3.1.2-2] bridge bit, wrong name", "10", "0004 4D515454 83 02 0000 0001 61", WRONG_VERSION, "level 131"
    ),
    Refusal(
        "[MQTT-3.1.2-3] reserved connect flag", "10", MQTT5 + "03 0000 00 0001 61", MALFORMED, "reserved connect flag"
    ),
    Refusal("[MQTT-3.1.2-9] will without its fields", "10", MQTT5 + "06 0000 00 0001 61", MALFORMED, "property length"),
    Refusal("[MQTT-3.1.2-9] will without topic", "10", MQTT5 + "06 0000 00 0001 61 00", MALFORMED, "will topic"),
    Refusal(
        "[MQTT-3.1.2-9] will without payload", "10", MQTT5 + "06 0000 00 0001 61 00 0001 77", MALFORMED, "will payload"
    ),
    Refusal("[MQTT-3.1.2-11] will QoS without will", "10", MQTT5 + "0A 0000 00 0001 61", MALFORMED, "without a will"),
    Refusal("[MQTT-3.1.2-11] will QoS 3 without will", "10", MQTT5 + "1A 0000 00 0001 61", MALFORMED, "without a will"),
    Refusal(
        "[MQTT-3.1.2-12] will QoS 3", "10", MQTT5 + "1E 0000 00 0001 61 00 0001 77 0000", MALFORMED, "will QoS is 3"
    ),
    Refusal(
        "[MQTT-3.1.2-13] will retain without will", "10", MQTT5 + "22 0000 00 0001 61", MALFORMED, "without a will"
    ),
    Refusal(
        "[MQTT-3.1.2-16] user name without flag",
        "10",
        MQTT5 + "02 0000 00 0001 61 0001 75",
        MALFORMED,
        "3 bytes too many",
    ),
    Refusal("[MQTT-3.1.2-17] flag without user name", "10", MQTT5 + "82 0000 00 0001 61", MALFORMED, "user name"),
    Refusal(
        "[MQTT-3.1.2-18] password without flag",
        "10",
        MQTT5 + "82 0000 00 0001 61 0001 75 0001 70",
        MALFORMED,
        "too many",
    ),
    Refusal("[MQTT-3.1.2-19] flag without password", "10", MQTT5 + "C2 0000 00 0001 61 0001 75", MALFORMED, "password"),
    Refusal("[MQTT-3.1.3-3] no client id", "10", MQTT5 + "02 0000 00", MALFORMED, "client id"),
    Refusal(
        "[MQTT-3.1.3-4] client id is no UTF-8", "10", MQTT5 + "02 0000 00 0001 FF", MALFORMED, "client id is not valid"
    ),
    Refusal("[MQTT-1.5.4-2] U+0000 in the client id", "10", MQTT5 + "02 0000 00 0002 6100", MALFORMED, "U+0000"),
    Refusal("client id past the end", "10", MQTT5 + "02 0000 00 0002 61", MALFORMED, "client id"),
    Refusal(
        "[MQTT-3.1.3-11] will topic is no UTF-8", "10", MQTT5 + "06 0000 00 0001 61 00 0001 FF 0000", MALFORMED, "UTF-8"
    ),
    Refusal("[MQTT-4.7.3-1] empty will topic", "10", MQTT5 + "06 0000 00 0001 61 00 0000 0000", PROTOCOL, "empty"),
    Refusal(
        "[MQTT-4.7.0-1] will topic with #", "10", MQTT5 + "06 0000 00 0001 61 00 0001 23 0000", MALFORMED, "wildcard"
    ),
    Refusal(
        "[MQTT-4.7.0-1] will topic with +", "10", MQTT5 + "06 0000 00 0001 61 00 0001 2B 0000", MALFORMED, "wildcard"
    ),
    Refusal("will payload past the end", "10", MQTT5 + "06 0000 00 0001 61 00 0001 77 0001", MALFORMED, "will payload"),
    Refusal("will properties past the end", "10", MQTT5 + "06 0000 00 0001 61 02 01", MALFORMED, "properties run past"),
    Refusal(
        "[MQTT-3.1.3-12] user name is no UTF-8", "10", MQTT5 + "82 0000 00 0001 61 0001 80", MALFORMED, "user name"
    ),
    Refusal("password past the end", "10", MQTT5 + "42 0000 00 0001 61 0002 70", MALFORMED, "password"),
    Refusal("trailing byte", "10", MQTT5 + "02 0000 00 0001 61 00", MALFORMED, "1 bytes too many in CONNECT"),
    Refusal("empty body", "10", "", MALFORMED, "protocol name"),
    Refusal("cut within the name", "10", "0004 4D51", MALFORMED, "protocol name"),
    Refusal("cut before the level", "10", "0004 4D515454", MALFORMED, "protocol level"),
    Refusal("cut before the flags", "10", MQTT5, MALFORMED, "connect flags"),
    Refusal("cut within the keep alive", "10", MQTT5 + "02 00", MALFORMED, "keep alive"),
    Refusal("cut before the properties", "10", MQTT5 + "02 0000", MALFORMED, "property length"),
    Refusal("properties past the end", "10", MQTT5 + "02 0000 04 21 0001", MALFORMED, "properties run past"),
]

V3_CASES = [
    Refusal(
        "v3 [MQTT-3.1.2-3] reserved flag", "10", MQTT3 + "03 0000 0001 61", MALFORMED, "reserved connect flag", V311
    ),
    Refusal(
        "v3 [MQTT-3.1.2-13] will QoS without will", "10", MQTT3 + "12 0000 0001 61", MALFORMED, "without a will", V311
    ),
    Refusal("v3 [MQTT-3.1.2-14] will QoS 3", "10", MQTT3 + "1E 0000 0001 61 0001 77 0000", MALFORMED, "QoS is 3", V311),
    Refusal("v3 [MQTT-3.1.2-15] will retain without will", "10", MQTT3 + "22 0000 0001 61", MALFORMED, "without", V311),
    Refusal("v3 [MQTT-3.1.2-19] no user name", "10", MQTT3 + "82 0000 0001 61", MALFORMED, "user name", V311),
    Refusal("v3 [MQTT-3.1.2-21] no password", "10", MQTT3 + "C2 0000 0001 61 0001 75", MALFORMED, "password", V311),
    Refusal(
        "v3 [MQTT-3.1.2-22] password without user name",
        "10",
        MQTT3 + "42 0000 0001 61 0001 70",
        MALFORMED,
        "without a user name",
        V311,
    ),
    Refusal(
        "v3 [MQTT-3.1.3-8] no id, no clean session", "10", MQTT3 + "00 0000 0000", WRONG_CLIENT_ID, "client id", V311
    ),
    Refusal("v3 [MQTT-4.7.3-1] empty will topic", "10", MQTT3 + "06 0000 0001 61 0000 0000", PROTOCOL, "empty", V311),
    Refusal("properties of MQTT 5", "10", MQTT3 + "02 0000 00 0001 61", MALFORMED, "too many in CONNECT", V311),
    Refusal("3.1: empty client id", "10", MQISDP + "02 0000 0000", WRONG_CLIENT_ID, "client id", V31),
    Refusal("3.1: will QoS 3", "10", MQISDP + "1E 0000 0001 61 0001 77 0000", MALFORMED, "QoS is 3", V31),
    Refusal(
        "3.1: password flag alone", "10", MQISDP + "42 0000 0001 61 0001 70", MALFORMED, "without a user name", V31
    ),
    Refusal("3.1: half a user name", "10", MQISDP + "82 0000 0001 61 0002 75", MALFORMED, "user name", V31),
]

CONNACK_CASES = [
    Refusal("[MQTT-3.2.2-1] reserved flag bit 1", "20", "02 00 00", MALFORMED, "reserved", V5, SERVER),
    Refusal("[MQTT-3.2.2-1] reserved flag bit 7", "20", "80 00 00", MALFORMED, "reserved", V5, SERVER),
    Refusal("[MQTT-3.2.2-6] session present in a refusal", "20", "01 87 00", PROTOCOL, "session present", V5, SERVER),
    Refusal("[MQTT-3.2.2-8] a code of another packet", "20", "00 8E 00", PROTOCOL, "0x8E", V5, SERVER),
    Refusal("[MQTT-3.2.2-8] a code that does not exist", "20", "00 05 00", PROTOCOL, "0x05", V5, SERVER),
    Refusal("no properties", "20", "00 00", MALFORMED, "property length", V5, SERVER),
    Refusal("no reason", "20", "00", MALFORMED, "connect reason", V5, SERVER),
    Refusal("empty body", "20", "", MALFORMED, "acknowledge flags", V5, SERVER),
    Refusal("trailing byte", "20", "00 00 00 00", MALFORMED, "1 bytes too many", V5, SERVER),
    Refusal("v3 3.2.2.1 reserved flag", "20", "02 00", MALFORMED, "reserved", V311, SERVER),
    Refusal("v3 [MQTT-3.2.2-4] session present in a refusal", "20", "01 05", PROTOCOL, "session present", V311, SERVER),
    Refusal("v3 3.2.2.3 return code 6", "20", "00 06", PROTOCOL, "0x06", V311, SERVER),
    Refusal("properties of MQTT 5", "20", "00 00 00", MALFORMED, "1 bytes too many", V311, SERVER),
    Refusal("3.1: return code 6", "20", "00 06", PROTOCOL, "0x06", V31, SERVER),
]


@pytest.mark.parametrize("case", [*V5_CASES, *V3_CASES, *CONNACK_CASES], ids=str)
def test_a_violation_is_refused_with_its_reason(case: Refusal) -> None:
    assert_refused(case)


@pytest.mark.parametrize(
    ("body", "version"),
    [(MQTT5 + "02 0000 00 0001 61", V5), (MQTT3 + "02 0000 0001 61", V311), (MQISDP + "02 0000 0001 61", V31)],
)
def test_the_packet_that_the_cases_bend_is_valid(body: str, version: int) -> None:
    assert decode_one("10", body, version) == Connect(version, "a")
    assert decode_one("20", "00 00" + ("00" if version == V5 else ""), version, SERVER) == Connack()


@pytest.mark.parametrize("flags", range(256), ids=lambda flags: f"{flags:08b}")
def test_connect_flags_are_accepted_exactly_when_they_do_not_contradict_each_other(flags: int) -> None:
    will, user_name, password = bool(flags & 0x04), bool(flags & 0x80), bool(flags & 0x40)
    fields = "0001 77 0000" if will else ""
    fields += ("0001 75" if user_name else "") + ("0001 70" if password else "")
    lawful = not flags & 0x01 and (flags >> 3 & 3 != 3 if will else not flags & 0x38) and (user_name or not password)
    body = f"{MQTT3} {flags:02X} 0000 0001 61 {fields}"

    if not lawful:
        with pytest.raises(PeerError):
            decode_one("10", body, V311)
        return

    packet = decode_one("10", body, V311)
    assert isinstance(packet, Connect)
    assert packet.clean_start == bool(flags & 0x02)
    assert (packet.user_name, packet.password) == ("u" if user_name else None, b"p" if password else None)
    assert (packet.will is not None) == will
    if packet.will is not None:
        assert (packet.will.qos, packet.will.retain) == (flags >> 3 & 3, bool(flags & 0x20))


def test_mqtt_3_1_lets_a_client_leave_out_the_password_that_its_flag_announces() -> None:
    assert decode_one("10", MQISDP + "C2 0000 0001 61 0001 75", V31) == Connect(V31, "a", user_name="u")


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (MQTT5, V5),
        (MQTT3, V311),
        (MQISDP, V31),
        (MQTT5 + "FF", V5),  # what follows may be as wrong as it likes
        ("0004 4D515454 03", 0),
        ("0004 4D515454 06", 0),
        ("0006 4D5149736470 04", 0),
        ("0006 4D5149736471 03", 0),  # "MQIsdq"
        ("0004 4D515455 05", 0),  # "MQTU"
        ("0004 4D515454", 0),
        ("0006 4D5149736470", 0),
        ("0004 4D51", 0),
        ("", 0),
    ],
)
def test_the_version_of_a_connect_is_known_before_it_is_decoded(body: str, version: int) -> None:
    assert connect_version(bytes.fromhex(body)) == version


def test_a_refused_protocol_is_not_repeated_at_length() -> None:
    with pytest.raises(PeerError) as caught:
        decode_one("10", "0064" + "41" * 100 + "05")

    assert len(caught.value.detail) < 120
