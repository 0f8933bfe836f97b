"""Rights that change, mount points, and answers that fit."""

from pathlib import Path

import pytest

from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Mqtt, Policy
from holdfast.model.protocol import V5
from holdfast.node.settings.rules import problems_of
from holdfast.node.settings.tree import Listener, Settings
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Connack,
    Connect,
    Publish,
    Suback,
    Will,
)
from holdfast.wire.properties import Properties
from tests.slow_world import MOUNTED, SlowWorld, connect, kept, rules, subscribe
from tests.world import World

pytestmark = pytest.mark.compiled


def test_rights_given_while_a_client_is_offline_hold_for_what_it_is_owed(tmp_path: Path) -> None:
    """The plan of a topic leaves out who was denied when it was made, and outlives the connection and the reload."""
    authenticator = rules(tmp_path, "topic write #\npattern read %c/#\ntopic read public\n")
    with World(authenticator=authenticator) as world:
        reader = kept(world, "reader")
        assert reader.subscribe("#", qos=1) == [1]
        writer = world.connect("writer")
        writer.send(Publish("a", b"denied", 1, 1))
        reader.drop()
        (tmp_path / "access").write_text("topic readwrite #\n")
        world.do(world.broker.reload_access)
        writer.send(Publish("a", b"granted", 1, 2))
        assert kept(world, "reader").payloads() == [b"granted"]


def test_rights_taken_during_a_takeover_are_taken(tmp_path: Path) -> None:
    """The taker has its rights from before the reload, and is no client yet when the reload looks."""
    with SlowWorld(authenticator=rules(tmp_path, "topic readwrite #\n")) as world:
        old = kept(world, "c")
        old.subscribe("a", qos=1)
        world.hold()
        new = world.peer()
        new.send(connect("c"))
        (tmp_path / "access").write_text("topic write #\n")
        world.do(world.broker.reload_access)
        world.release()
        new.take(Connack)
        world.connect("writer").send(Publish("a", b"secret", 1, 1))
        assert new.inbox == []


def test_a_will_is_not_published_in_the_brokers_name() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/#")
        peer = world.peer()
        peer.send(Connect(V5, "c", will=Will("$SYS/broker/uptime", b"lie", retain=True)))
        if not peer.closed:
            peer.drop()
        assert reader.inbox == []


def test_wildcards_of_a_mounted_client_leave_out_its_dollar_topics() -> None:
    """[MQTT-4.7.2-1] holds for topics as the client sees them."""
    with World() as world:
        peer = world.peer(V5, MOUNTED)
        peer.send(connect("c"), subscribe("#"))
        peer.inbox.clear()
        peer.send(Publish("$private/x", b""))
        assert peer.inbox == []


def test_a_mount_point_works_with_wildcards_or_is_refused_at_the_start() -> None:
    """`t1` and the filter `#` become `t1#`, which is no wildcard and matches nothing."""
    if problems_of(Settings(listeners={"main": Listener(mount_point="t1")})):
        return
    origin = Origin("test", "127.0.0.1", 1, "tcp", mount_point="t1", allow_anonymous=True)
    with World() as world:
        peer = world.peer(V5, origin)
        peer.send(connect("c"), subscribe("#"), Publish("/a", b"x"))
        assert [packet.payload for packet in peer.inbox if isinstance(packet, Publish)] == [b"x"]


def test_a_reason_string_does_not_make_a_suback_larger_than_the_client_takes() -> None:
    """[MQTT-3.1.2-24], [MQTT-3.9.2-1]"""
    with World(Policy(mqtt=Mqtt(wildcards_available=False))) as world:
        peer = world.connect("c", properties=Properties(maximum_packet_size=60))
        peer.send(subscribe("a/long/filter/with/many/levels/so/that/it/does/not/fit/at/all/#"))
        assert len(encode(peer.take(Suback), V5)) <= 60
