"""Any message that can be stored, for Hypothesis."""

from hypothesis import strategies as st

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import StoredMessage

TIMES_US = st.integers(0, 2**62)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def text_property(identifier: int, *texts: bytes) -> bytes:
    """A property of texts, as MQTT 5 encodes it."""
    return bytes((identifier,)) + b"".join(len(text).to_bytes(2, "big") + text for text in texts)


def _is_topic(text: str) -> bool:
    return bool(text) and "+" not in text and "#" not in text


@st.composite
def properties(draw: st.DrawFn) -> bytes:
    """Properties that a PUBLISH may have, in any order."""
    parts = [
        text_property(0x26, draw(TEXTS).encode(), draw(TEXTS).encode()) for _index in range(draw(st.integers(0, 3)))
    ]
    single = [
        b"\x01\x01",
        b"\x02" + draw(st.binary(min_size=4, max_size=4)),
        text_property(0x03, draw(TEXTS).encode()),
        text_property(0x08, draw(TEXTS.filter(_is_topic)).encode()),
        text_property(0x09, draw(st.binary(max_size=20))),
    ]
    parts += [part for part in single if draw(st.booleans())]
    return b"".join(draw(st.permutations(parts)))


@st.composite
def stored_messages(draw: st.DrawFn) -> StoredMessage:
    received_us = draw(TIMES_US)
    expiry_s = draw(st.none() | st.integers(0, 2**32 - 1))
    topic = draw(TEXTS.filter(_is_topic)).encode()
    message = Message(
        topic,
        draw(st.binary(max_size=40)),
        draw(st.integers(0, 2)),
        ClientId(draw(TEXTS)),
        received_us,
        retain=draw(st.booleans()),
        properties=draw(properties()),
        expires_us=0 if expiry_s is None else received_us + max(expiry_s * 1_000_000, 1),
    )
    return StoredMessage(message, draw(TIMES_US), draw(st.integers(1, 2**64 - 1)))
