"""Commit pages: what goes in comes out, and what is damaged is refused with words."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import decode_message
from holdfast.records.pages.commit_pages import (
    MAX_BYTES,
    MAX_MESSAGES,
    CommitPage,
    encode_page,
    page_end,
)
from holdfast.records.pages.page_columns import HEADER_BYTES

pytestmark = pytest.mark.compiled

START_US = 1_700_000_000_000_000
SHARD = 3


def message(topic: bytes = b"a/b", payload: bytes = b"x", **options: object) -> Message:
    received_us = options.pop("received_us", START_US)
    return Message(topic, payload, 1, ClientId("pump"), received_us, **options)  # type: ignore[arg-type]


def placed(messages: list[Message], first_us: int = START_US, step_us: int = 1) -> list[Message]:
    for number, one in enumerate(messages):
        one.position_us = first_us + number * step_us
    return messages


def decoded(value: bytes) -> list[Message]:
    page = CommitPage(value)
    return page.messages(0, page.count, SHARD)


_topics = st.one_of(st.sampled_from([b"a", b"a/b", b"plant/1/temp"]), st.binary(min_size=1, max_size=300))
_messages = st.lists(
    st.builds(
        lambda topic, payload, qos, publisher, after_us, retain, properties, expiry_us: Message(
            topic,
            payload,
            qos,
            ClientId(publisher),
            START_US + after_us,
            retain=retain,
            properties=properties,
            expires_us=START_US + after_us + expiry_us if expiry_us else 0,
        ),
        _topics,
        st.binary(max_size=100),
        st.integers(0, 2),
        st.one_of(st.sampled_from(["pump", ""]), st.text(max_size=20)),
        st.one_of(st.integers(0, 1000), st.integers(-(2**40), 2**40)),
        st.booleans(),
        st.one_of(st.just(b""), st.binary(max_size=20)),
        st.one_of(st.just(0), st.just(1), st.integers(1, 2**32 - 1).map(lambda s: s * 1_000_000)),
    ),
    min_size=1,
    max_size=40,
)


@given(_messages, st.integers(1, 2**62), st.sampled_from([1, 1, 3, 2**31]))
def test_any_messages_come_out_as_they_went_in(messages: list[Message], serial: int, step_us: int) -> None:
    placed(messages, step_us=step_us)
    value = encode_page(messages, serial)
    page = CommitPage(value)
    assert page.count == len(messages)
    found = page.messages(0, page.count, SHARD)
    assert found == messages
    assert [one.position_us for one in found] == [one.position_us for one in messages]
    assert {one.shard for one in found} == {SHARD}
    records = [decode_message(record) for record in page.records(0, page.count)]
    assert [record.message for record in records] == messages
    assert [(record.position_us, record.serial) for record in records] == [
        (one.position_us, serial + number) for number, one in enumerate(messages)
    ]


@given(_messages, st.data())
def test_any_rows_of_any_topics_can_be_read(messages: list[Message], data: st.DataObject) -> None:
    page = CommitPage(encode_page(placed(messages, step_us=data.draw(st.sampled_from([1, 5]))), 1))
    wanted = [data.draw(st.booleans()) for _topic in page.topics]
    first = data.draw(st.integers(0, page.count))
    end = data.draw(st.integers(first, page.count))
    allowed = {topic for topic, is_wanted in zip(page.topics, wanted, strict=True) if is_wanted}
    assert page.messages(first, end, SHARD, wanted) == [one for one in messages[first:end] if one.topic in allowed]
    assert page.topics == list(dict.fromkeys(one.topic for one in messages))


@pytest.mark.parametrize("step_us", [1, 10])
def test_a_row_is_found_by_its_position(step_us: int) -> None:
    page = CommitPage(encode_page(placed([message() for _ in range(20)], step_us=step_us), 1))
    for row in range(20):
        assert page.row_from(page.position_us(row)) == row
        assert page.row_from(page.position_us(row) + 1) == row + 1
    assert page.row_from(0) == 0
    assert page.last_us() == START_US + 19 * step_us


@given(_messages, st.data())
def test_a_changed_byte_raises_no_other_error(messages: list[Message], data: st.DataObject) -> None:
    value = bytearray(encode_page(placed(messages), 1))
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(PermanentError):
        page = CommitPage(bytes(value))
        assert len(page.messages(0, page.count, SHARD)) == page.count
        assert len(page.records(0, page.count)) == page.count


@given(_messages, st.data())
def test_a_page_that_is_cut_or_longer_is_refused(messages: list[Message], data: st.DataObject) -> None:
    value = encode_page(placed(messages), 1)
    with pytest.raises(PermanentError, match="commit page"):
        decoded(value[: data.draw(st.integers(0, len(value) - 1))])
    with pytest.raises(PermanentError, match="commit page"):
        decoded(value + b"\0")


@given(st.binary(max_size=200))
def test_bytes_that_are_no_page_are_refused(value: bytes) -> None:
    with pytest.raises(PermanentError, match="commit page"):
        decoded(value)


@pytest.mark.parametrize(
    ("at", "byte", "words"),
    [
        (0, 2, "has version 2"),
        (1, 0x20, "has shape 0x20"),
        (2, 9, "commit page"),
        (HEADER_BYTES, 7, "has name 7, there are 1"),
        (HEADER_BYTES + 4, 3, "has flags 0x03"),
        (HEADER_BYTES + 4, 0x08, "has no column for that"),
    ],
)
def test_damage_is_named(at: int, byte: int, words: str) -> None:
    value = bytearray(encode_page(placed([message()]), 1))
    value[at] = byte
    with pytest.raises(PermanentError, match=words):
        decoded(bytes(value))


def test_a_page_takes_as_many_messages_as_it_has_numbers_for() -> None:
    messages = placed([message(b"t", b"") for _ in range(MAX_MESSAGES + 10)])
    assert page_end(messages, 0) == MAX_MESSAGES
    assert page_end(messages, MAX_MESSAGES) == MAX_MESSAGES + 10


def test_sixty_five_thousand_topics_fit_into_one_page() -> None:
    messages = placed([message(b"%d" % number, b"") for number in range(MAX_MESSAGES)])
    assert decoded(encode_page(messages, 1)) == messages


def test_all_bytes_count_towards_the_size_of_a_page() -> None:
    long_topics = placed([message(b"%d" % number + b"/" + b"x" * 60_000, b"") for number in range(500)])
    assert len(encode_page(long_topics[: page_end(long_topics, 0)], 1)) <= MAX_BYTES
    names = [ClientId(f"{number}" + "\N{OLD PERSIAN SIGN A}" * 15_000) for number in range(500)]
    long_names = placed([Message(b"t", b"", 1, name, START_US) for name in names])
    assert len(encode_page(long_names[: page_end(long_names, 0)], 1)) <= MAX_BYTES
    large = placed([message(payload=bytes(MAX_BYTES)) for _ in range(2)])
    assert page_end(large, 0) == 1, "a message that is larger than a page is a page alone"


@pytest.mark.parametrize("expiry_s", [2**32, 2**32 + 2**31])
def test_an_expiry_that_does_not_fit_is_refused(expiry_s: int) -> None:
    with pytest.raises(MisuseError, match="does not fit into 32 bits"):
        encode_page(placed([message(expires_us=START_US + expiry_s * 1_000_000)]), 1)
