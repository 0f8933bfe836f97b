"""Any messages become a segment and come out the same: all of them, in order, and by every filter and position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.segments import build_segment
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import decode_message
from holdfast.records.pages.commit_pages import encode_page
from holdfast.records.pages.segment_index import PageMap, decode_directory, encode_directory, index_pages, token_bucket
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.records.pages.segment_rows import SegmentRows

pytestmark = pytest.mark.compiled

START_US = 1_700_000_000_000_000
_topics = st.one_of(
    st.builds("plant/{}/{}".format, st.integers(0, 30), st.sampled_from(["temp", "flow", "", "a/b"])),
    st.sampled_from(["a", "/", "$own/x", "é/b", "/".join("abcdefghijklmnopqrstuvwxyz"), "x" * 2_000]),
)
_payloads = st.one_of(st.binary(max_size=40), st.integers(0, 70_000).map(bytes))


@st.composite
def _messages(draw: st.DrawFn) -> Message:
    received_us = START_US + draw(st.sampled_from([0, 1, 5_000_000, -7, 2**33]))
    return Message(
        draw(_topics).encode(),
        draw(_payloads),
        draw(st.integers(0, 2)),
        ClientId(draw(st.sampled_from(["p", "q", "é", ""]))),
        received_us,
        retain=draw(st.booleans()),
        properties=draw(st.sampled_from([b"", b"", b"\x01\x01"])),
        expires_us=draw(st.sampled_from([0, 0, received_us + 1, received_us + 7_000_000])),
    )


#: Commits, each with the distance of its first position and of its first serial from the last ones.
_commits = st.lists(
    st.tuples(st.lists(_messages(), min_size=1, max_size=30), st.sampled_from([1, 2, 900, 2**32]), st.integers(1, 3)),
    min_size=1,
    max_size=8,
)


def placed(commits: list[tuple[list[Message], int, int]]) -> tuple[list[bytes], list[tuple[int, Message]]]:
    """Commit pages, and every message with its serial."""
    position_us, serial = START_US, 0
    pages: list[bytes] = []
    stored: list[tuple[int, Message]] = []
    for messages, step_us, step in commits:
        position_us += step_us
        serial += step
        for number, message in enumerate(messages):
            message.position_us = position_us + number
            stored.append((serial + number, message))
        pages.append(encode_page(messages, serial))
        position_us += len(messages) - 1
        serial += len(messages) - 1
    return pages, stored


def fields(serial: int, message: Message) -> tuple[int, int, Message]:
    return serial, message.position_us, message


@given(_commits)
def test_all_messages_come_back_in_order(commits: list[tuple[list[Message], int, int]]) -> None:
    values, stored = placed(commits)
    segment = build_segment(values)
    pages = [SegmentPage(value) for value in segment.pages]
    rows = SegmentRows()
    for number, page in enumerate(pages):
        rows.add(number, page)
    rows.sort(segment.directory.serials)
    found: list[tuple[int, int, Message]] = []
    begin = 0
    while begin < len(rows):
        end = rows.end_of(begin, len(rows))
        large = rows.large_page(begin)
        for value in [pages[large].record(0)] if large >= 0 else rows.records(begin, end):
            record = decode_message(value)
            found.append((record.serial, record.position_us, record.message))
        begin = end
    assert found == [fields(serial, message) for serial, message in stored]


@given(_commits)
def test_the_index_and_the_map_lead_to_every_message(commits: list[tuple[list[Message], int, int]]) -> None:
    values, stored = placed(commits)
    segment = build_segment(values)
    pages = [SegmentPage(value) for value in segment.pages]
    entries = {(level, bucket): value for level, bucket, value in segment.index}
    page_map = PageMap(segment.map, len(pages))
    directory = decode_directory(segment.directory.first_us, encode_directory(segment.directory))
    assert (directory.messages, directory.last_us) == (len(stored), stored[-1][1].position_us)
    assert page_map.serials == directory.serials == stored[-1][0] - stored[0][0] + 1
    before = (-1, -1)
    for serial, message in stored:
        assert page_map.last_before(message.position_us - directory.first_us) == before
        before = (message.position_us - directory.first_us, serial - directory.first_serial)
        assert page_map.last_before(before[0] + 1) == before
        assert page_map.position_of(before[1]) == before[0]
        number = page_map.page_at(message.position_us - directory.first_us)
        assert number == page_map.page_of(serial - directory.first_serial)
        row = pages[number].row_at(message.position_us)
        assert pages[number].message(row, 0) == message
        if segment.index:
            for level, token in enumerate(message.topic.split(b"/")[:16]):
                if directory.tokens[level] > 1:
                    runs = index_pages(entries[level, token_bucket(token)], token)
                    assert any(first <= number <= last for first, last in runs)
                    assert len(runs) <= 8
    taken = {message.position_us for _serial, message in stored}
    for _serial, message in stored:
        if message.position_us + 1 not in taken:
            assert page_map.page_at(message.position_us + 1 - directory.first_us) == -1


@given(_commits)
def test_pages_are_sorted_by_topic_and_not_too_large(commits: list[tuple[list[Message], int, int]]) -> None:
    values, _stored = placed(commits)
    pages = [SegmentPage(value) for value in build_segment(values).pages]
    topics = [topic for page in pages for topic in page.topics]
    assert topics == sorted(topics)
    for page in pages:
        assert page.count == 1 or len(page.value) < 100_000


@pytest.mark.parametrize("letter", ["x", "é"])
def test_long_names_of_publishers_count_towards_the_size_of_a_page(letter: str) -> None:
    """Client ids may have 65,535 bytes: a thousand of them in one page would be 64 MB."""
    messages = [
        Message(b"a/%d" % (number % 3), b"", 1, ClientId(f"{number}{letter * 9_000}"), START_US) for number in range(60)
    ]
    values, stored = placed([(messages, 1, 1)])
    pages = [SegmentPage(value) for value in build_segment(values).pages]
    assert max(len(page.value) for page in pages) < 100_000
    found = [(page.first_serial + page.rank(row), page.message(row, 0)) for page in pages for row in range(page.count)]
    assert sorted(found, key=lambda one: one[0]) == stored
