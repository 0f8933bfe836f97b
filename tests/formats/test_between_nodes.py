"""Golden bytes of what nodes send each other apart from the logs: filters, and packs of QoS 0 messages."""

import asyncio

import pytest

from holdfast.cluster.qos0_relay import Qos0Relay
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster.filter_lists import (
    FilterChange,
    FilterList,
    FilterNews,
    FilterRequest,
    FilterSender,
    FilterState,
    decode_filter_news,
    encode_filter_news,
)
from tests.formats.golden_records import T, spaced

_SENDER = FilterSender(2, bytes(range(0xE0, 0xE8)), 258)
_HEAD = "02 00 00 00  e0 e1 e2 e3 e4 e5 e6 e7  02 01 00 00 00 00 00 00"

#: Everything that is told about filters, and its bytes.
FILTERS: dict[str, tuple[FilterNews, str]] = {
    "list": (
        FilterList(_SENDER, (b"a/#", b"b")),
        f"01  01  {_HEAD}  00  02 00 00 00  03 00 00 00 61 2f 23  01 00 00 00 62",
    ),
    "everything": (FilterList(_SENDER, (), everything=True), f"01  01  {_HEAD}  01  00 00 00 00"),
    "change": (
        FilterChange(_SENDER, (b"a",), (b"b", b"c")),
        f"01  02  {_HEAD}  01 00 00 00  01 00 00 00 61  02 00 00 00  01 00 00 00 62  01 00 00 00 63",
    ),
    "state": (FilterState(_SENDER), f"01  03  {_HEAD}"),
    "request": (FilterRequest(_SENDER, 7), f"01  04  {_HEAD}  07 00 00 00"),
}

PACK = """
    01  02 00 00 00  01 00 00 00  34 00 00 00
    01  00  03 00  03 00  00 00 00 00  04 00 00 00
    00 00 00 00 00 00 00 00   00 00 00 00 00 00 00 00   00 40 1e 18 24 0a 06 00   00 00 00 00
    61 2f 62   64 65 76   32 31 2e 35
"""


@pytest.mark.parametrize(("news", "value"), FILTERS.values(), ids=FILTERS)
def test_filters_are_written_and_read_as_their_golden_bytes(news: FilterNews, value: str) -> None:
    expected = spaced(value)
    assert encode_filter_news(news).hex(" ") == expected.hex(" ")
    assert decode_filter_news(expected) == news
    for length in range(len(expected)):
        with pytest.raises(PermanentError):
            decode_filter_news(expected[:length])
    with pytest.raises(PermanentError, match="more than its fields"):
        decode_filter_news(expected + b"\0")


def test_a_pack_of_qos0_messages_is_written_and_read_as_its_golden_bytes() -> None:
    message = Message(b"a/b", b"21.5", 0, ClientId("dev"), T)
    sent: list[bytes] = []
    got: list[Message] = []

    async def story() -> None:
        arrived = asyncio.Event()

        async def send(_node: int, pack: bytes) -> None:
            sent.append(pack)
            arrived.set()

        relay = Qos0Relay(2, send, lambda _topic: (3,), got.extend, lambda *_dropped: None)
        relay.add(message)
        task = asyncio.create_task(relay.run())
        await arrived.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        Qos0Relay(3, send, lambda _topic: (), got.extend, lambda *_dropped: None).received(spaced(PACK))

    asyncio.run(story())
    assert [pack.hex(" ") for pack in sent] == [spaced(PACK).hex(" ")]
    assert [(one.topic, one.payload, one.qos, one.publisher) for one in got] == [(b"a/b", b"21.5", 0, "dev")]
