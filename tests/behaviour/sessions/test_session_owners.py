"""A session belongs to the user that began it: a client of another user gets neither the session nor its client id."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Policy, Sessions
from holdfast.broker.stores import Stores
from holdfast.durable.sessions.session_store import KeepSession
from holdfast.durable.takeover.registry import PATIENCE_S, CommitResult, MemoryRegistry, Registration, Unsettled
from holdfast.exchange.drops import CONNECT_REFUSED
from holdfast.model.ids import ClientId
from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import CLIENT_IDENTIFIER_NOT_VALID, NOT_AUTHORIZED, SUCCESS
from holdfast.records.session.session_record import SessionRecord
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld
from tests.queue_world import QueueWorld
from tests.slow_world import KEPT, SlowWorld
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

ANYBODY = Policy(sessions=Sessions(owner="any"))


def of(user: str) -> Origin:
    """A connection of a user whose name a certificate has proved; empty for a client without a user name."""
    return Origin("test", "127.0.0.1", 1, "tls", tls_subject=user or None, allow_anonymous=True)


def come(
    world: World,
    user: str,
    client_id: str = "c",
    *,
    clean_start: bool = False,
    version: int = V5,
    will: Will | None = None,
    properties: Properties = KEPT,
) -> Peer:
    """A peer that has the answer to its CONNECT in `connack`."""
    peer = world.peer(version, of(user))
    given = properties if version == V5 else Properties()
    peer.send(Connect(version, client_id, clean_start=clean_start, will=will, properties=given))
    peer.connack = peer.take(Connack)
    return peer


def owed(world: World, payload: bytes = b"kept") -> None:
    """Alice subscribes, leaves, and is owed a message."""
    alice = come(world, "alice")
    alice.subscribe("a", qos=1)
    alice.drop()
    publish(world, payload)


def publish(world: World, payload: bytes) -> None:
    writer = world.connect("writer")
    writer.send(Publish("a", payload, 1, 1))
    writer.take(Ack)
    writer.drop()


@pytest.mark.parametrize("stranger", ["", "bob"])
@pytest.mark.parametrize("clean_start", [False, True])
def test_a_session_is_not_handed_to_another_user_and_not_ended_by_one(stranger: str, *, clean_start: bool) -> None:
    """What was acknowledged to the publisher reaches the client that it is for."""
    with World() as world:
        owed(world)
        refused = come(world, stranger, clean_start=clean_start)
        assert (refused.connack.reason, refused.connack.session_present) == (NOT_AUTHORIZED, False)
        assert refused.closed
        alice = come(world, "alice")
        assert alice.connack.session_present
        assert alice.payloads() == [b"kept"]


def test_the_session_of_an_anonymous_client_is_not_handed_to_a_user() -> None:
    with World() as world:
        come(world, "").drop()
        assert come(world, "alice").connack.reason == NOT_AUTHORIZED
        assert come(world, "").connack.session_present


@pytest.mark.parametrize("expiry_s", [0, 100])
def test_a_live_connection_is_not_taken_over_by_another_user(expiry_s: int) -> None:
    """Also if its session ends with it: the client id is in use."""
    with World() as world:
        alice = come(world, "alice", properties=Properties(session_expiry_interval=expiry_s))
        alice.subscribe("a", qos=1)
        for clean_start in (False, True):
            assert come(world, "bob", clean_start=clean_start).connack.reason == NOT_AUTHORIZED
        assert not alice.closed
        publish(world, b"live")
        assert alice.payloads() == [b"live"]
        come(world, "alice")
        assert alice.closed, "its own user takes it over as ever"


def test_a_client_id_whose_session_has_ended_is_free_for_any_user() -> None:
    with World() as world:
        come(world, "alice").drop()
        world.advance(101)
        bob = come(world, "bob")
        assert (bob.connack.reason, bob.connack.session_present) == (SUCCESS, False)


@pytest.mark.parametrize(
    ("refusal", "reason", "code"),
    [("not_authorized", NOT_AUTHORIZED, 5), ("client_id_not_valid", CLIENT_IDENTIFIER_NOT_VALID, 2)],
)
def test_the_refusal_is_the_one_of_the_settings_in_every_version(refusal: str, reason: int, code: int) -> None:
    with World(Policy(sessions=Sessions(owner_refusal=refusal))) as world:  # type: ignore[arg-type]
        come(world, "alice").drop()
        assert come(world, "bob").connack.reason == reason
        assert come(world, "bob", version=V311).connack.reason == code


def test_an_event_says_why_a_client_of_another_user_was_refused() -> None:
    with World() as world:
        come(world, "alice").drop()
        come(world, "bob")
        (event,) = [event for event in world.broker.exchange.drops.take() if event.reason == CONNECT_REFUSED]
        assert event.client == "c"
        assert "'bob'" in event.detail
        assert "another user" in event.detail


def test_the_refused_client_is_not_told_whose_session_it_is() -> None:
    with World() as world:
        come(world, "alice").drop()
        assert "alice" not in (come(world, "bob").connack.properties.reason_string or "")


def test_with_owner_any_a_session_goes_to_whichever_user_has_its_client_id() -> None:
    with World(ANYBODY) as world:
        owed(world)
        bob = come(world, "bob")
        assert bob.connack.session_present
        assert bob.payloads() == [b"kept"]
        world.policy.sessions = Sessions()
        assert come(world, "alice").connack.reason == NOT_AUTHORIZED, "it is bob's now"


def test_clients_of_another_user_that_come_all_the_time_do_not_keep_the_owner_waiting() -> None:
    """Takeovers of one client id take turns, and the newest is served first; a stranger gets no turn."""
    with SlowWorld() as world:
        come(world, "alice")
        world.hold()
        mine, strange = world.peer(V5, of("alice")), world.peer(V5, of("bob"))
        mine.send(Connect(V5, "c", clean_start=False, properties=KEPT))
        assert mine.inbox == [], "its takeover waits for a commit"
        strange.send(Connect(V5, "c", clean_start=False, properties=KEPT))
        assert strange.take(Connack).reason == NOT_AUTHORIZED
        world.release()
        assert mine.take(Connack).session_present


def test_of_two_users_that_begin_a_session_at_once_one_gets_it() -> None:
    with SlowWorld() as world:
        world.hold()
        first, second = world.peer(V5, of("alice")), world.peer(V5, of("bob"))
        first.send(Connect(V5, "c", clean_start=False, properties=KEPT))
        second.send(Connect(V5, "c", clean_start=False, properties=KEPT))
        world.release()
        answers = [first.take(Connack).reason, second.take(Connack).reason]
        assert answers == [SUCCESS, NOT_AUTHORIZED]


class GatedRegistry:
    """The registry in memory, whose commits wait until it is opened."""

    def __init__(self) -> None:
        self._real = MemoryRegistry()
        self.gate = asyncio.Event()

    def local_newest(self, client_id: ClientId) -> Registration | None:
        return self._real.local_newest(client_id)

    async def read_newest(self, client_id: ClientId, patience_s: float = PATIENCE_S) -> Registration | Unsettled | None:
        return await self._real.read_newest(client_id)

    async def commit(
        self, registration: Registration, expected_revision: int, patience_s: float = PATIENCE_S
    ) -> CommitResult:
        await self.gate.wait()
        return await self._real.commit(registration, expected_revision)

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:
        return await self._real.remove(registration, goodbye=goodbye)


class GatedWorld(World):
    def make_stores(self, policy: Policy) -> Stores:
        self.registry = GatedRegistry()
        return replace(super().make_stores(policy), registry=self.registry)


def test_a_user_that_waited_behind_the_first_connect_of_another_is_refused() -> None:
    """There was no session when it came; there is one when its turn comes."""
    with GatedWorld() as world:
        first, second = world.peer(V5, of("alice")), world.peer(V5, of("bob"))
        first.send(Connect(V5, "c", clean_start=False, properties=KEPT))
        second.send(Connect(V5, "c", clean_start=False, properties=KEPT))
        assert first.inbox == second.inbox == []
        world.do(world.registry.gate.set)
        assert first.take(Connack).reason == SUCCESS
        assert second.take(Connack).reason == NOT_AUTHORIZED


def test_a_will_that_waits_is_neither_published_nor_dropped_by_another_user() -> None:
    will = Will("w", b"gone", properties=Properties(will_delay_interval=50))
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("w")
        come(world, "alice", will=will).drop()
        come(world, "bob", clean_start=True)
        assert reader.inbox == []
        world.advance(51)
        assert reader.payloads() == [b"gone"]


def test_a_session_of_an_earlier_version_goes_to_the_first_user_that_resumes_it() -> None:
    with World() as world:
        record = SessionRecord(expiry_s=100, disconnected_us=world.clock.wall_us())
        assert record.user is None
        world.do(lambda: world.broker.exchange.state.step(KeepSession("c", record, None)))
        world.do(world.broker.exchange.state.schedule)
        alice = come(world, "alice")
        assert alice.connack.session_present
        alice.drop()
        assert come(world, "bob").connack.reason == NOT_AUTHORIZED


def test_the_owner_survives_a_restart_and_a_crash(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        owed(world)
    world = DiskWorld(tmp_path)
    assert come(world, "bob").connack.reason == NOT_AUTHORIZED
    come(world, "alice")
    world.crash()
    with DiskWorld(tmp_path) as world:
        assert come(world, "bob", clean_start=True).connack.reason == NOT_AUTHORIZED
        assert come(world, "alice").payloads() == [b"kept"]


def test_after_a_crash_the_will_of_a_session_that_ended_with_it_still_waits_for_its_owner(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path)
    come(world, "alice", properties=Properties(), will=Will("w", b"gone"))
    world.crash()
    with DiskWorld(tmp_path) as world:
        reader = world.connect("reader")
        reader.subscribe("w")
        assert come(world, "bob", clean_start=True).connack.reason == NOT_AUTHORIZED
        assert reader.inbox == []
        world.advance(31)
        assert reader.payloads() == [b"gone"]
        assert come(world, "bob").connack.reason == SUCCESS


def test_a_session_with_an_external_queue_is_kept_from_another_user() -> None:
    with QueueWorld() as world:
        owed(world)
        assert come(world, "bob").connack.reason == NOT_AUTHORIZED
        assert come(world, "bob", clean_start=True).connack.reason == NOT_AUTHORIZED
        assert come(world, "alice").payloads() == [b"kept"]


def test_the_last_publish_number_is_the_users_own() -> None:
    """Else a stranger with the client id of a publisher could have its messages acknowledged and ignored."""
    number = Properties(user_properties=(("publish-number", "7"),))
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("a", qos=0)
        for user in ("bob", "", "alice", "alice"):
            writer = come(world, user, properties=Properties(), clean_start=True)
            writer.send(Publish("a", user.encode(), 1, 1, properties=number))
            writer.take(Ack)
            writer.send(Disconnect())
        assert reader.payloads() == [b"bob", b"", b"alice"]


def test_a_publish_number_of_an_earlier_version_counts_for_every_user(tmp_path: Path) -> None:
    number = Properties(user_properties=(("publish-number", "7"),))
    with DiskWorld(tmp_path, ANYBODY) as world:  # numbers by client id alone, as earlier versions had them
        writer = come(world, "alice", properties=Properties(), clean_start=True)
        writer.send(Publish("a", b"once", 1, 1, properties=number))
    with DiskWorld(tmp_path) as world:
        reader = world.connect("reader")
        reader.subscribe("a", qos=0)
        writer = come(world, "alice", properties=Properties(), clean_start=True)
        writer.send(Publish("a", b"once", 1, 1, properties=number))
        writer.take(Ack)
        assert reader.inbox == []
