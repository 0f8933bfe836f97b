"""Golden bytes of stored messages: what a released version wrote stays readable, and is written the same."""

import pytest

from holdfast.records.messages import (
    HEADER_BYTES,
    StoredMessage,
    decode_message,
    encode_message,
    stored_position,
    stored_serial,
    stored_topic,
)
from tests.formats.golden_records import MESSAGES

pytestmark = pytest.mark.compiled

CASES = [pytest.param(stored, value, id=name) for name, stored, value in MESSAGES]


@pytest.mark.parametrize(("stored", "value"), CASES)
def test_a_message_is_written_as_its_golden_bytes(stored: StoredMessage, value: bytes) -> None:
    assert encode_message(stored.message, stored.position_us, stored.serial) == value


@pytest.mark.parametrize(("stored", "value"), CASES)
def test_golden_bytes_are_read_as_their_message(stored: StoredMessage, value: bytes) -> None:
    assert decode_message(value) == stored


@pytest.mark.parametrize(("stored", "value"), CASES)
def test_parts_are_read_without_the_rest(stored: StoredMessage, value: bytes) -> None:
    assert stored_topic(value) == stored.message.topic
    assert stored_position(value) == stored.position_us
    assert stored_serial(value) == stored.serial


def test_a_message_carries_42_bytes_of_header_whatever_its_size() -> None:
    """L18: what a small message costs beside its own bytes is known."""
    assert HEADER_BYTES == 42
    for _name, stored, value in MESSAGES:
        message = stored.message
        own = len(message.topic) + len(message.publisher.encode()) + len(message.properties) + len(message.payload)
        assert len(value) == own + 42
