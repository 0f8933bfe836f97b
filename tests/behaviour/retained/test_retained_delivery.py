"""Retained messages on their way to a new subscription, while the world goes on."""

import pytest

from holdfast.model.protocol import PUBACK
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import (
    Ack,
    Publish,
    Suback,
    Unsuback,
    Unsubscribe,
)
from tests.slow_world import at_once, kept, subscribe
from tests.world import World

pytestmark = pytest.mark.compiled


def test_a_retained_message_that_came_after_the_subscription_is_delivered_once() -> None:
    """Batches keep their retained messages before their effects, so the walk finds what is also delivered live."""
    with World() as world:
        peer = world.connect("c")
        writer = world.connect("writer")
        at_once(world, (peer, subscribe("a", qos=2)), (writer, Publish("a", b"x", 2, 1, retain=True)))
        peer.take(Suback)
        assert [(message.payload, message.retain) for message in peer.take_all(Publish)] == [(b"x", False)]


def test_a_walk_does_not_show_a_newer_message_before_an_older_one() -> None:
    """Promise 3: the walk reads the store as it is by then, while live messages wait in the queue."""
    with World() as world:
        writer = world.connect("writer")
        for topic in ("a/1", "a/2"):
            writer.send(Publish(topic, b"0", 1, 1, retain=True))
        peer = kept(world, "c", receive_maximum=1)
        peer.subscribe("a/#", qos=1)
        for payload in (b"1", b"2"):
            writer.send(Publish("a/2", payload, 1, 1, retain=True))
        seen = []
        while peer.inbox:
            message = peer.take(Publish)
            if message.topic == "a/2":
                seen.append(message.payload)
            peer.send(Ack(PUBACK, message.packet_id))
        assert seen == sorted(seen)
        assert seen.count(b"1") == seen.count(b"2") == 1


def test_an_unsubscribed_filter_adds_no_more_retained_messages() -> None:
    """[MQTT-3.10.4-2]"""
    with World() as world:
        writer = world.connect("writer")
        for number in range(20):
            writer.send(Publish(f"a/{number:02}", b"r", 1, 1, retain=True))
        peer = kept(world, "c", receive_maximum=1)
        peer.subscribe("a/#", qos=1)
        message = peer.take(Publish)
        peer.send(Unsubscribe(9, (parse_filter(b"a/#"),)))
        peer.take(Unsuback)
        peer.send(Ack(PUBACK, message.packet_id))
        assert peer.inbox == []
