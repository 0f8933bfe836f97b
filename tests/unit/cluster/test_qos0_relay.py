"""QoS 0 between nodes: packs are read as they were written, bounded, and never an error for whoever gets them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cluster import qos0_relay
from holdfast.cluster.qos0_relay import MAX_WAITING_BYTES, PACK_BYTES, Qos0Relay
from holdfast.model.errors import TransientError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import encode_message


class Node:
    """A relay, and what became of its messages."""

    def __init__(self, number: int) -> None:
        #: By node that they were sent to, and all of them.
        self.sent: dict[int, list[bytes]] = {}
        self.packs: list[bytes] = []
        #: The nodes that want a topic; others are wanted by node 2 alone.
        self.wanted: dict[bytes, tuple[int, ...]] = {}
        self.delivered: list[Message] = []
        self.dropped: list[tuple[int, str]] = []
        self.is_connected = True
        self.relay = Qos0Relay(
            number,
            self._send,
            lambda topic: self.wanted.get(topic, (2,)),
            self.delivered.extend,
            lambda *what: self.dropped.append(what),
        )

    async def _send(self, node: int, pack: bytes) -> None:
        if not self.is_connected:
            raise TransientError("no connection")
        self.sent.setdefault(node, []).append(pack)
        self.packs.append(pack)

    async def work(self) -> None:
        """Send what waits."""
        task = asyncio.create_task(self.relay.run())
        for _turn in range(50):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def message(topic: str = "a/b", payload: bytes = b"x") -> Message:
    return Message(topic.encode(), payload, 0, ClientId("client"), 1_700_000_000_000_000, properties=b"\x01\x00")


def test_messages_of_one_iteration_are_one_pack_and_reach_other_nodes_alone() -> None:
    async def story() -> None:
        one, two = Node(1), Node(2)
        one.relay.add(message("a", b"1"))
        one.relay.add(message("b", b"2"))
        await one.work()
        [pack] = one.packs
        one.relay.received(pack)
        two.relay.received(pack)
        assert one.delivered == []
        assert [(found.topic, found.payload, found.qos) for found in two.delivered] == [
            (b"a", b"1", 0),
            (b"b", b"2", 0),
        ]
        assert two.delivered[0].properties == b"\x01\x00"

    asyncio.run(story())


def test_a_message_goes_to_the_nodes_that_want_it_and_no_pack_is_made_for_others() -> None:
    async def story() -> None:
        one, two, three = Node(1), Node(2), Node(3)
        one.wanted = {b"a": (2, 3), b"b": (3,), b"c": ()}
        for topic in ("a", "b", "c"):
            one.relay.add(message(topic))
        await one.work()
        assert {node: len(packs) for node, packs in one.sent.items()} == {2: 1, 3: 1}
        two.relay.received(one.sent[2][0])
        three.relay.received(one.sent[3][0])
        assert [found.topic for found in two.delivered] == [b"a"]
        assert [found.topic for found in three.delivered] == [b"a", b"b"]
        one.wanted = {b"a": ()}
        one.relay.add(message("a"))
        await one.work()
        assert len(one.packs) == 2

    asyncio.run(story())


def test_a_message_is_encoded_once_for_all_nodes_and_not_at_all_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[bytes] = []

    def noted(found: Message, position_us: int, serial: int) -> bytes:
        encoded.append(found.topic)
        return encode_message(found, position_us, serial)

    monkeypatch.setattr(qos0_relay, "encode_message", noted)

    async def story() -> None:
        one = Node(1)
        one.wanted = {b"all": (2, 3, 4), b"none": ()}
        one.relay.add(message("all"))
        one.relay.add(message("none"))
        await one.work()
        assert sorted(one.sent) == [2, 3, 4]

    asyncio.run(story())
    assert encoded == [b"all"]


def test_a_pack_is_bounded_and_a_large_message_is_one_alone() -> None:
    async def story() -> None:
        one, two = Node(1), Node(2)
        sizes = [PACK_BYTES // 2, PACK_BYTES // 2, PACK_BYTES * 3, 10]
        for size in sizes:
            one.relay.add(message(payload=b"x" * size))
        await one.work()
        assert len(one.packs) > 2
        for pack in one.packs:
            two.relay.received(pack)
        assert [len(found.payload) for found in two.delivered] == sizes

    asyncio.run(story())


def test_what_cannot_be_sent_is_dropped_and_reported() -> None:
    async def story() -> None:
        one = Node(1)
        one.is_connected = False
        one.relay.add(message())
        one.relay.add(message())
        await one.work()
        assert one.dropped == [(2, "no connection")]
        one.relay.add(message(payload=b"x" * (MAX_WAITING_BYTES - 100)))
        one.relay.add(message(payload=b"x" * 200))
        assert [count for count, _why in one.dropped] == [2, 1]
        one.wanted = {b"both": (2, 3)}
        one.relay.add(message("both", b"x" * 200))
        assert one.dropped[-1][0] == 2, "once for each node"

    asyncio.run(story())


@given(st.data())
def test_a_damaged_pack_is_passed_over(data: st.DataObject) -> None:
    async def story() -> bytes:
        one = Node(1)
        one.relay.add(message())
        await one.work()
        return one.packs[0]

    pack = bytearray(asyncio.run(story()))
    at = data.draw(st.integers(0, len(pack) - 1))
    pack[at] ^= 1 << data.draw(st.integers(0, 7))
    two = Node(2)
    two.relay.received(bytes(pack))
    two.relay.received(bytes(pack[:at]))
    assert len(two.delivered) <= 1


@pytest.mark.parametrize("pack", [b"", b"\x01", b"\x02\x00\x00\x00\x01"])
def test_what_is_no_pack_is_passed_over(pack: bytes) -> None:
    node = Node(2)
    node.relay.received(pack)
    assert node.delivered == []
