"""Golden bytes of segments, never to be changed: what was released stays readable, and is written the same."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from librt.vecs import vec
from mypy_extensions import i32, i64

from holdfast.durable.segments import build_segment
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.generations import Generation, family_parts
from holdfast.records.pages.commit_pages import encode_page
from holdfast.records.pages.segment_index import (
    PageMap,
    TokenPages,
    decode_directory,
    encode_directory,
    encode_map,
    index_pages,
    token_bucket,
)
from holdfast.records.pages.segment_pages import SegmentPage
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
#: Of two commits: between them serials were erased, and time has passed.
GAPS = [Message(b"a/b", b"%d" % number, 1, ClientId("p"), START_US) for number in (1, 2, 3)]
GAPS_POSITIONS = [START_US, START_US + 1, START_US + 1_000]
GAPS_PAGE = bytes.fromhex(
    "02 00 03 00 00 00 01 00 00 00 01 00 00 00 00 40 1e 18 24 0a 06 00 07 00 00 00 00 00 00 00 "
    "00 40 1e 18 24 0a 06 00 03 00 00 00 00 00 00 00 "
    "03 00 00 00 00 00 00 00 00 00 01 01 01 00 00 00 00 01 00 00 00 04 00 00 00 "
    "00 00 00 00 01 00 00 00 e8 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
    "01 00 00 00 01 00 00 00 01 00 00 00 03 00 01 00 61 2f 62 70 31 32 33"
)
GAPS_MAP = bytes.fromhex(
    "01 05 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 e8 03 00 00 00 00 00 00 04 00 00 00 00 00 ff ff 00"
)
GAPS_DIRECTORY = bytes.fromhex(
    "01 03 00 00 00 00 00 00 00 03 00 00 00 01 00 07 00 00 00 00 00 00 00 05 00 00 00 e8 43 1e 18 24 0a 06 00 "
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


def test_what_was_left_out_between_two_commits_is_written_as_its_golden_bytes() -> None:
    for message, position_us in zip(GAPS, GAPS_POSITIONS, strict=True):
        message.position_us = position_us
    segment = build_segment([encode_page(GAPS[:2], 7), encode_page(GAPS[2:], 11)])
    segment.directory.number = 3
    assert [value.hex(" ") for value in segment.pages] == [GAPS_PAGE.hex(" ")]
    assert segment.map.hex(" ") == GAPS_MAP.hex(" ")
    assert encode_directory(segment.directory).hex(" ") == GAPS_DIRECTORY.hex(" ")
    page = SegmentPage(GAPS_PAGE)
    assert [page.message(row, 0) for row in range(3)] == GAPS
    assert [(page.rank(row), page.position_us(row)) for row in range(3)] == list(
        zip((0, 1, 4), GAPS_POSITIONS, strict=True)
    )
    known = decode_directory(START_US, GAPS_DIRECTORY)
    assert (known.messages, known.serials, known.last_us) == (3, 5, GAPS_POSITIONS[-1])
    page_map = PageMap(GAPS_MAP, 1)
    assert [page_map.page_of(rank) for rank in range(5)] == [0, 0, -1, -1, 0]
    assert [page_map.page_at(after_us) for after_us in (0, 1, 2, 1_000, 1_001)] == [0, 0, -1, 0, -1]


def test_a_map_of_more_than_255_pages_is_written_as_its_golden_bytes() -> None:
    golden = bytes.fromhex(
        "01 03 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 e8 03 00 00 00 00 00 00 02 00 00 00 "
        "ff 00 ff ff 00 01"
    )
    messages = [Message(b"a", b"", 1, ClientId("p"), START_US) for _number in range(2)]
    messages[0].position_us, messages[1].position_us = START_US, START_US + 1_000
    assert encode_map(messages, vec[i64]([0, 2]), vec[i32]([255, 256]), 257).hex(" ") == golden.hex(" ")
    page_map = PageMap(golden, 257)
    assert [page_map.page_of(rank) for rank in range(3)] == [255, -1, 256]
    assert [page_map.page_at(after_us) for after_us in (0, 1_000)] == [255, 256]


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
    counted = encode_mark(START_US, [(b"12345678", 258)])
    assert counted == (b"\x03", bytes.fromhex("00401e18240a0600 3132333435363738 0201000000000000"))
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


def flipped(value: bytes) -> Iterator[bytes]:
    """The value with each of its bits changed."""
    for at in range(len(value)):
        for bit in range(8):
            yield value[:at] + bytes([value[at] ^ 1 << bit]) + value[at + 1 :]


@pytest.mark.parametrize("value", [ALL_KINDS_MAP, WIDE_MAP, GAPS_MAP], ids=["all kinds", "wide", "gaps"])
def test_a_damaged_map_is_refused_or_leads_elsewhere(value: bytes) -> None:
    for damaged in flipped(value):
        with suppress(PermanentError):
            page_map = PageMap(damaged, 1)
            for after_us in [*range(6), 1 << 40]:
                with suppress(PermanentError):
                    assert page_map.page_at(after_us) >= -1
                with suppress(PermanentError):
                    assert page_map.last_before(after_us)[1] < page_map.serials
            for rank in range(page_map.serials):
                with suppress(PermanentError):
                    page_map.position_of(rank)


def test_a_damaged_directory_is_refused_or_says_something_else() -> None:
    for damaged in flipped(ALL_KINDS_DIRECTORY):
        with suppress(PermanentError):
            directory = decode_directory(START_US, damaged)
            assert directory.messages <= directory.serials
            assert min(directory.tokens) >= 0


def test_damaged_entries_of_an_index_are_refused_or_name_other_pages() -> None:
    entries = bytes.fromhex("f9 ef be 71 00 00 00 00 f9 ef be 71 02 00 02 00")
    for damaged in flipped(entries):
        with suppress(PermanentError):
            assert all(first <= last for first, last in index_pages(damaged, b"b"))


def test_a_directory_and_a_map_that_were_cut_are_refused() -> None:
    for end in range(len(ALL_KINDS_DIRECTORY)):
        with pytest.raises(PermanentError):
            decode_directory(START_US, ALL_KINDS_DIRECTORY[:end])
    for end in range(len(WIDE_MAP)):
        with pytest.raises(PermanentError):
            PageMap(WIDE_MAP[:end], 1)
    with pytest.raises(PermanentError, match="no whole entry"):
        index_pages(b"123", b"a")
