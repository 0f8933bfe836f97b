"""What a client gets from its queue, whatever the backend, when answers of the store are older than its contents."""

from pathlib import Path

import pytest

from holdfast.model.protocol import PUBCOMP, PUBREC, PUBREL
from holdfast.wire.packets import Ack, Publish
from tests.conformance.delayed_store import DelayedWorld
from tests.conformance.queue_backends import BACKENDS, Opener
from tests.conformance.test_queue_store import SLOW
from tests.disk_world import back
from tests.slow_world import kept
from tests.world import Peer


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in BACKENDS])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return BACKENDS[request.param](request, tmp_path)


def publish(world: DelayedWorld, *payloads: bytes) -> Peer:
    writer = world.connect("writer")
    writer.send(*(Publish("a/b", payload, 2, number + 1) for number, payload in enumerate(payloads)))
    return writer


def take_in_flight(reader: Peer) -> list[Publish]:
    return [packet for packet in reader.inbox if isinstance(packet, Publish)]


def complete(world: DelayedWorld, reader: Peer, messages: list[Publish]) -> None:
    """The client finishes messages, and the store is told."""
    reader.inbox.clear()
    reader.send(*(Ack(PUBREC, message.packet_id) for message in messages))
    assert reader.take_all(Ack) == [Ack(PUBREL, message.packet_id) for message in messages]
    reader.send(*(Ack(PUBCOMP, message.packet_id) for message in messages))
    world.advance(0.2)
    assert "acknowledge" in world.held.answered


def test_a_page_read_before_an_acknowledgement_and_answered_after_it_repeats_no_qos_2_message(
    tmp_path: Path, opener: Opener
) -> None:
    """Q1: messages in flight when the broker was killed complete while the first page is on its way."""
    with DelayedWorld(tmp_path, opener) as world:
        reader = kept(world, "reader", receive_maximum=3)
        reader.subscribe("a/#", qos=2)
        publish(world, b"1", b"2", b"3", b"4")
        assert [message.payload for message in take_in_flight(reader)] == [b"1", b"2", b"3"]
    with DelayedWorld(tmp_path, opener) as world:
        world.held.read_answers.clear()
        reader = back(world, "reader")
        again = take_in_flight(reader)
        assert [(message.payload, message.dup) for message in again] == [(b"1", True), (b"2", True), (b"3", True)]
        assert world.held.answered.count("read") == 1
        complete(world, reader, again)
        assert world.size("reader") == 1
        assert not reader.inbox
        world.held.read_answers.set()
        world.settle()
        assert reader.payloads() == [b"4"]


def test_a_repeated_append_answered_after_an_acknowledgement_repeats_no_qos_2_message(
    tmp_path: Path, opener: Opener
) -> None:
    """Q1, T13: the outbox gives messages to a queue again that are in flight, and complete before the answer."""
    with DelayedWorld(tmp_path, opener) as world:
        kept(world, "reader").subscribe("a/#", qos=2)
        world.held.append_answers.clear()
        publish(world, b"1", b"2", b"3")
        reader = back(world, "reader")
        assert [message.payload for message in take_in_flight(reader)] == [b"1", b"2", b"3"]
    with DelayedWorld(tmp_path, opener) as world:
        world.held.append_answers.clear()
        world.held.read_calls.clear()
        reader = back(world, "reader")
        assert world.held.answered == ["append"]
        complete(world, reader, take_in_flight(reader))
        assert world.size("reader") == 0
        world.held.read_calls.set()
        world.settle()
        world.held.append_answers.set()
        world.settle()
        assert not reader.inbox
        publish(world, b"4")
        assert reader.payloads() == [b"4"]
