"""Messages of a lake in flight to a session: again under their packet ids, in their order, unless they were erased."""

from pathlib import Path

import pytest

from holdfast.durable.erasures import Erasure, Erasures
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import back, payloads, publish, replay
from tests.lake_world import LakeWorld, fill, kept_from, numbers
from tests.slow_world import kept
from tests.world import Peer

pytestmark = pytest.mark.compiled

#: Before the session expires.
LATER_US = 1_700_000_080_000_000


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("end", ["drop", "restart", "crash"])
def test_a_session_goes_on_with_a_replay_of_the_lake_where_it_was(tmp_path: Path, qos: int, end: str) -> None:
    """What was sent and not acknowledged comes again under its packet id, though no log has it; then the rest."""
    world = LakeWorld(tmp_path)
    fill(world, 0, 20, qos=qos)
    world.archive()
    world.age()
    assert kept_from(world) == []
    reader = kept(world, "c", receive_maximum=4)
    replay(reader, "+", qos=2, replay_from="earliest")
    sent = reader.take_all(Publish)
    assert [packet.payload for packet in sent] == numbers(0, 4)
    done = sent[:2]
    if qos == 1:
        reader.send(*[Ack(PUBACK, packet.packet_id) for packet in done])
    else:
        reader.send(*[Ack(PUBREC, packet.packet_id) for packet in done])
        reader.send(*[Ack(PUBCOMP, packet.packet_id) for packet in done])
        reader.inbox = [packet for packet in reader.inbox if isinstance(packet, Publish)]
    more = reader.take_all(Publish)
    assert [packet.payload for packet in more] == numbers(4, 6)
    world.advance(2)  # progress of QoS 1 is stored within a second
    open_ = [(packet.packet_id, packet.payload) for packet in [*sent[2:], *more]]
    if end == "crash":
        world.crash()
    else:
        reader.drop()
        world.tick()
    if end == "restart":
        world.__exit__(None, None, None)
    if end != "drop":
        world = LakeWorld(tmp_path, start_us=LATER_US)
    with world:
        reader = back(world, "c", receive_maximum=4)
        again = [packet for packet in reader.inbox if isinstance(packet, Publish)]
        assert [(packet.packet_id, packet.payload) for packet in again[:4]] == open_
        assert all(packet.dup for packet in again[:4])
        assert payloads(reader) == numbers(2, 20)
        reader.drop()
        reader = back(world, "c")
        assert payloads(reader) == [], "all of it is acknowledged"
        assert world.drops() == {}
        world.tick()
        assert world.count_keys("c") <= 5, "nothing is kept of what was in flight"


def acknowledge(reader: Peer, packets: list[Publish]) -> list[Publish]:
    """Acknowledge them; what came then."""
    for packet in packets:
        reader.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
        if packet.qos == 2:
            reader.send(Ack(PUBCOMP, packet.packet_id))
    reader.inbox = [packet for packet in reader.inbox if isinstance(packet, Publish)]
    return reader.take_all(Publish)


def in_flight(packets: list[Publish]) -> list[tuple[int, bytes]]:
    return [(packet.packet_id, packet.payload) for packet in packets]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("end", ["drop", "restart", "crash"])
def test_messages_of_the_lake_and_of_the_log_in_flight_come_again_in_their_order(
    tmp_path: Path, qos: int, end: str
) -> None:
    world = LakeWorld(tmp_path)
    fill(world, 0, 4, qos=qos)
    world.archive()
    world.age()
    fill(world, 4, 10, qos=qos)
    reader = kept(world, "c", receive_maximum=6)
    replay(reader, "+", qos=2, replay_from="earliest")
    sent = reader.take_all(Publish)
    assert [packet.payload for packet in sent] == numbers(0, 6)
    assert world.lake.counts.messages == 4
    if end == "crash":
        world.crash()
    else:
        reader.drop()
        world.tick()
    if end == "restart":
        world.__exit__(None, None, None)
    if end != "drop":
        world = LakeWorld(tmp_path, start_us=LATER_US)
    with world:
        reader = back(world, "c", receive_maximum=6)
        again = reader.take_all(Publish)
        assert in_flight(again) == in_flight(sent)
        assert [packet.payload for packet in acknowledge(reader, again)] == numbers(6, 10)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("end", ["drop", "crash"])
