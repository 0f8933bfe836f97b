"""`$SYS` has Mosquitto's names, and is published on change."""

import pytest

from holdfast.broker.sys_topics import SysTopics
from holdfast.wire.packets import Publish
from tests.world import World

pytestmark = pytest.mark.compiled


def test_sys_topics_are_published_under_mosquittos_names_and_only_when_they_change() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/broker/#")
        topics = SysTopics(world.broker, "holdfast test", 10)
        world.do(topics.start)
        first = {message.topic: message.payload for message in reader.take_all(Publish)}
        assert first["$SYS/broker/version"] == b"holdfast test"
        assert first["$SYS/broker/clients/connected"] == b"1"
        assert first["$SYS/broker/subscriptions/count"] == b"1"
        world.connect("another")
        world.advance(10)
        second = {message.topic: message.payload for message in reader.take_all(Publish)}
        assert second["$SYS/broker/clients/connected"] == b"2"
        assert second["$SYS/broker/uptime"] == b"10 seconds"
        assert "$SYS/broker/version" not in second
        late = world.connect("late")
        late.subscribe("$SYS/broker/version")
        assert late.payloads() == [b"holdfast test"]
