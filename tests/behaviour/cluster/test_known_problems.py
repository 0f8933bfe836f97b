"""What goes wrong in a registry that is eventually consistent, shown in the mode `eventual`, and not in the others.

These are the problems that the linear channel registry was made for. The wrong outcomes are asserted: they are what
`eventual` means when nodes hear of each other late.
"""

from holdfast.cluster.registry.takeover_begin import BEGIN, SERVED
from holdfast.model.ids import ClientId
from holdfast.model.protocol import V5
from holdfast.wire.packets import Connack, Connect
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterWorld

KEPT = Properties(session_expiry_interval=1000)


def begins(world: ClusterWorld) -> list[int]:
    """The nodes that were asked to begin, in order."""
    return [node for node, what in world.network.asked if what == BEGIN]


def test_a_node_that_does_not_see_the_channel_begins_without_it(registry_mode: str) -> None:
    """R13, R3: gossip lags, and so does the table of the taker's node. A claim with an expected revision finds out."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        log = world.log_of("p1")
        world.network.hold_told = log.hold_reads = True
        first, second, third = log.readings()
        old = one.peer()
        old.send(Connect(V5, "p1", clean_start=True, properties=KEPT))
        for _record in range(2):  # its claim, then its session
            world.do(lambda: log.deliver(first))
        assert old.take(Connack).reason == 0
        new = two.peer()
        new.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        for _round in range(6):
            for reading in (second, first, third):
                world.do(lambda reading=reading: log.deliver(reading))  # type: ignore[misc]
            world.advance(0.1)
        assert new.take(Connack).session_present
        assert old.closed
        was_begun_with = one.counts.begins.get(SERVED, 0) == 1
        assert was_begun_with == (registry_mode != "eventual")


def test_a_takeover_begins_with_the_wrong_channel(registry_mode: str) -> None:
    """R13: the client has moved from node 1 to node 2, and node 3 has heard of node 1 alone."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        one.connect("p1", clean_start=True, properties=KEPT)
        world.network.hold_told = True
        two.connect("p1", clean_start=False, properties=KEPT)
        three.connect("p1", clean_start=False, properties=KEPT)
        assert begins(world) == ([1, 1] if registry_mode == "eventual" else [1, 2])


def test_an_old_connection_that_is_slow_closes_the_newest(registry_mode: str) -> None:
    """R2, R13: its transport connected first, and its CONNECT comes last."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        slow = one.peer()
        world.advance(0.01)
        newest = two.connect("p1", clean_start=True, properties=KEPT)
        slow.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        reason = slow.take(Connack).reason
        if registry_mode == "eventual":
            assert (reason, newest.closed) == (0, True)
        else:
            assert (reason, newest.closed) == (0x89, False)


def test_an_old_clean_start_that_is_slow_takes_the_session_away(registry_mode: str) -> None:
    """R6, R12, R13: its client never asked for a new session on the connection that counts."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        slow = one.peer()
        world.advance(0.01)
        newest = two.connect("p1", clean_start=True, properties=KEPT)
        slow.send(Connect(V5, "p1", clean_start=True))
        slow.take(Connack)
        slow.drop()
        newest.drop()
        back = two.connect("p1", clean_start=False, properties=KEPT)
        assert back.connack.session_present == (registry_mode != "eventual")


def test_a_deregistration_that_is_lost_leaves_a_registration_behind(registry_mode: str) -> None:
    """R9, R13: a node that missed it shows a channel that has ended, until it hears the next whole list."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        client = one.connect("p1", clean_start=True, properties=KEPT)
        world.network.is_lost = lambda node: node == 2
        client.drop()
        world.network.is_lost = lambda _node: False
        registry = two.registries.registry
        assert (registry.local_newest(ClientId("p1")) is None) == (registry_mode != "eventual")
        world.advance(30)
        assert registry.local_newest(ClientId("p1")) is None
        assert two.connect("p1", clean_start=False, properties=KEPT).connack.session_present


def test_a_lock_that_is_left_behind_keeps_the_client_out(registry_mode: str) -> None:
    """R13: a node dies in the middle of a takeover. Only `eventual` has a lock."""
    with ClusterWorld() as world:
        _one, two, three = world.nodes
        log = world.log_of("p1")
        log.hold_appends = True
        two.peer().send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        two.kill()
        log.held.clear()
        log.hold_appends = False
        two.fence()
        late = three.peer()
        late.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        for _part in range(51):
            world.advance(0.1)
        assert late.take(Connack).reason == (0x88 if registry_mode == "eventual" else 0)
        world.lead(30)
        assert three.connect("p1", clean_start=False, properties=KEPT).connack.reason == 0
