"""Messages: content that never changes, with an optional end."""

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message

pytestmark = pytest.mark.compiled

ANN = ClientId("ann")


def message(
    topic: bytes = b"a/b",
    payload: bytes = b"hi",
    qos: int = 1,
    publisher: ClientId = ANN,
    received_us: int = 10,
    *,
    retain: bool = False,
    properties: bytes = b"",
    expires_us: int = 0,
) -> Message:
    return Message(
        topic, payload, qos, publisher, received_us, retain=retain, properties=properties, expires_us=expires_us
    )


@pytest.mark.parametrize(("now_us", "expired"), [(0, False), (999, False), (1_000, True), (1_001, True)])
def test_a_message_expires_at_its_time_and_stays_expired(now_us: int, expired: bool) -> None:
    assert message(expires_us=1_000).expired(now_us) is expired


@pytest.mark.parametrize("now_us", [0, 1, 2**62])
def test_a_message_without_an_expiry_never_expires(now_us: int) -> None:
    assert not message().expired(now_us)


def test_messages_are_equal_by_content() -> None:
    assert message() == message()
    assert hash(message()) == hash(message())


@pytest.mark.parametrize(
    "other",
    [
        message(topic=b"a/c"),
        message(payload=b"ho"),
        message(qos=2),
        message(publisher=ClientId("bob")),
        message(received_us=11),
        message(retain=True),
        message(properties=b"\x01\x01"),
        message(expires_us=1),
    ],
)
def test_a_difference_in_any_field_makes_another_message(other: Message) -> None:
    assert other != message()
    assert other != b"a/b"


def test_a_payload_is_printed_as_its_size() -> None:
    shown = repr(message(payload=b"personal"))

    assert "personal" not in shown
    assert "8 B" in shown
    assert "a/b" in shown
    assert "ann" in shown
