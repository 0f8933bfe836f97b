"""Who gets a topic, as the control socket says, against what clients receive."""

import asyncio
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.connections.origin import Origin
from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.control.words import EARLIEST_US, NOT_POSSIBLE, SessionRequest, Subscriptions, SubscriptionsRequest
from holdfast.model.histogram import HistogramCounts
from holdfast.node.control.broker_stats import BrokerStats, LoopLag
from holdfast.node.control.client_feed import ClientFeed, ClientScan
from holdfast.node.control.client_rows import ClientRowBuilder
from holdfast.node.control.control_server import ControlConnection, RefusedRequestError
from holdfast.node.control.control_watches import ControlWatches
from holdfast.node.control.control_words import ControlWords
from holdfast.node.control.slice_times import SliceTimes
from holdfast.node.node_state import NodeState
from holdfast.node.settings.tree import Settings, Storage
from holdfast.wire.packets import Connack, Connect, Publish
from tests.disk_world import DiskWorld, replay
from tests.slow_world import rules
from tests.world import Peer, World

NOBODY: ControlConnection = None  # type: ignore[assignment]
FILTERS = ["#", "a/#", "a/+", "+/b", "a/b", "a/b/#", "$SYS/#", "+/+/c", "/a"]
TOPICS = ["a", "a/b", "a/c", "a/b/c", "b", "x/b", "/a", "$x/b"]


def words(world: World) -> ControlWords:
    slices = SliceTimes(HistogramCounts(DURATION_BOUNDS))
    rows = ClientRowBuilder(world.broker, None)
    feed = ClientFeed(world.broker, rows, slices)
    scan = ClientScan(world.broker, feed, slices)
    state = NodeState(Settings(storage=Storage(durability="memory")), world.broker)
    lag = LoopLag()
    stats = BrokerStats(world.broker, state, scan, slices, lag, None)
    watches = ControlWatches(stats, feed, scan, lag, slices)
    return ControlWords(world.broker, state, stats, rows, watches, slices, None)


def told(world: World, **wanted: Any) -> Subscriptions:
    async def ask() -> Subscriptions:
        return await words(world).subscriptions(NOBODY, SubscriptionsRequest(**wanted))

    return asyncio.run(ask())


def who(world: World, topic: str) -> set[str]:
    return {item.session_id for item in told(world, topic=topic).items}


def receivers(world: World, peers: dict[str, Peer], topic: str) -> set[str]:
    """Who receives a message on a topic."""
    writer = world.connect("writer")
    writer.send(Publish(topic, b"", 0))
    found = {name for name, peer in peers.items() if peer.inbox}
    for peer in peers.values():
        peer.inbox.clear()
    return found


def test_who_gets_a_topic_is_who_receives_it() -> None:
    with World() as world:
        peers = {text: world.connect(text) for text in FILTERS}
        for text, peer in peers.items():
            peer.subscribe(text)
        for topic in TOPICS:
            assert who(world, topic) == receivers(world, peers, topic), topic


def test_who_may_not_read_a_topic_does_not_get_it(tmp_path: Path) -> None:
    with World(authenticator=rules(tmp_path, "topic readwrite a/#\ntopic deny a/b\n")) as world:
        peer = world.connect("a")
        peer.subscribe("a/#")
        assert who(world, "a/b") == receivers(world, {"a": peer}, "a/b") == set()
        assert who(world, "a/c") == receivers(world, {"a": peer}, "a/c") == {"a"}


def test_a_mount_point_hides_what_its_clients_do_not_see() -> None:
    with World() as world:
        peer = world.peer(origin=Origin("test", "127.0.0.1", 1, "tcp", mount_point="m/", allow_anonymous=True))
        peer.send(Connect(5, "a"))
        peer.take(Connack)
        peer.subscribe("#")
        assert who(world, "m/a") == {"m/\0a"}
        assert who(world, "m/$SYS/a") == set()
        assert who(world, "a") == set()


