"""PUBACK, PUBREC, PUBREL, PUBCOMP, DISCONNECT and AUTH: what the decoder refuses, and with which reason."""

import pytest

from holdfast.model.protocol import CLIENT, EITHER, SERVER, V5, V31, V311
from holdfast.wire.packets import Ack, Auth, Disconnect
from holdfast.wire.properties import Properties
from tests.formats.standard import (
    AUTH_SENDERS,
    DISCONNECT_SENDERS,
    PACKET_TYPES,
    REASONS,
)
from tests.unit.wire.refusals import MALFORMED, PROTOCOL, Refusal, assert_refused, decode_one, refusal_of

pytestmark = pytest.mark.compiled

ACKS = {"PUBACK": "40", "PUBREC": "50", "PUBREL": "62", "PUBCOMP": "70"}

ACK_CASES = [
    case
    for name, first in ACKS.items()
    for case in (
        Refusal(f"2.2.1 {name} with packet id 0", first, "0000", PROTOCOL, "packet id 0"),
        Refusal(f"2.2.1 {name} with packet id 0", first, "0000", PROTOCOL, "packet id 0", V311),
        Refusal(f"2.2.1 {name} with packet id 0", first, "0000", PROTOCOL, "packet id 0", V31, SERVER),
        Refusal(f"{name} with an empty body", first, "", MALFORMED, "packet id"),
        Refusal(f"{name} with half a packet id", first, "00", MALFORMED, "packet id"),
        Refusal(f"{name} with half a packet id", first, "00", MALFORMED, "packet id", V311),
        Refusal(f"{name} with a reason in MQTT 3", first, "0001 00", MALFORMED, "1 bytes too many", V311),
        Refusal(f"{name} with a reason in MQTT 3", first, "0001 00", MALFORMED, "1 bytes too many", V31),
        Refusal(f"{name} with a byte behind its properties", first, "0001 00 00 00", MALFORMED, "1 bytes too many"),
        Refusal(f"{name} with properties past the end", first, "0001 00 01", MALFORMED, "properties run past"),
        Refusal(f"{name} with two reason strings", first, "0001 00 06 1F 0000 1F 0000", PROTOCOL, "stands twice"),
        Refusal(f"{name} with a topic alias", first, "0001 00 03 23 0001", MALFORMED, "may not stand"),
    )
]

ENDING_CASES = [
    Refusal("DISCONNECT with a byte too many", "E0", "00 00 00", MALFORMED, "1 bytes too many"),
    Refusal("DISCONNECT with properties past the end", "E0", "00 05 11 0000", MALFORMED, "properties run past"),
    Refusal("v3 3.14 DISCONNECT with a body", "E0", "00", MALFORMED, "1 bytes too many", V311),
    Refusal("3.1: DISCONNECT with a body", "E0", "00", MALFORMED, "1 bytes too many", V31),
    Refusal("v3 3.14 DISCONNECT from a server", "E0", "", PROTOCOL, "does not send", V311, SERVER),
    Refusal("3.1: DISCONNECT from a server", "E0", "", PROTOCOL, "does not send", V31, SERVER),
    Refusal(
        "[MQTT-3.14.2-2] session expiry interval from a server",
        "E0",
        "8B 05 11 00000000",
        PROTOCOL,
        "session expiry",
        V5,
        SERVER,
    ),
    Refusal("3.14.2.2.5 server reference from a client", "E0", "00 04 1C 0001 73", MALFORMED, "server_reference"),
    Refusal("3.14.2.2.2 session expiry twice", "E0", "00 0A 11 00000001 11 00000001", PROTOCOL, "stands twice"),
    Refusal("3.15.2.1 success from a client", "F0", "00 04 15 0001 6D", PROTOCOL, "AUTH from a client"),
    Refusal("3.15.2.1 success from a client, left out", "F0", "", PROTOCOL, "0x00"),
    Refusal("3.15.2.1 re-authenticate from a server", "F0", "19 04 15 0001 6D", PROTOCOL, "from a server", V5, SERVER),
    Refusal("3.15.2.2.2 no method", "F0", "18 00", PROTOCOL, "without an authentication method"),
    Refusal("3.15.2.2.2 no method, no properties", "F0", "18", PROTOCOL, "without an authentication method"),
    Refusal("3.15.2.2.2 no method from a server", "F0", "18 00", PROTOCOL, "without", V5, SERVER),
    Refusal("3.15.2.2.2 two methods", "F0", "18 08 15 0001 6D 15 0001 6D", PROTOCOL, "stands twice"),
    Refusal("3.15.2.2.3 two data", "F0", "18 0A 15 0001 6D 16 0000 16 0000", PROTOCOL, "stands twice"),
    Refusal("3.15.2.2.3 data without method", "F0", "18 03 16 0000", PROTOCOL, "without an authentication method"),
    Refusal("AUTH with a byte too many", "F0", "18 04 15 0001 6D 00", MALFORMED, "1 bytes too many"),
]


@pytest.mark.parametrize("case", [*ACK_CASES, *ENDING_CASES], ids=str)
def test_a_violation_is_refused_with_its_reason(case: Refusal) -> None:
    assert_refused(case)


def lawful_reasons(name: str, sender: int) -> set[int]:
    """What the tables of the standard let `sender` put into the packet."""
    codes = {code for code, _, packets in REASONS if name in packets.split()}
    if name == "DISCONNECT":
        return {code for code in codes if DISCONNECT_SENDERS[code] & sender}
    if name == "AUTH":
        return {code for code in codes if AUTH_SENDERS[code] & sender}
    # 3.4.2.1 and 3.5.2.1 say that only servers send 0x10, but [MQTT-3.4.2-1] [MQTT-3.5.2-1] list it for both sides.
    return codes


# [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT-3.14.2-1] [MQTT-3.15.2-1]
@pytest.mark.parametrize("sender", [CLIENT, SERVER], ids=["client", "server"])
@pytest.mark.parametrize("name", [*ACKS, "DISCONNECT", "AUTH"])
def test_a_packet_carries_exactly_the_reasons_of_its_table(name: str, sender: int) -> None:
    first = ACKS.get(name) or f"{PACKET_TYPES[name]:X}0"
    head = "0001" if name in ACKS else ""
    tail = "04 15 0001 6D" if name == "AUTH" else "00"
    answers = {code: refusal_of(first, f"{head} {code:02X} {tail}", sender) for code in range(256)}

    assert {code for code, answer in answers.items() if answer is None} == lawful_reasons(name, sender)
    assert set(answers.values()) == {None, PROTOCOL}


def test_the_packets_that_the_cases_bend_are_valid() -> None:
    for name, first in ACKS.items():
        assert decode_one(first, "0001 00 00") == Ack(PACKET_TYPES[name], 1)
    assert decode_one("E0", "00 00") == Disconnect()
    assert decode_one("F0", "18 04 15 0001 6D") == Auth(0x18, Properties(authentication_method="m"))


def test_every_disconnect_reason_has_a_sender() -> None:
    listed = {code for code, _, packets in REASONS if "DISCONNECT" in packets.split()}

    assert set(DISCONNECT_SENDERS) == listed
    assert set(DISCONNECT_SENDERS.values()) == {CLIENT, SERVER, EITHER}
