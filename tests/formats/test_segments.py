"""Golden bytes of segments, never to be changed: what was released stays readable, and is written the same."""

import pytest

from holdfast.durable.segments import build_segment
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.commit_pages import encode_page
from holdfast.records.generations import Generation, family_parts
from holdfast.records.segment_index import (
    PageMap,
    TokenPages,
    decode_directory,
    encode_directory,
    index_pages,
    token_bucket,
)
from holdfast.records.segment_pages import SegmentPage
from holdfast.storage.rocks.layouts.postings import encode_mark
from holdfast.storage.rocks.layouts.segments import directory_key, index_key, map_key, page_key
from tests.formats.test_commit_pages import ALL_KINDS, START_US, WIDE

pytestmark = pytest.mark.compiled

ALL_KINDS_PAGE = bytes.fromhex(
    "02 06 03 00 00 00 02 00 00 00 02 00 00 00 00 40 1e 18 24 0a 06 00 07 00 00 00 00 00 00 00 "
    "00 40 1e 18 24 0a 06 00 08 00 00 00 02 00 00 00 "
    "02 00 00 00 01 00 00 00 00 00 00 00 01 00 05 02 08 00 00 00 00 02 00 00 00 01 00 00 00 "
    "00 00 00 00 02 00 00 00 01 00 00 00 00 00 00 00 05 00 00 00 02 01 00 00 03 00 00 00 05 00 00 00 00 00 00 00 "
    "00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 03 00 00 00 "
    "03 00 01 00 01 00 01 00 61 2f 62 63 70 71 6f 6e 65 74 68 72 65 65 01 00"
)
ALL_KINDS_MAP = bytes.fromhex("01 03 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
ALL_KINDS_DIRECTORY = bytes.fromhex(
    "01 03 00 00 00 00 00 00 00 03 00 00 00 01 00 07 00 00 00 00 00 00 00 03 00 00 00 02 40 1e 18 24 0a 06 00 "
    "02 02 00 00 00 01 00 00 00"
)
WIDE_PAGE = bytes.fromhex(
    "02 10 02 00 00 00 01 00 00 00 01 00 00 00 00 40 1e 18 24 0a 06 00 07 00 00 00 00 00 00 00 "
    "00 40 1e 18 24 0a 06 00 02 00 00 00 00 00 00 00 "
    "02 00 00 00 00 00 00 00 01 01 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 "
    "00 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff 01 00 00 00 01 00 00 00 03 00 04 00 61 2f 62 70 75 6d 70 78 78"
)
WIDE_MAP = bytes.fromhex(
    "01 02 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 01 00 00 00 00 00"
)
WIDE_DIRECTORY = bytes.fromhex(
    "01 03 00 00 00 00 00 00 00 02 00 00 00 01 00 07 00 00 00 00 00 00 00 02 00 00 00 02 40 1e 18 24 0a 06 00 "
    "02 01 00 00 00 01 00 00 00"
)

cases = pytest.mark.parametrize(
    ("messages", "page", "page_map", "directory"),
    [
        (ALL_KINDS, ALL_KINDS_PAGE, ALL_KINDS_MAP, ALL_KINDS_DIRECTORY),
        (WIDE, WIDE_PAGE, WIDE_MAP, WIDE_DIRECTORY),
    ],
    ids=["all kinds", "wide"],
)


@cases
def test_a_segment_is_written_as_its_golden_bytes(
    messages: list[Message], page: bytes, page_map: bytes, directory: bytes
) -> None:
    segment = build_segment([encode_page(messages, 7)])
    segment.directory.number = 3
    assert [value.hex(" ") for value in segment.pages] == [page.hex(" ")]
    assert segment.map.hex(" ") == page_map.hex(" ")
    assert encode_directory(segment.directory).hex(" ") == directory.hex(" ")
    assert segment.index == []


@cases
def test_golden_bytes_are_read_as_their_messages(
    messages: list[Message], page: bytes, page_map: bytes, directory: bytes
) -> None:
    opened = SegmentPage(page)
    rows = sorted(range(opened.count), key=opened.rank)
    assert [opened.message(row, 0) for row in rows] == messages
    assert [opened.position_us(row) for row in rows] == [message.position_us for message in messages]
    known = decode_directory(START_US, directory)
    assert (known.number, known.messages, known.pages, known.first_serial) == (3, len(messages), 1, 7)
    assert known.last_us == messages[-1].position_us
    found = PageMap(page_map, known.pages)
    assert [found.page_at(message.position_us - START_US) for message in messages] == [0] * len(messages)


def test_an_index_is_written_as_its_golden_bytes() -> None:
    tokens = TokenPages()
    for page, topic in enumerate([b"a/b", b"a/c", b"d/b"]):
        tokens.add(topic, page, page)
    assert [(level, bucket, entries.hex(" ")) for level, bucket, entries in tokens.entries()] == [
        (0, 38, "cc 4a dd 98 02 00 02 00"),
        (0, 58, "43 be b7 e8 00 00 01 00"),
        (1, 1, "6f df b9 06 01 00 01 00"),
        (1, 28, "f9 ef be 71 00 00 00 00 f9 ef be 71 02 00 02 00"),
    ]
    assert token_bucket(b"b") == 28
    assert index_pages(bytes.fromhex("f9 ef be 71 00 00 00 00 f9 ef be 71 02 00 02 00"), b"b") == [(0, 0), (2, 2)]


def test_keys_and_names() -> None:
    assert page_key(3, 258).hex() == "0400000000000000030102"
    assert map_key(3).hex() == "040000000000000003ffff"
    assert index_key(1, 28, START_US).hex() == "02011c00060a24181e4000"
    assert directory_key(START_US).hex() == "0300060a24181e4000"
    assert encode_mark(START_US, []) == (b"\x03", bytes.fromhex("00401e18240a0600"))
    record = Generation("default", 12, "paged", {}, 0, (7, 9), 0)
    assert record.segments_family() == "segments-00007-00000012"
    assert record.in_edition(5).segments_family() == "segments-00007-00000012-5"
    assert family_parts("segments-00007-00000012-5") == (7, 12)


@pytest.mark.parametrize("page", [ALL_KINDS_PAGE, WIDE_PAGE], ids=["all kinds", "wide"])
def test_a_page_that_was_cut_or_joined_is_refused(page: bytes) -> None:
    for end in range(len(page)):
        with pytest.raises(PermanentError):
            SegmentPage(page[:end])
    with pytest.raises(PermanentError, match="add up to"):
        SegmentPage(page + b"\x00")
    with pytest.raises(PermanentError, match="version 1"):
        SegmentPage(b"\x01" + page[1:])
    with pytest.raises(PermanentError, match="shape 0x81"):
        SegmentPage(page[:1] + b"\x81" + page[2:])


def test_damaged_bytes_are_refused_or_give_other_messages_and_never_end_the_process() -> None:
    for at in range(len(ALL_KINDS_PAGE)):
        for bit in range(8):
            value = bytearray(ALL_KINDS_PAGE)
            value[at] ^= 1 << bit
            try:
                page = SegmentPage(bytes(value))
                for row in range(page.count):
                    page.message(row, 0)
            except PermanentError:
                continue


def test_a_directory_and_a_map_that_were_cut_are_refused() -> None:
    for end in range(len(ALL_KINDS_DIRECTORY)):
        with pytest.raises(PermanentError):
            decode_directory(START_US, ALL_KINDS_DIRECTORY[:end])
    for end in range(len(WIDE_MAP)):
        with pytest.raises(PermanentError):
            PageMap(WIDE_MAP[:end], 1)
    with pytest.raises(PermanentError, match="no whole entry"):
        index_pages(b"123", b"a")
