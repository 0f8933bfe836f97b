"""Messages in client queues and in the outbox: what goes in comes out, and damage is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.outbox import (
    decode_outbox,
    decode_outbox_ceiling,
    decode_queue_drop,
    encode_outbox,
    encode_outbox_ceiling,
    encode_queue_drop,
)
from holdfast.records.queued_message import decode_queued, encode_queued, queued_expiry, queued_number

pytestmark = pytest.mark.compiled

NOW_US = 1_700_000_000_000_000
MESSAGES = st.builds(
    Message,
    st.sampled_from([b"a", "grün/1".encode()]),
    st.binary(max_size=50),
    st.integers(1, 2),
    st.sampled_from([ClientId(""), ClientId("p\0q")]),
    st.just(NOW_US),
    retain=st.booleans(),
    properties=st.sampled_from([b"", b"\x01\x01"]),
    expires_us=st.sampled_from([0, NOW_US + 1_000_000, NOW_US + 86_400_000_000]),
)
#: Version, flags, how many identifiers, number, expiry.
HEADER_BYTES = 20
IDENTIFIERS = st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple)
OWED = st.builds(Owed, MESSAGES, st.integers(1, 2), retain=st.booleans(), identifiers=IDENTIFIERS)


def shown(owed: Owed) -> object:
    return owed.message, owed.qos, owed.retain, owed.identifiers


@given(OWED, st.integers(0, 2**63), st.integers(0, 2**62), st.integers(1, 2**62))
def test_a_queued_message_comes_back(owed: Owed, number: int, expires_us: int, serial: int) -> None:
    value = encode_queued(owed, number, expires_us)
    found, found_number, found_expiry_us = decode_queued(value, serial)
    assert shown(found) == shown(owed)
    assert (found.serial, found_number, found_expiry_us) == (serial, number, expires_us)
    assert (queued_number(value), queued_expiry(value)) == (number, expires_us)


@given(OWED)
def test_a_queued_message_that_is_cut_is_not_taken_for_another(owed: Owed) -> None:
    value = encode_queued(owed, 5, 0)
    for end in range(HEADER_BYTES + 4 * len(owed.identifiers) + 1):
        with pytest.raises(PermanentError):
            decode_queued(value[:end], 1)


@pytest.mark.parametrize(
    ("at", "byte", "why"),
    [(0, 9, "has version 9"), (1, 0x08, "has flags 0x08"), (1, 0x03, "has flags 0x03"), (2, 0xFF, "do not fit")],
)
def test_a_queued_message_that_makes_no_sense_is_refused(at: int, byte: int, why: str) -> None:
    value = bytearray(encode_queued(Owed(Message(b"a", b"", 1, ClientId("p"), 1), 1), 5, 0))
    value[at] = byte
    with pytest.raises(PermanentError, match=why):
        decode_queued(bytes(value), 1)


@given(
    MESSAGES, st.lists(st.tuples(st.sampled_from(["c", "m/\0c", "ü"]), st.integers(1, 2), st.booleans()), max_size=3)
)
def test_a_message_in_the_outbox_comes_back(message: Message, targets: list[tuple[str, int, bool]]) -> None:
    given_ = [(client, Owed(message, qos, retain=retain, identifiers=(qos,))) for client, qos, retain in targets]
    value = encode_outbox(message, given_)
    found, found_targets = decode_outbox(value)
    assert found == message
    assert [(client, shown(owed)) for client, owed in found_targets] == [(each[0], shown(each[1])) for each in given_]
    for end in range(5 + sum(len(client.encode()) + 9 for client, _owed in given_)):
        with pytest.raises(PermanentError):
            decode_outbox(value[:end])


def test_what_else_the_outbox_has_comes_back() -> None:
    assert decode_queue_drop(encode_queue_drop("redis", "m/\0c")) == ("redis", "m/\0c")
    assert decode_outbox_ceiling(encode_outbox_ceiling(2**63)) == 2**63
    message = Message(b"a", b"", 1, ClientId(""), 1)
    value = encode_outbox(message, [("c", Owed(message, 1))])
    with pytest.raises(PermanentError, match="flags 0xFF"):
        decode_outbox(value[:8] + b"\xff" + value[9:])
