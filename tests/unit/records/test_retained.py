"""Retained messages on disk: the order of keys, and which of two records wins."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import StoredMessage
from holdfast.records.retained import (
    RetainedRecord,
    decode_retained,
    encode_retained,
    expired_until,
    expiry_key,
    expiry_parts,
    retained_key,
    retained_order,
    retained_topic,
    subtree,
)
from tests.unit.records.stored_messages import stored_messages

pytestmark = pytest.mark.compiled

# The bytes around the separator, and the lowest that a level may have.
TOPICS = st.text(st.sampled_from("/ab-0\x01."), min_size=1, max_size=6).map(str.encode)
TIMES_US = st.integers(0, 2**63 - 1)


def levels_of(topic: bytes) -> tuple[bytes, ...]:
    return tuple(topic.split(b"/"))


@given(TOPICS, TOPICS)
@example(b"a/b", b"a-b")
@example(b"a", b"a/")
def test_keys_sort_as_levels_do(a: bytes, b: bytes) -> None:
    assert (retained_key(a) < retained_key(b)) == (levels_of(a) < levels_of(b))


@given(TOPICS, TOPICS)
@example(b"a", b"a\x01")
@example(b"a", b"a")
def test_a_subtree_is_a_range(root: bytes, topic: bytes) -> None:
    lo, hi = subtree(levels_of(root))

    assert (lo <= retained_key(topic) < hi) == (levels_of(topic)[: len(levels_of(root))] == levels_of(root))


@given(TOPICS)
def test_no_levels_are_the_root_of_all_topics(topic: bytes) -> None:
    lo, hi = subtree(())

    assert lo <= retained_key(topic) < hi


@given(TOPICS, TIMES_US)
def test_topics_are_read_from_their_keys(topic: bytes, expires_us: int) -> None:
    assert retained_topic(retained_key(topic)) == topic
    assert expiry_parts(expiry_key(expires_us, topic)) == (expires_us, topic)


@given(TOPICS, TIMES_US, st.integers(0, 2**63 - 1))
@example(b"a", 5, 5)
def test_what_has_expired_is_a_range(topic: bytes, expires_us: int, now_us: int) -> None:
    lo, hi = expired_until(now_us)

    assert (lo <= expiry_key(expires_us, topic) < hi) == (expires_us <= now_us)
    assert not lo <= retained_key(topic) < hi


@given(stored_messages(), st.integers(0, 65_535), TIMES_US)
def test_everything_of_a_retained_message_comes_back(stored: StoredMessage, shard: int, stored_us: int) -> None:
    record = decode_retained(encode_retained(RetainedRecord(stored, shard, stored_us)))

    assert (record.stored, record.shard, record.stored_us) == (stored, shard, stored_us)


def made(payload: bytes, position_us: int, shard: int, serial: int) -> RetainedRecord:
    message = Message(b"t", payload, 1, ClientId("c"), 1, retain=True)
    return RetainedRecord(StoredMessage(message, position_us, serial), shard, 1)


def test_the_greatest_time_wins_then_the_shard_then_the_serial() -> None:
    ordered = [made(b"x", 1, 9, 9), made(b"x", 2, 1, 9), made(b"x", 2, 2, 1), made(b"x", 2, 2, 2)]

    for i, record in enumerate(ordered):
        assert [record.newer(other) for other in ordered] == [j < i for j in range(len(ordered))]


def test_a_removal_is_compared_like_a_message() -> None:
    removal = made(b"", 2, 1, 1)

    assert removal.removed()
    assert not made(b"x", 1, 1, 1).removed()
    assert removal.newer(made(b"x", 1, 1, 1))
    assert not removal.newer(made(b"x", 3, 1, 1))


@pytest.mark.parametrize("topic", [b"", b"a\0b"])
def test_what_is_no_topic_has_no_key(topic: bytes) -> None:
    with pytest.raises(MisuseError, match="is no topic"):
        retained_key(topic)


def test_foreign_keys_are_refused() -> None:
    with pytest.raises(PermanentError, match="not the key"):
        retained_topic(expiry_key(1, b"a"))
    with pytest.raises(PermanentError, match="expires"):
        expiry_parts(retained_key(b"a/topic/that/is/long"))


@given(stored_messages(), st.integers(0, 2**16 - 1), TIMES_US)
def test_the_order_of_a_record_is_read_without_the_rest(stored: StoredMessage, shard: int, version: int) -> None:
    value = encode_retained(RetainedRecord(stored, shard, version))
    assert retained_order(value) == (version, shard)


@pytest.mark.parametrize("value", [b"", b"\x01" * 10, b"\x02" * 40])
def test_a_record_without_an_order_is_refused(value: bytes) -> None:
    with pytest.raises(PermanentError, match="a retained message has"):
        retained_order(value)
