"""The broker and its registry, when the registry knows more than the broker has heard of: who is let in, and what
becomes of the session.

The registry here is the real one in memory. What another node would do to it is done to it directly, and the broker's
local view hears of it when the test says so.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

from structlog.testing import capture_logs

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.takeover.registry import (
    NOBODY,
    PATIENCE_S,
    ChannelVersion,
    CommitLost,
    CommitResult,
    Committed,
    MemoryRegistry,
    Registration,
)
from holdfast.durable.takeover.takeover import MAX_RETRIES
from holdfast.model.ids import ClientId
from holdfast.model.protocol import V5
from holdfast.wire.packets import Connack, Connect, Disconnect, Publish
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, publish
from tests.slow_world import kept
from tests.unit.durable.takeover.lagging_registry import Change, LaggingRegistry, at_once
from tests.world import Peer, World

CLIENT = ClientId("c")
KEPT = Properties(session_expiry_interval=100)


class RegistryWorld(World):
    """A broker whose registry is shared with nodes that are not there."""

    def make_stores(self, policy: Policy) -> Stores:
        self.real = MemoryRegistry()
        self.changes: list[Change] = []
        self.view = BusyRegistry(self.real, self.changes)
        return replace(super().make_stores(policy), registry=self.view)

    def elsewhere(self, version: ChannelVersion, number: int, node: int = 1, epoch: int = 0) -> Registration:
        """A channel of this client id on another node, or in another life of this one, takes the place of any."""
        before = at_once(self.real.read_newest(CLIENT))
        if isinstance(before, Registration):
            at_once(self.view.remove(before))
        made = Registration(CLIENT, node, number, version, epoch)
        result = at_once(self.view.commit(made, NOBODY))
        assert isinstance(result, Committed)
        return made.at_revision(result.revision)

    def registered(self) -> Registration | None:
        newest = at_once(self.real.read_newest(CLIENT))
        assert newest is None or isinstance(newest, Registration)
        return newest

    def release(self) -> None:
        """Let the commit that is held go on."""
        held = self.view.held
        assert held is not None
        self.do(held.set)

    def hear_all(self) -> None:
        self.view.hear(self.view.lag())

    def own(self) -> Peer:
        """A connected client of this broker with a session that has a subscription; the view knows of it."""
        peer = self.connect("c", clean_start=False, properties=KEPT)
        peer.subscribe("a")
        self.hear_all()
        return peer

    def come(self, *, clean_start: bool = False) -> Peer:
        peer = self.peer()
        peer.send(Connect(V5, "c", clean_start=clean_start, properties=KEPT))
        return peer


#: Above every version of the clock of these tests, and below.
NEWER = ChannelVersion(1 << 50, 1, 1)
OLDER = ChannelVersion(1, 1, 1)
ABSENT = 1 << 40


def test_a_channel_older_than_the_real_newest_is_refused_late_and_keeps_its_session() -> None:
    """R2, R6: the local view knows nobody, the registry has a newer one. A clean start discards nothing."""
    with RegistryWorld() as world:
        world.own().drop()
        world.hear_all()
        world.elsewhere(NEWER, ABSENT)
        late = world.come(clean_start=True)
        assert late.take(Connack).reason == 0x89
        assert late.closed
        registered = world.registered()
        assert registered is not None
        assert registered.node == 1, "the newer one stays registered"
        assert list(world.broker.sessions.clients["c"].session.subscriptions) == [b"a"]
        assert world.broker.sessions.clients["c"].owner is None


def test_a_channel_that_was_begun_with_is_ended_when_a_newer_one_elsewhere_has_replaced_it() -> None:
    """R2: it is registered no more, so it is not set free to work on."""
    with RegistryWorld() as world:
        own = world.own()
        world.elsewhere(NEWER, ABSENT)
        late = world.come()
        assert late.take(Connack).reason == 0x89
        assert own.take(Disconnect).reason == 0x8E
        assert own.closed


def test_a_channel_elsewhere_with_the_number_of_one_here_is_not_taken_for_it() -> None:
    """A8: numbers of connections are given out by each node for itself, and again in each of its lives."""
    with RegistryWorld() as world:
        bystander = world.connect("bystander", clean_start=True)
        (connection,) = world.broker.connections
        for node, epoch in ((1, 0), (0, 7)):
            world.elsewhere(OLDER, connection.number, node, epoch)
            world.hear_all()
            peer = world.come()
            assert peer.take(Connack).reason == 0
            assert connection.takers == ()
            assert not bystander.closed
            bystander.subscribe("still/here")
            peer.drop()


def test_an_older_channel_that_the_view_did_not_know_is_taken_over() -> None:
    """R3, R12: the takeover begins again against the real newest, and the session is present."""
    with RegistryWorld() as world:
        world.own().drop()
        world.hear_all()
        world.elsewhere(OLDER, ABSENT)
        peer = world.come()
        connack = peer.take(Connack)
        assert (connack.reason, connack.session_present) == (0, True)
        registered = world.registered()
        assert registered is not None
        assert (registered.node, registered.connection_id) == (0, peer.channel.number)


class BusyRegistry(LaggingRegistry):
    """While it is busy, another older channel registers elsewhere right before each commit of this node. A commit that
    is held waits until it is released, or is refused.
    """

    busy = False
    commits = 0
    held: asyncio.Event | None = None
    refused = False

    def hold(self) -> None:
        self.held = asyncio.Event()

    async def commit(
        self, registration: Registration, expected_revision: int, patience_s: float = PATIENCE_S
    ) -> CommitResult:
        if self.held is not None and registration.client_id == CLIENT and registration.node == 0:
            await self.held.wait()
        if self.refused:
            newest = await self.real.read_newest(registration.client_id)
            assert isinstance(newest, Registration)
            return CommitLost(newest)
        if self.busy:
            self.commits += 1
            before = at_once(self.real.read_newest(CLIENT))
            if isinstance(before, Registration):
                at_once(self.real.remove(before))
            other = Registration(CLIENT, 1, ABSENT + self.commits, ChannelVersion(1, 1, self.commits))
            at_once(self.real.commit(other, NOBODY))
        return await super().commit(registration, expected_revision)


def test_retries_are_bounded_while_others_come_in_between() -> None:
    """R3: the client is told to try again, and its session stays."""
    with RegistryWorld() as world:
        world.own().drop()
        world.hear_all()
        world.view.busy = True
        peer = world.come(clean_start=True)
        assert peer.take(Connack).reason == 0x89
        assert world.view.commits == 1 + MAX_RETRIES
        assert list(world.broker.sessions.clients["c"].session.subscriptions) == [b"a"]
        world.view.busy = False
        assert world.come().take(Connack).session_present


def test_a_registry_that_went_backwards_refuses_the_client_and_says_so_in_the_log() -> None:
    """R5: the real newest is older than what was known here."""
    with RegistryWorld() as world:
        own = world.own()
        known = world.registered()
        world.elsewhere(OLDER, ABSENT)
        with capture_logs() as logs:
            peer = world.come()
        assert peer.take(Connack).reason == 0x89
        assert own.take(Disconnect).reason == 0x8E  # it is registered no more
        assert known is not None
        lines = [str(line) for line in logs if line["log_level"] == "info" and "registered is" in str(line)]
        assert len(lines) == 1
        assert OLDER.encode() in lines[0]
        assert known.version.encode() in lines[0]


def test_of_two_takers_of_a_silent_channel_the_newest_wins_and_the_silent_one_is_fenced(tmp_path: Path) -> None:
    """R8: the old channel does not answer, and what it did is not committed yet; what it sends later is not read."""
    with DiskWorld(tmp_path) as world:
        old = kept(world, "c")
        old.subscribe("a", qos=1)
        world.hold()
        old.send(Publish("b", b"begun", 1, 1))  # its commit hangs, and the takeover waits for it
        takers = []
        for _taker in range(2):
            taker = world.peer()
            taker.send(Connect(V5, "c", clean_start=False, properties=KEPT))
            takers.append(taker)
        assert [taker.inbox for taker in takers] == [[], []]
        world.release()
        assert takers[1].take(Connack).session_present
        assert (takers[0].closed, takers[1].closed, old.closed) == (True, False, True)
        for beaten in (old, takers[0]):
            assert [packet.reason for packet in beaten.inbox if isinstance(packet, Disconnect)] == [0x8E]
        received = world.broker.exchange.counters.messages_in
        world.do(lambda: world.broker.received(old.channel, b"\x30\x04\x00\x01ax"))  # PUBLISH to a
        assert world.broker.exchange.counters.messages_in == received
        publish(world, ("a", b"1"))
        assert takers[1].payloads() == [b"1"]
