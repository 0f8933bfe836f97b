"""Nothing is dropped in silence: each reason leaves an event that names client, topic and place."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.broker.policy import Limits, Mqtt, Policy, Sessions
from holdfast.durable.log import LostRange
from holdfast.model.protocol import PUBACK
from holdfast.model.reasons import QUOTA_EXCEEDED
from holdfast.records.events import Event
from holdfast.storage.event_files import read_events
from holdfast.wire.packets import Ack, Connack, Connect, Pingreq, Publish, Will
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, publish
from tests.slow_world import kept, rules
from tests.world import Peer, World

KEPT = Properties(session_expiry_interval=3600)


def told(world: World, reason: str) -> list[tuple[str, str, int]]:
    """Client, topic and count of the events of one reason."""
    world.stores.drops.close_window()
    return [(event.client, event.topic, event.count) for event in world.stores.drops.recent if event.reason == reason]


def detail(world: World, reason: str) -> str:
    return next(event.detail for event in world.stores.drops.recent if event.reason == reason)


def test_nothing_is_noted_as_long_as_everything_arrives() -> None:
    with World() as world:
        reader = kept(world, "reader")
        reader.subscribe("#", qos=1)
        world.connect("writer").send(Publish("a", b"1", 1, 1), Publish("a", b"2"), Publish("b", b"3", 2, 2))
        world.stores.drops.close_window()
        assert list(world.stores.drops.recent) == []


def test_slow_too_large_expired_and_refused_by_the_client() -> None:
    with World() as world:
        reader = world.connect("reader", properties=Properties(maximum_packet_size=60))
        reader.subscribe("#")
        writer = world.connect("writer")
        world.broker.writable(reader.channel, yes=False)
        writer.send(Publish("quick", b""), Publish("quick", b""))
        short = Properties(message_expiry_interval=1)
        writer.send(Publish("old", b"", 1, 1, properties=short))
        world.advance(5)
        world.broker.writable(reader.channel, yes=True)
        world.settle()
        writer.send(Publish("large", bytes(100), 1, 2), Publish("bad", b"", 1, 3))
        reader.send(Ack(PUBACK, reader.take(Publish).packet_id, QUOTA_EXCEEDED))
        assert told(world, "slow_client") == [("reader", "quick", 2)]
        assert told(world, "expired") == [("reader", "old", 1)]
        assert told(world, "packet_too_large") == [("reader", "large", 1)]
        assert detail(world, "packet_too_large") == "the client takes packets up to 60 bytes"
        assert told(world, "refused_by_client") == [("reader", "bad", 1)]
        assert detail(world, "refused_by_client") == "reason 0x97"
        assert sum(world.broker.exchange.counters.drops.values()) == 5


def test_denied_in_either_direction_and_what_may_not_be_subscribed_to(tmp_path: Path) -> None:
    authenticator = rules(tmp_path, "topic write a/#\ntopic read a/#\ntopic deny a/secret\npattern read %c/#\n")
    with World(Policy(limits=Limits(max_subscriptions=1)), authenticator=authenticator) as world:
        reader = kept(world, "reader")
        reader.subscribe("#", qos=1)
        assert reader.subscribe("other", qos=1) == [QUOTA_EXCEEDED]
        writer = world.connect("writer")
        writer.send(Publish("b", b"", 1, 1), Publish("$SYS/mine", b"", 1, 2))
        assert told(world, "denied") == [("writer", "b", 1), ("writer", "$SYS/mine", 1)]
        assert "b" in detail(world, "denied")
        (tmp_path / "access").write_text("topic write #\npattern read %c/#\n")
        world.do(world.broker.reload_access)
        writer.send(Publish("a/1", b"live", 1, 3), Publish("a/1", b"", 0))
        reader.drop()
        writer.send(Publish("a/2", b"later", 1, 4))
        assert kept(world, "reader").inbox == []
        assert told(world, "denied")[2:] == [("reader", "a/1", 2), ("reader", "a/2", 1)]
        assert told(world, "subscribe_refused") == [("reader", "other", 1)]
        assert world.broker.exchange.counters.drops == {"denied": 5}


def test_quotas_of_queues_and_retained_messages() -> None:
    policy = Policy(
        limits=Limits(max_retained=1),
        sessions=Sessions(max_queued_messages=1),
        mqtt=Mqtt(check_payload_format=True),
    )
    with World(policy) as world:
        offline = kept(world, "reader")
        offline.subscribe("q", qos=1)
        offline.drop()
        writer = world.connect("writer", will=Will("will", b"gone", retain=True))
        writer.send(*(Publish("q", b"", 1, number) for number in range(1, 4)))
        writer.send(Publish("kept", b"1", 1, 4, retain=True))
        writer.send(Publish("too/many", b"2", 1, 5, retain=True))
        writer.send(Publish("text", b"\xff", properties=Properties(payload_format_indicator=1)))
        writer.drop()
        assert told(world, "queue_full") == [("reader", "", 2)]
        assert told(world, "retained_full") == [("writer", "too/many", 1), ("writer", "will", 1)]
        assert told(world, "payload_not_utf8") == [("writer", "text", 1)]


def test_a_session_that_ends_takes_what_it_is_owed_and_says_so() -> None:
    with World() as world:
        for name in ("expires", "anew"):
            kept(world, name).subscribe("a", qos=1)
        for connection in list(world.broker.connections):
            world.broker.connections.close(connection, b"")
        world.connect("writer").send(Publish("a", b"", 1, 1), Publish("a", b"", 1, 2))
        world.connect("anew", clean_start=True)
        assert told(world, "session_ended") == [("anew", "", 2)]
        assert detail(world, "session_ended") == "the client asked for a clean start"
        world.advance(101)
        assert told(world, "session_ended")[1:] == [("expires", "", 2)]


def test_connections_that_are_refused_ended_or_taken_over() -> None:
    with World(Policy(limits=Limits(max_sessions=1))) as world:
        first = world.connect("first", keep_alive_s=2)
        refused = world.peer()
        refused.send(Connect(5, "second"))
        assert refused.take(Connack).reason == QUOTA_EXCEEDED
        again = world.connect("first", clean_start=False, keep_alive_s=2)
        assert first.closed
        world.advance(60)
        assert again.closed
        assert told(world, "connect_refused") == [("second", "", 1)]
        assert "1 sessions, which is the limit" in detail(world, "connect_refused")
        assert told(world, "takeover") == [("first", "", 1)]
        assert told(world, "disconnected") == [("first", "", 1)]
        assert detail(world, "disconnected").endswith("(from 127.0.0.1)")
        world.do(world.broker.disconnect_all)
        assert len(told(world, "disconnected")) == 1, "the end of the broker is no news about a client"


# ---- on disk


def stored(folder: Path, reason: str) -> list[Event]:
    return [event for event in read_events(folder) if event.reason == reason]


def reconnected(world: World, name: str) -> Peer:
    peer = kept(world, name)
    peer.send(Pingreq())
    return peer


def test_an_event_has_the_place_of_its_message_and_survives_a_restart(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        kept(world, "reader").subscribe("#", qos=1)
        world.broker.connections.close(next(iter(world.broker.connections)), b"")
        writer = world.connect("writer")
        writer.send(Publish("a", b"", 1, 1, properties=Properties(message_expiry_interval=1)))
        (shard, place_us), *_more = world.disk._delivered.items()
        world.tick(5)
        reconnected(world, "reader")
        world.tick()
        (event,) = stored(tmp_path, "expired")
        assert (event.client, event.topic, event.shard) == ("reader", "a", shard)
        assert event.from_us == event.to_us == place_us
        assert event.covers(shard, place_us)
        assert not event.covers(shard + 1, place_us)
    with DiskWorld(tmp_path, start_us=1_700_000_100_000_000) as world:
        world.tick()
    assert len(stored(tmp_path, "expired")) == 1


def test_a_message_that_cannot_be_stored_is_told_although_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DiskWorld(tmp_path, min_free_bytes=1 << 30) as world:
        # No mark is above half of a disk, and the one of this machine may be empty.
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(total=1 << 40, free=1 << 20))
        world.tick()
        world.connect("writer").send(Publish("a", b"", 1, 1))
        world.tick()
        (event,) = stored(tmp_path, "no_room_to_store")
        assert (event.client, event.topic, event.count) == ("writer", "a", 1)


def test_what_retention_took_from_a_session_is_told_with_its_range(tmp_path: Path) -> None:
    """L12."""
    with DiskWorld(tmp_path) as world:
        world.disk._lost("late", LostRange(3, 1000, 2000, 40))
        world.disk._gone("late", 3, 2500)
        world.tick()
        (event,) = stored(tmp_path, "retention")
        assert (event.client, event.shard, event.from_us, event.to_us, event.count) == ("late", 3, 1000, 2500, 41)
        assert world.broker.exchange.counters.drops == {"retention": 41}


def test_a_stored_session_that_expires_is_told(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader")
        reader.subscribe("#", qos=1)
        reader.drop()
        publish(world, ("a", b"1"))
        world.tick(200)
        world.tick()
        (event,) = stored(tmp_path, "session_ended")
        assert (event.client, event.detail) == ("reader", "its expiry interval had passed")


def test_damage_at_the_start_is_an_event(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"1"))
    (tmp_path / "rocks" / "CURRENT").write_bytes(b"nonsense\n")
    with DiskWorld(tmp_path, start_us=1_700_000_100_000_000) as world:
        world.tick()
    (event,) = stored(tmp_path, "damaged")
    assert "CURRENT" in event.detail
