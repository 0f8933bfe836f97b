"""Messages owed to clients: by what a session knows them, and what they count."""

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued, OwedRetained, place_of

pytestmark = pytest.mark.compiled


def message() -> Message:
    made = Message(b"topic", b"payload", 1, ClientId("publisher"), 0, properties=b"xyz")
    made.shard, made.position_us = 3, 77
    return made


def test_a_message_of_the_log_is_known_by_shard_and_position() -> None:
    assert place_of(Owed(message(), 1)) == (3, 77)


def test_a_message_of_an_external_queue_is_known_by_its_serial() -> None:
    owed = OwedQueued(message(), 1, retain=False, identifiers=(), serial=9)

    assert place_of(owed) == (QUEUE_SHARD, 9)


def test_topic_payload_and_properties_count_toward_limits() -> None:
    assert Owed(message(), 1).size_bytes == len(b"topic" + b"payload" + b"xyz")


def test_a_retained_message_has_the_retain_flag() -> None:
    assert OwedRetained(message(), 1, identifiers=(), newest=4).retain
