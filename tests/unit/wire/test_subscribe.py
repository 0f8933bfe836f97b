"""SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK: what the decoder refuses, and with which reason."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import SERVER, V5, V31, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from tests.formats.standard import REASONS
from tests.unit.wire.refusals import MALFORMED, PROTOCOL, Refusal, assert_refused, decode_one, refusal_of

pytestmark = pytest.mark.compiled

#: "$share/g/t" with its length.
SHARED = "000A 24736861 72652F67 2F74"

SUBSCRIBE_CASES = [
    Refusal("[MQTT-2.2.1-3] packet id 0", "82", "0000 00 0001 74 00", PROTOCOL, "packet id 0"),
    Refusal("[MQTT-3.8.3-1] filter is no UTF-8", "82", "0001 00 0001 FF 00", MALFORMED, "filter is not valid UTF-8"),
    Refusal("[MQTT-1.5.4-2] U+0000 in the filter", "82", "0001 00 0001 00 00", MALFORMED, "U+0000"),
    Refusal("[MQTT-1.5.4-1] surrogate in the filter", "82", "0001 00 0003 EDA080 00", MALFORMED, "UTF-8"),
    Refusal("[MQTT-3.8.3-2] no filter", "82", "0001 00", PROTOCOL, "without a topic filter"),
    Refusal("[MQTT-3.8.3-4] no local on a shared filter", "82", f"0001 00 {SHARED} 04", PROTOCOL, "no local"),
    Refusal("[MQTT-3.8.3-5] reserved option bit 6", "82", "0001 00 0001 74 40", MALFORMED, "reserved"),
    Refusal("[MQTT-3.8.3-5] reserved option bit 7", "82", "0001 00 0001 74 80", MALFORMED, "reserved"),
    Refusal("3.8.3.1 QoS 3", "82", "0001 00 0001 74 03", PROTOCOL, "QoS 3"),
    Refusal("3.8.3.1 retain handling 3", "82", "0001 00 0001 74 30", PROTOCOL, "retain handling 3"),
    Refusal("3.8.3.1 in the second line", "82", "0001 00 0001 74 00 0001 75 03", PROTOCOL, "QoS 3"),
    Refusal("[MQTT-4.7.3-1] empty filter", "82", "0001 00 0000 00", MALFORMED, "empty"),
    Refusal("[MQTT-4.7.1-1] # before the end", "82", "0001 00 0003 232F61 00", MALFORMED, "'#'"),
    Refusal("[MQTT-4.7.1-1] # within a level", "82", "0001 00 0002 6123 00", MALFORMED, "'#'"),
    Refusal("[MQTT-4.7.1-2] + within a level", "82", "0001 00 0002 612B 00", MALFORMED, "'+'"),
    Refusal("[MQTT-4.8.2-1] no share name", "82", "0001 00 0009 2473686172652F2F74 00", MALFORMED, "$share"),
    Refusal("[MQTT-4.8.2-2] + in the name", "82", "0001 00 000A 2473686172652F2B2F74 00", MALFORMED, "$share"),
    Refusal("[MQTT-4.8.2-2] # in the name", "82", "0001 00 000A 2473686172652F232F74 00", MALFORMED, "$share"),
    Refusal("[MQTT-4.8.2-2] nothing behind the name", "82", "0001 00 0008 2473686172652F67 00", MALFORMED, "$share"),
    Refusal("[MQTT-4.8.2-2] no filter behind it", "82", "0001 00 0009 2473686172652F672F 00", MALFORMED, "$share"),
    Refusal("3.8.2.1.2 identifier 0", "82", "0001 02 0B 00 0001 74 00", PROTOCOL, "is 0"),
    Refusal("3.8.2.1.2 identifier twice", "82", "0001 04 0B 01 0B 02 0001 74 00", PROTOCOL, "stands twice"),
    Refusal("1.5.5 identifier of five bytes", "82", "0001 06 0B 80808080 01 0001 74 00", MALFORMED, "more than four"),
    Refusal("[MQTT-1.5.5-1] identifier 1 in two bytes", "82", "0001 03 0B 8100 0001 74 00", MALFORMED, "than it needs"),
    Refusal("no options", "82", "0001 00 0001 74", MALFORMED, "subscription options"),
    Refusal("no options in the second line", "82", "0001 00 0001 74 00 0001 75", MALFORMED, "subscription options"),
    Refusal("filter past the end", "82", "0001 00 0003 7474", MALFORMED, "topic filter"),
    Refusal("half a filter length", "82", "0001 00 0001 74 00 00", MALFORMED, "topic filter"),
    Refusal("no properties", "82", "0001", MALFORMED, "property length"),
    Refusal("properties past the end", "82", "0001 03 0B 01", MALFORMED, "properties run past"),
    Refusal("empty body", "82", "", MALFORMED, "packet id"),
    Refusal("v3 [MQTT-2.3.1-1] packet id 0", "82", "0000 0001 74 00", PROTOCOL, "packet id 0", V311),
    Refusal("v3 [MQTT-3.8.3-3] no filter", "82", "0001", PROTOCOL, "without a topic filter", V311),
    Refusal("v3 [MQTT-3.8.3-4] QoS 3", "82", "0001 0001 74 03", MALFORMED, "QoS 3", V311),
    *[
        Refusal(
            f"v3 [MQTT-3.8.3-4] reserved bit {bit}", "82", f"0001 0001 74 {1 << bit:02X}", MALFORMED, "reserved", V311
        )
        for bit in range(2, 8)
    ],
    Refusal("3.1: packet id 0", "82", "0000 0001 74 00", PROTOCOL, "packet id 0", V31),
    Refusal("3.1: QoS 3", "82", "0001 0001 74 03", MALFORMED, "QoS 3", V31),
    Refusal("3.1: no filter", "82", "0001", PROTOCOL, "without a topic filter", V31),
]

UNSUBSCRIBE_CASES = [
    Refusal("[MQTT-2.2.1-3] packet id 0", "A2", "0000 00 0001 74", PROTOCOL, "packet id 0"),
    Refusal("[MQTT-3.10.3-1] filter is no UTF-8", "A2", "0001 00 0001 FF", MALFORMED, "UTF-8"),
    Refusal("[MQTT-3.10.3-2] no filter", "A2", "0001 00", PROTOCOL, "without a topic filter"),
    Refusal("[MQTT-4.7.3-1] empty filter", "A2", "0001 00 0000", MALFORMED, "empty"),
    Refusal("[MQTT-4.7.1-1] # before the end", "A2", "0001 00 0003 232F61", MALFORMED, "'#'"),
    Refusal("filter past the end", "A2", "0001 00 0002 74", MALFORMED, "topic filter"),
    Refusal("no properties", "A2", "0001", MALFORMED, "property length"),
    Refusal("v3 [MQTT-2.3.1-1] packet id 0", "A2", "0000 0001 74", PROTOCOL, "packet id 0", V311),
    Refusal("v3 [MQTT-3.10.3-2] no filter", "A2", "0001", PROTOCOL, "without a topic filter", V311),
    Refusal("3.1: no filter", "A2", "0001", PROTOCOL, "without a topic filter", V31),
]

ANSWER_CASES = [
    Refusal("2.2.1 SUBACK with packet id 0", "90", "0000 00 00", PROTOCOL, "packet id 0", V5, SERVER),
    Refusal("3.9.3 SUBACK without a reason", "90", "0001 00", PROTOCOL, "without a reason", V5, SERVER),
    Refusal("SUBACK without properties", "90", "0001", MALFORMED, "property length", V5, SERVER),
    Refusal("v3 3.9.3 SUBACK without a return code", "90", "0001", PROTOCOL, "without a reason", V311, SERVER),
    Refusal("v3 [MQTT-3.9.3-2] SUBACK with a code of MQTT 5", "90", "0001 87", PROTOCOL, "0x87", V311, SERVER),
    Refusal("v3 [MQTT-3.9.3-2] SUBACK with return code 3", "90", "0001 03", PROTOCOL, "0x03", V311, SERVER),
    Refusal("2.2.1 UNSUBACK with packet id 0", "B0", "0000 00 00", PROTOCOL, "packet id 0", V5, SERVER),
    Refusal("3.11.3 UNSUBACK without a reason", "B0", "0001 00", PROTOCOL, "without a reason", V5, SERVER),
    Refusal("UNSUBACK without properties", "B0", "0001", MALFORMED, "property length", V5, SERVER),
    Refusal("v3 3.11.3 UNSUBACK with a payload", "B0", "0001 00", MALFORMED, "1 bytes too many", V311, SERVER),
    Refusal("3.1: UNSUBACK with a payload", "B0", "0001 00", MALFORMED, "1 bytes too many", V31, SERVER),
]


@pytest.mark.parametrize("case", SUBSCRIBE_CASES, ids=str)
def test_a_violation_in_subscribe_is_refused_with_its_reason(case: Refusal) -> None:
    assert_refused(case)


@pytest.mark.parametrize("case", UNSUBSCRIBE_CASES, ids=str)
def test_a_violation_in_unsubscribe_is_refused_with_its_reason(case: Refusal) -> None:
    assert_refused(case)


@pytest.mark.parametrize("case", ANSWER_CASES, ids=str)
def test_a_violation_in_an_answer_is_refused_with_its_reason(case: Refusal) -> None:
    assert_refused(case)


def test_the_packets_that_the_cases_bend_are_valid() -> None:
    topic_filter = parse_filter(b"t")
    shared = parse_filter(b"$share/g/t")

    assert decode_one("82", "0001 00 0001 74 00") == Subscribe(1, (Subscription(topic_filter),))
    assert decode_one("82", "0001 0001 74 00", V311) == Subscribe(1, (Subscription(topic_filter),))
    assert decode_one("82", f"0001 00 {SHARED} 00") == Subscribe(1, (Subscription(shared),))
    assert decode_one("A2", "0001 00 0001 74") == Unsubscribe(1, (topic_filter,))
    assert decode_one("90", "0001 00 00", V5, SERVER) == Suback(1, (0,))
    assert decode_one("B0", "0001 00 00", V5, SERVER) == Unsuback(1, (0,))


@pytest.mark.parametrize("options", range(256), ids=lambda options: f"{options:08b}")
def test_options_are_accepted_exactly_when_every_bit_has_a_meaning(options: int) -> None:
    qos, retain_handling, reserved = options & 3, options >> 4 & 3, options >> 6
    body = f"0001 00 0001 74 {options:02X}"

    if reserved or qos == 3 or retain_handling == 3:
        with pytest.raises(PeerError) as caught:
            decode_one("82", body)
        assert caught.value.reason == (MALFORMED if reserved else PROTOCOL)
    else:
        line = Subscription(parse_filter(b"t"), qos, bool(options & 4), bool(options & 8), retain_handling)
        assert decode_one("82", body) == Subscribe(1, (line,))


# [MQTT-3.9.3-2] [MQTT-3.11.3-2]
@pytest.mark.parametrize(("name", "first"), [("SUBACK", "90"), ("UNSUBACK", "B0")])
def test_an_answer_carries_exactly_the_reasons_of_its_table(name: str, first: str) -> None:
    answers = {code: refusal_of(first, f"0001 00 {code:02X}", SERVER) for code in range(256)}

    lawful = {code for code, _, packets in REASONS if name in packets.split()}
    assert {code for code, answer in answers.items() if answer is None} == lawful
    assert set(answers.values()) == {None, PROTOCOL}


def test_one_bad_reason_among_good_ones_refuses_the_answer() -> None:
    with pytest.raises(PeerError, match="0x55"):
        decode_one("90", "0001 00 00 01 55 02", V5, SERVER)