def test_messages_of_the_lake_in_flight_keep_their_order_over_two_connections(
    tmp_path: Path, qos: int, end: str
) -> None:
    """What the second connection was sent comes behind what the first one had left open."""
    world = LakeWorld(tmp_path)
    fill(world, 0, 20, qos=qos)
    world.archive()
    world.age()
    reader = kept(world, "c", receive_maximum=10)
    replay(reader, "+", qos=2, replay_from="earliest")
    sent = reader.take_all(Publish)
    open_ = sent[8:]
    for round_ in range(2):
        # As many as were acknowledged follow: on the second connection two, which stay open.
        open_ += acknowledge(reader, sent[: 8 if round_ == 0 else 0])
        if end == "drop":
            reader.drop()
            world.tick()
        else:
            world.crash()
            world = LakeWorld(tmp_path, start_us=LATER_US + round_ * 1_000_000)
        reader = back(world, "c", receive_maximum=12 + 2 * round_)
        sent = reader.take_all(Publish)
        assert in_flight(sent[: len(open_)]) == in_flight(open_)
        open_ = sent
    with world:
        assert [packet.payload for packet in sent] == numbers(8, 8 + len(sent))


@pytest.mark.parametrize("qos", [1, 2])
def test_an_erased_message_of_the_lake_in_flight_is_not_sent_again_and_not_kept(tmp_path: Path, qos: int) -> None:
    with LakeWorld(tmp_path) as world:
        for number in range(8):
            publish(world, ("ab"[number % 2], b"content-of-%s-%d" % (b"ab"[number % 2 :][:1], number)), qos=qos)
        world.archive()
        world.age()
        reader = kept(world, "c", receive_maximum=6)
        replay(reader, "+", qos=2, replay_from="earliest")
        sent = reader.take_all(Publish)
        assert [packet.topic for packet in sent] == ["a", "b"] * 3
        released = [packet.packet_id for packet in sent[:2]] if qos == 2 else []
        reader.send(*[Ack(PUBREC, packet_id) for packet_id in released])
        reader.drop()
        world.tick()
        assert stored_with(world, b"content-of-a") == 3
        heads = world.disk.log.reader.heads()
        world.disk.log.reader.hide(Erasures([Erasure("", (b"a",), heads, 1, "test")]))
        reader = back(world, "c", receive_maximum=6)
        assert stored_with(world, b"content-of-a") == 0
        assert [packet.packet_id for packet in reader.inbox if isinstance(packet, Ack)] == released
        open_ = in_flight([packet for packet in sent[len(released) :] if packet.topic == "b"])
        again = in_flight([packet for packet in reader.inbox if isinstance(packet, Publish)])
        assert again[: len(open_)] == open_
        assert [content for _packet_id, content in again[len(open_) :]] == [b"content-of-b-7"]
        reader.drop()
        world.tick()
        # Once more: what is left of them is a packet id that waits for its end.
        reader = back(world, "c", receive_maximum=6)
        assert [packet.packet_id for packet in reader.inbox if isinstance(packet, Ack)] == released
        got = payloads(reader)
        assert got == [b"content-of-b-%d" % number for number in range(len(released) or 1, 8) if number % 2]
        reader.drop()
        assert payloads(back(world, "c")) == []
        world.tick()
        assert world.count_keys("c") <= 5, "nothing is kept of what was in flight"


def stored_with(world: LakeWorld, content: bytes) -> int:
    """How many records of sessions have it."""
    family = world.disk.engine.family(SESSIONS)
    return sum(content in value for _key, value in scan_items(family, b"", b"\xff"))