def test_every_member_of_a_group_is_listed_with_its_group() -> None:
    with World() as world:
        for name in "ab":
            world.connect(name).subscribe("$share/g/t")
        found = told(world, topic="t").items
        assert {(item.session_id, item.group, item.members) for item in found} == {("a", "g", 2), ("b", "g", 2)}


@pytest.mark.parametrize("many", [999, 1000, 1001, 2500])
def test_many_subscriptions_are_looked_at_in_slices(many: int) -> None:
    with World() as world:
        peer = world.connect("a")
        for start in range(0, many, 100):
            peer.subscribe(*(f"t/{number}" for number in range(start, min(many, start + 100))))
        peer.subscribe("elsewhere")
        answer = told(world, under="t/#")
        assert (len(answer.items), answer.more) == (min(many, 1000), many > 1000)
        assert [item.filter for item in told(world, under="elsewhere").items] == ["elsewhere"]


def pages_of(world: World, changes: Iterator[None], limit: int) -> list[tuple[str, str]]:
    """All subscriptions, a page at a time, and something happens between two pages."""
    found: list[tuple[str, str]] = []
    after: tuple[str, str] | None = None
    while True:
        page = told(world, under="#", limit=limit, after=after)
        assert page.in_order
        assert 0 < len(page.items) <= limit
        found += [(item.session_id, item.filter) for item in page.items]
        if not page.more:
            return found
        after = found[-1]
        next(changes, None)


@pytest.mark.parametrize("limit", [1, 7, 30, 31, 1000])
def test_pages_hold_each_subscription_once_whatever_comes_and_goes_between_them(limit: int) -> None:
    with World() as world:
        peers = {name: world.connect(name) for name in "dbcae"}
        for name, peer in peers.items():
            peer.subscribe(*(f"{name}/{number:02d}/é" for number in range(31)))
        stays = {(name, f"{name}/{number:02d}/é") for name in "abde" for number in range(31)}

        def change() -> Iterator[None]:
            peers["c"].drop()
            yield
            for number in range(40):
                world.connect(f"new-{number}").subscribe("x", "y")
                yield

        found = pages_of(world, change(), limit)

        assert found == sorted(found)
        assert len(found) == len(set(found))
        assert stays <= set(found)


def test_a_subscription_says_from_when_on_it_gets_messages_and_how_far_its_replay_has_come(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        writer = world.connect("writer")
        for number in range(3):
            world.advance(10)
            writer.send(Publish("a", b"", 1, number + 1))
        stored_us = world.broker.clock.wall_us()
        world.advance(100)
        reader = world.connect("c")
        reader.subscribe("elsewhere")
        replay(reader, "a", qos=0, replay_from="earliest", replay_speed="10")
        begun_us = world.broker.clock.wall_us()

        def shown(filter_: str) -> tuple[int, int]:
            (item,) = told(world, under=filter_).items
            return item.since_us, item.replayed_us

        assert shown("elsewhere") == (begun_us, 0)
        assert shown("a")[1] >= EARLIEST_US
        world.advance(1.5)
        since_us, replayed_us = shown("a")
        assert since_us == EARLIEST_US
        assert stored_us - 20_000_000 <= replayed_us < stored_us
        world.advance(1000)
        assert shown("a") == (EARLIEST_US, 0)


def test_filters_of_any_length_fit_into_an_answer() -> None:
    with World() as world:
        peer = world.connect("a")
        for number in range(10):
            peer.subscribe(f"{number}/" + "x" * 60_000)
        answer = told(world, under="#")
        assert answer.more
        assert 0 < len(answer.items) < 10
        detail = words(world).client(NOBODY, SessionRequest("a"))
        assert 0 < len(detail.subscriptions) < detail.subscription_count == 10


def test_a_broker_that_starts_takes_no_commands() -> None:
    with World() as world:
        for command, request in product(("kick", "end_session"), (SessionRequest("a"),)):
            with pytest.raises(RefusedRequestError) as refused:
                getattr(words(world), command)(NOBODY, request)
            assert refused.value.code == NOT_POSSIBLE
