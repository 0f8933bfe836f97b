"""Golden bytes of commit pages, never to be changed: what was released stays readable, and is written the same."""

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.pages.commit_pages import CommitPage, encode_page

pytestmark = pytest.mark.compiled

START_US = 1_700_000_000_000_000


def placed(messages: list[Message], step_us: int) -> list[Message]:
    for number, message in enumerate(messages):
        message.position_us = START_US + number * step_us
    return messages


#: Two topics and publishers, retained, properties, expiry.
ALL_KINDS = placed(
    [
        Message(b"a/b", b"one", 1, ClientId("p"), START_US, retain=True),
        Message(b"c", b"", 0, ClientId("q"), START_US + 258, properties=b"\x01\x00", expires_us=START_US + 3_000_258),
        Message(b"a/b", b"three", 2, ClientId("p"), START_US + 5),
    ],
    1,
)
ALL_KINDS_BYTES = bytes.fromhex(
    "01 06 03 00 00 00 02 00 00 00 02 00 00 00 00 40 1e 18 24 0a 06 00 07 00 00 00 00 00 00 00 "
    "00 40 1e 18 24 0a 06 00 08 00 00 00 02 00 00 00 "
    "00 00 01 00 00 00 00 00 01 00 00 00 05 08 02 00 00 00 00 02 01 00 00 05 00 00 00 "
    "03 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 "
    "03 00 01 00 01 00 01 00 61 2f 62 63 70 71 6f 6e 65 74 68 72 65 65 01 00"
)
#: Positions with gaps, and a clock that was set back.
WIDE = placed([Message(b"a/b", b"x", 1, ClientId("pump"), START_US - back_us) for back_us in (0, 1)], 2)
WIDE_BYTES = bytes.fromhex(
    "01 18 02 00 00 00 01 00 00 00 01 00 00 00 00 40 1e 18 24 0a 06 00 07 00 00 00 00 00 00 00 "
    "00 40 1e 18 24 0a 06 00 02 00 00 00 00 00 00 00 "
    "00 00 00 00 00 00 00 00 01 01 00 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff 01 00 00 00 01 00 00 00 "
    "00 40 1e 18 24 0a 06 00 02 40 1e 18 24 0a 06 00 03 00 04 00 61 2f 62 70 75 6d 70 78 78"
)

cases = pytest.mark.parametrize(
    ("messages", "value"), [(ALL_KINDS, ALL_KINDS_BYTES), (WIDE, WIDE_BYTES)], ids=["all kinds", "wide"]
)


@cases
def test_a_page_is_written_as_its_golden_bytes(messages: list[Message], value: bytes) -> None:
    assert encode_page(messages, 7).hex(" ") == value.hex(" ")


@cases
def test_golden_bytes_are_read_as_their_messages(messages: list[Message], value: bytes) -> None:
    page = CommitPage(value)
    found = page.messages(0, page.count, 0)
    assert found == messages
    assert [message.position_us for message in found] == [message.position_us for message in messages]
    assert page.first_serial == 7
