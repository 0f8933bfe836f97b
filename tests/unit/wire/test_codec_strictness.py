"""Rules that hold for every packet: first byte, direction, length."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import CLIENT, SERVER, V5, V31, V311
from holdfast.wire.codec import decode, decode_all, encode
from holdfast.wire.framing import Framer
from tests.formats.standard import FROM_CLIENT_ONLY, FROM_SERVER_ONLY, PACKET_TYPES
from tests.unit.wire.refusals import MALFORMED, PROTOCOL, Refusal, assert_refused, decode_bytes

pytestmark = pytest.mark.compiled

#: Table 2-2: the flags of each type, as the low half of the first byte. DUP, QoS and RETAIN vary in PUBLISH only:
#: no DUP with QoS 0 [MQTT-3.3.1-2], no QoS 3 [MQTT-3.3.1-4].
FLAGS = {name: {0b0000} for name in PACKET_TYPES} | {
    "PUBLISH": {0b0000, 0b0001, 0b0010, 0b0011, 0b1010, 0b1011, 0b0100, 0b0101, 0b1100, 0b1101},
    "PUBREL": {0b0010},  # [MQTT-3.6.1-1]
    "SUBSCRIBE": {0b0010},  # [MQTT-3.8.1-1]
    "UNSUBSCRIBE": {0b0010},  # [MQTT-3.10.1-1]
}
#: MQTT 3.1 sends these three as QoS 1, so they may come again with DUP.
DUP_IN_3_1 = ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE")

#: A valid packet of every type in MQTT 5.
VALID = {
    "CONNECT": "10 0D 0004 4D515454 05 02 0000 00 0000",
    "CONNACK": "20 03 00 00 00",
    "PUBLISH": "30 04 0001 74 00",
    "PUBACK": "40 02 0001",
    "PUBREC": "50 02 0001",
    "PUBREL": "62 02 0001",
    "PUBCOMP": "70 02 0001",
    "SUBSCRIBE": "82 07 0001 00 0001 74 00",
    "SUBACK": "90 04 0001 00 00",
    "UNSUBSCRIBE": "A2 06 0001 00 0001 74",
    "UNSUBACK": "B0 04 0001 00 00",
    "PINGREQ": "C0 00",
    "PINGRESP": "D0 00",
    "DISCONNECT": "E0 00",
    "AUTH": "F0 06 18 04 15 0001 6D",
}


def lawful_first_bytes(version: int) -> set[int]:
    lawful = {PACKET_TYPES[name] << 4 | flags for name, allowed in FLAGS.items() for flags in allowed}
    if version == V31:
        lawful |= {PACKET_TYPES[name] << 4 | 0b1010 for name in DUP_IN_3_1}
    return lawful - ({0xF0} if version in (V31, V311) else set())


def refusal_of_first_byte(first: int, version: int) -> int | None:
    framer = Framer()
    framer.speak(version)
    framer.feed(bytes((first,)))
    try:
        assert not framer.advance(), "no packet has one byte"
    except PeerError as error:
        return error.reason
    return None


# [MQTT-2.1.3-1]; v3 [MQTT-2.2.2-1] v3 [MQTT-2.2.2-2]. 0 is a connection whose CONNECT has not come yet.
@pytest.mark.parametrize("version", [0, V31, V311, V5])
def test_a_packet_begins_with_one_of_the_lawful_first_bytes(version: int) -> None:
    answers = {first: refusal_of_first_byte(first, version) for first in range(256)}

    assert {first for first, answer in answers.items() if answer is None} == lawful_first_bytes(version)
    assert set(answers.values()) == {None, MALFORMED}


@pytest.mark.parametrize("version", [V31, V311])
def test_auth_does_not_exist_before_mqtt_5(version: int) -> None:
    with pytest.raises(PeerError) as by_framer:
        decode_bytes(bytes.fromhex("F0 00"), version)
    with pytest.raises(PeerError) as by_decoder:
        decode(b"", 0xF0, 0, 0, version, CLIENT)

    assert (by_framer.value.reason, by_decoder.value.reason) == (MALFORMED, MALFORMED)


@pytest.mark.parametrize("name", PACKET_TYPES)
def test_a_packet_is_taken_only_from_the_side_that_may_send_it(name: str) -> None:
    wrong_side = SERVER if name in FROM_CLIENT_ONLY else CLIENT if name in FROM_SERVER_ONLY else None
    wire = bytes.fromhex(VALID[name])

    for sender, side in ((CLIENT, "client"), (SERVER, "server")):
        if sender == wrong_side:
            with pytest.raises(PeerError, match=f"{name} sent by a {side}") as caught:
                decode_bytes(wire, V5, sender)
            assert caught.value.reason == PROTOCOL
        else:
            (packet,) = decode_bytes(wire, V5, sender)
            assert encode(packet, V5) == wire


@pytest.mark.parametrize("name", [name for name in PACKET_TYPES if name not in ("PUBLISH", "SUBACK", "UNSUBACK")])
def test_a_byte_behind_the_last_field_makes_a_packet_malformed(name: str) -> None:
    wire = bytes.fromhex(VALID[name])
    # Acknowledgements and endings have optional fields, so those are written out before the byte too many.
    optional = {"PUBACK": "00 00", "PUBREC": "00 00", "PUBREL": "00 00", "PUBCOMP": "00 00", "DISCONNECT": "00 00"}
    body = wire[2:].hex() + optional.get(name, "") + "00"
    sender = SERVER if name in FROM_SERVER_ONLY else CLIENT
    # Behind a list of filters one byte is half a length.
    says = "topic filter" if name in ("SUBSCRIBE", "UNSUBSCRIBE") else f"1 bytes too many in {name}"

    assert_refused(Refusal("trailing byte", wire[:1].hex(), body, MALFORMED, says, V5, sender))


@pytest.mark.parametrize(("name", "first"), [("PINGREQ", "C0"), ("PINGRESP", "D0")])
@pytest.mark.parametrize("version", [V31, V311, V5])
def test_a_ping_has_no_body(name: str, first: str, version: int) -> None:
    sender = CLIENT if name == "PINGREQ" else SERVER

    assert_refused(Refusal("3.12 3.13", first, "00", MALFORMED, "1 bytes too many", version, sender))


def test_packets_before_a_bad_one_are_decoded_and_the_bad_one_is_reported() -> None:
    framer = Framer()
    framer.speak(V311)
    framer.feed(bytes.fromhex("C0 00  40 02 0001  40 02 0000  C0 00"))

    kinds = []
    for _ in range(2):
        assert framer.advance()
        decode(framer.data, framer.first, framer.body, framer.end, V311, CLIENT)
        kinds.append(framer.first >> 4)

    assert kinds == [PACKET_TYPES["PINGREQ"], PACKET_TYPES["PUBACK"]]
    assert framer.advance()
    with pytest.raises(PeerError, match="packet id 0"):
        decode(framer.data, framer.first, framer.body, framer.end, V311, CLIENT)


@pytest.mark.parametrize("name", VALID)
def test_a_packet_is_decoded_in_place_wherever_it_lies(name: str) -> None:
    wire = bytes.fromhex(VALID[name])
    sender = SERVER if name in FROM_SERVER_ONLY else CLIENT
    around = b"\xff" * 3 + wire + b"\xff" * 3

    packet = decode(around, wire[0], 5, 3 + len(wire), V5, sender)

    assert [packet] == decode_all(Framer(), wire, V5, sender)
