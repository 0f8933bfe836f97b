"""Who gets a topic, as the control socket says, against what clients receive."""

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.connections.origin import Origin
from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.control.words import NOT_POSSIBLE, SessionRequest, Subscriptions, SubscriptionsRequest
from holdfast.model.histogram import HistogramCounts
from holdfast.node.broker_stats import BrokerStats, LoopLag
from holdfast.node.client_feed import ClientFeed, ClientScan
from holdfast.node.client_rows import ClientRowBuilder
from holdfast.node.control_server import ControlConnection, RefusedRequestError
from holdfast.node.control_watches import ControlWatches
from holdfast.node.control_words import ControlWords
from holdfast.node.node_state import NodeState
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.slice_times import SliceTimes
from holdfast.wire.packets import Connack, Connect, Publish
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
