"""The table of reasons against the tables of the standard, and its translation for MQTT 3."""

import pytest

from holdfast.model import reasons
from holdfast.model.protocol import CLIENT, DISCONNECT, SERVER, SUBACK
from holdfast.model.reasons import allowed_reasons, connack_v3, reason_name
from tests.formats.standard import AUTH_SENDERS, DISCONNECT_SENDERS, PACKET_TYPES, REASONS

pytestmark = pytest.mark.compiled

ANSWERS = ("CONNACK", "SUBACK", "UNSUBACK")


def listed(packet: str) -> set[int]:
    return {code for code, _, packets in REASONS if packet in packets.split()}


@pytest.mark.parametrize(("code", "name", "packets"), REASONS, ids=lambda v: f"{v:02X}" if isinstance(v, int) else None)
def test_a_code_has_its_name_and_its_packets(code: int, name: str, packets: str) -> None:
    rows = [row for row in reasons.REASONS if (row.code, row.name) == (code, name)]

    assert {packet for row in rows for packet in row.packets} == {PACKET_TYPES[packet] for packet in packets.split()}
    assert all(reason_name(code, PACKET_TYPES[packet]) == name for packet in packets.split())


def test_there_are_no_codes_beyond_those_of_the_standard() -> None:
    assert {(row.code, row.name) for row in reasons.REASONS} == {(code, name) for code, name, _ in REASONS}


@pytest.mark.parametrize("sender", [CLIENT, SERVER], ids=["client", "server"])
def test_a_disconnect_carries_the_codes_of_its_sender(sender: int) -> None:
    # Section 3.14.2.1
    expected = {code for code, senders in DISCONNECT_SENDERS.items() if senders & sender}

    assert allowed_reasons(DISCONNECT, sender) == expected


@pytest.mark.parametrize("sender", [CLIENT, SERVER], ids=["client", "server"])
def test_an_auth_carries_the_codes_of_its_sender(sender: int) -> None:
    # Section 3.15.2.1
    expected = {code for code, senders in AUTH_SENDERS.items() if senders & sender}

    assert allowed_reasons(PACKET_TYPES["AUTH"], sender) == expected


@pytest.mark.parametrize("packet", ["PUBACK", "PUBREC", "PUBREL", "PUBCOMP"])
def test_both_sides_acknowledge_with_the_same_codes(packet: str) -> None:
    assert allowed_reasons(PACKET_TYPES[packet], CLIENT) == listed(packet)
    assert allowed_reasons(PACKET_TYPES[packet], SERVER) == listed(packet)


@pytest.mark.parametrize("packet", ANSWERS)
def test_a_servers_answer_carries_the_codes_of_its_table(packet: str) -> None:
    assert allowed_reasons(PACKET_TYPES[packet], SERVER) == listed(packet)


def test_one_code_has_another_name_in_another_packet() -> None:
    assert reason_name(0) == "Success"
    assert reason_name(0, DISCONNECT) == "Normal disconnection"
    assert reason_name(0, SUBACK) == "Granted QoS 0"
    assert reason_name(0x7F) == "Unknown reason"


def test_a_code_in_a_packet_that_cannot_carry_it_still_has_a_name() -> None:
    assert reason_name(0x84, DISCONNECT) == "Unsupported Protocol Version"


#: MQTT 3.1.1, section 3.2.2.3: return code, and the reasons that it stands for.
V3_RETURN_CODES = {
    0: [0x00],
    1: [0x84],
    2: [0x85],
    3: [0x88, 0x89, 0x97, 0x9C, 0x9D, 0x9F],
    4: [0x86],
    5: [0x87, 0x8A, 0x8C],
}


@pytest.mark.parametrize("code", sorted(listed("CONNACK")), ids=lambda code: f"{code:02X}")
def test_every_connack_reason_has_its_mqtt_3_return_code_or_none(code: int) -> None:
    expected = [return_code for return_code, codes in V3_RETURN_CODES.items() if code in codes]

    assert connack_v3(code) == (expected[0] if expected else -1)
