"""Packets about groups leave in order, each for its node, and what cannot leave is dropped."""

import asyncio

from holdfast.cluster.groups.group_wire import GroupWire
from holdfast.model.errors import TransientError


def test_packets_go_to_the_subject_of_their_node_and_a_lost_one_holds_up_none() -> None:
    sent: list[tuple[str, bytes]] = []
    lost = {b"2"}

    def publish(subject: str, packet: bytes) -> None:
        if packet in lost:
            raise TransientError("no connection")
        sent.append((subject, packet))

    async def act() -> None:
        wire = GroupWire("plant", publish)
        task = asyncio.create_task(wire.run())
        for node, packet in ((1, b"1"), (3, b"2"), (3, b"3")):
            wire.send(node, packet)
        for _turn in range(10):
            await asyncio.sleep(0)
        wire.send(1, b"4")
        for _turn in range(10):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(act())
    assert [packet for _subject, packet in sent] == [b"1", b"3", b"4"]
    assert [subject.rpartition(".")[2] for subject, _packet in sent] == ["1", "3", "1"]
    assert {subject.rpartition(".")[0] for subject, _packet in sent} == {"holdfast-plant.groups"}
