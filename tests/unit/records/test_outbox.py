"""The outbox as records: messages for external queues, and queues that are to go."""

import pytest

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

pytestmark = pytest.mark.compiled

MESSAGE = Message(b"a/b", b"payload", 2, ClientId("publisher"), 5)


def test_a_message_comes_back_with_the_options_of_each_client() -> None:
    targets = [("one", Owed(MESSAGE, 2, retain=True, identifiers=(1, 2**28))), ("two", Owed(MESSAGE, 1))]

    message, found = decode_outbox(encode_outbox(MESSAGE, targets))

    assert message == MESSAGE
    assert [(client, owed.qos, owed.retain, owed.identifiers) for client, owed in found] == [
        ("one", 2, True, (1, 2**28)),
        ("two", 1, False, ()),
    ]


@pytest.mark.parametrize("flags", [0x03, 0x08])
def test_flags_that_no_version_wrote_are_damage(flags: int) -> None:
    value = bytearray(encode_outbox(MESSAGE, [("one", Owed(MESSAGE, 1))]))
    value[5 + 2 + 3] = flags

    with pytest.raises(PermanentError, match=f"flags 0x{flags:02X}"):
        decode_outbox(bytes(value))


def test_a_queue_that_is_to_go_and_the_ceiling_come_back() -> None:
    assert decode_queue_drop(encode_queue_drop("redis", "one")) == ("redis", "one")
    assert decode_outbox_ceiling(encode_outbox_ceiling(2**64 - 1)) == 2**64 - 1
    for decode in (decode_queue_drop, decode_outbox_ceiling):
        with pytest.raises(PermanentError):
            decode(b"\x02")
