"""Bridges of MQTT 3: known by their protocol level, without echo, and allowed to say that they are connected."""

from pathlib import Path

import pytest

from holdfast.exchange.plans import is_reserved
from holdfast.model.protocol import V5, V31, V311
from holdfast.wire.packets import Connack, Connect, Disconnect, Publish, Will
from tests.disk_world import DiskWorld
from tests.slow_world import rules
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

STATE = "$SYS/broker/connection/b/state"


def bridge(world: World, version: int = V311, **options: object) -> Peer:
    return world.connect("b", version, bridge=True, **options)


@pytest.mark.parametrize("version", [V31, V311])
def test_a_bridge_gets_nothing_back_and_retain_flags_as_published(version: int) -> None:
    with World() as world:
        peer = bridge(world, version)
        assert peer.connack == Connack(0)
        peer.subscribe("#", qos=0)
        peer.send(Publish("own", b"own"), Publish("kept", b"own", retain=True))
        assert peer.inbox == []
        world.connect("other").send(Publish("a", b"1"), Publish("b", b"2", retain=True))
        assert [(message.payload, message.retain) for message in peer.take_all(Publish)] == [
            (b"1", False),
            (b"2", True),
        ]
        plain = world.connect("c", version)
        plain.subscribe("#", qos=0)
        assert len(plain.take_all(Publish)) == 2
        plain.send(Publish("own", b"own", retain=True))
        assert [message.retain for message in plain.take_all(Publish)] == [False]


def test_a_bridge_in_a_group_is_a_member_like_any_other() -> None:
    """[MQTT-3.8.3-4]: groups know no "no local"."""
    with World() as world:
        peer = bridge(world)
        assert peer.subscribe("$share/g/a", qos=0) == [0]
        peer.send(Publish("a", b"own"))
        assert peer.payloads() == [b"own"]


@pytest.mark.parametrize("version", [V311, V5])
def test_the_state_of_a_bridge_may_be_a_will_and_a_message(version: int) -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/broker/connection/+/state", qos=1)
        peer = world.connect("b", version, will=Will(STATE, b"0", 1, retain=True))
        peer.send(Publish(STATE, b"1", 1, 1, retain=True))
        peer.drop()
        assert reader.payloads() == [b"1", b"0"]
        late = world.connect("late")
        late.subscribe("$SYS/broker/connection/+/state", qos=0)
        assert [(message.payload, message.retain) for message in late.take_all(Publish)] == [(b"0", True)]


@pytest.mark.parametrize(
    "topic",
    [
        "$SYS/broker/uptime",
        "$SYS/broker/connection/b",
        "$SYS/broker/connection/b/state/x",
        "$SYS/broker/connection/b/c/state",
        "$SYS/broker/connection/state",
        "$SYS/broker/connection/b/states",
    ],
)
def test_other_topics_of_the_broker_stay_its_own(topic: str) -> None:
    assert is_reserved(topic.encode())
    with World() as world:
        refused = world.peer()
        refused.send(Connect(V5, "b", will=Will(topic, b"0")))
        assert refused.take(Connack).reason == 0x87


def test_access_rules_hold_for_the_state_of_a_bridge(tmp_path: Path) -> None:
    """A rule for `#` does not speak of `$SYS`, as in Mosquitto: it is granted by its name."""
    with World(authenticator=rules(tmp_path, "topic readwrite #\n")) as world:
        refused = world.peer()
        refused.send(Connect(V5, "b", will=Will(STATE, b"0")))
        assert refused.take(Connack).reason == 0x87
    granted = "topic readwrite #\npattern write $SYS/broker/connection/%c/state\n"
    with World(authenticator=rules(tmp_path, granted)) as world:
        peer = world.connect("b", will=Will(STATE, b"0"))
        assert peer.connack.reason == 0
        peer.send(Publish(STATE.replace("/b/", "/c/"), b"1", 1, 1))
        assert peer.inbox.pop().reason == 0x87  # type: ignore[union-attr]
        peer.send(Disconnect())


def test_the_state_of_a_bridge_does_not_outlive_the_broker(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        world.connect("b").send(Publish(STATE, b"1", 1, 1, retain=True))
    with DiskWorld(tmp_path) as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/#", qos=0)
        assert reader.payloads() == []
