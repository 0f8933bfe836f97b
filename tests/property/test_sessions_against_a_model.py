"""Sessions against a small model: any sequence of what clients do, and every owed message arrives in order.

The model knows, for each client, what it is owed and how far each message has come. After every step the client
must hold exactly the oldest of them that its window has room for: nothing missing, nothing twice, nothing out of
order, and everything again after a reconnect.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Publish, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

CLIENTS = ["one", "two"]
FILTERS = ["a", "+", "b/#"]
TOPICS = ["a", "b", "b/c"]
WINDOW = 3
EXPIRY_S = 100

clients = st.sampled_from(CLIENTS)
rarely = st.sampled_from([False, False, False, False, True])
mostly = rarely.map(lambda flag: not flag)
filters = st.sampled_from(FILTERS)


def matches(text: str, topic: str) -> bool:
    return {"a": topic == "a", "+": "/" not in topic, "b/#": topic in ("b", "b/c")}[text]


@dataclass
class Expected:
    """A message that a client is owed."""

    payload: bytes
    qos: int
    #: The client has sent PUBREC: from then on PUBREL stands for the message.
    released: bool = False


@dataclass
class Model:
    """What one client may rely on."""

    session: bool = False
    kept: bool = False
    subscriptions: dict[str, int] = field(default_factory=dict)
    owed: list[Expected] = field(default_factory=list)
    #: When the connection ended; the session ends EXPIRY_S later.
    left_at: float = 0.0


@dataclass
class Held:
    """What a client got on its present connection and has not finished: payload → packet id; then PUBRELs."""

    messages: dict[bytes, int] = field(default_factory=dict)
    releases: set[int] = field(default_factory=set)
    #: Packet ids of the messages it released, by payload, over all its connections.
    released_ids: dict[bytes, int] = field(default_factory=dict)


class Sessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.peers: dict[str, Peer] = {}
        self.held = {name: Held() for name in CLIENTS}
        self.models = {name: Model() for name in CLIENTS}
        self.now = 0.0
        self.count = 0

    @initialize()
    def everybody_connects(self) -> None:
        """Begin where it is interesting: with sessions that are kept, and subscriptions."""
        self.writer = self.world.connect("writer")
        for name in CLIENTS:
            self.connect(name, False, True)
            self.subscribe(name, "+", 2)
            self.subscribe(name, "b/#", 1)

    def teardown(self) -> None:
        self.world.__exit__(None, None, None)

    # ---- what clients do

    @rule(name=clients, clean=rarely, kept=mostly)
    def connect(self, name: str, clean: bool, kept: bool) -> None:
        """Also while connected: the new connection takes over."""
        model = self.models[name]
        online = name in self.peers
        if online and not model.kept:
            model.session = False
        if clean or not model.session:
            self.forget(name)
            present = False
        else:
            present = True
        peer = self.world.peer(V5)
        properties = Properties(session_expiry_interval=EXPIRY_S if kept else 0, receive_maximum=WINDOW)
        peer.send(Connect(V5, name, clean, properties=properties))
        assert peer.take(Connack) == Connack(0, present, peer_properties())
        model = self.models[name]
        model.session, model.kept = True, kept
        self.peers[name] = peer
        self.held[name] = Held(released_ids=self.held[name].released_ids)

    @rule(name=clients, politely=st.booleans())
    @precondition(lambda self: bool(self.peers))
    def leave(self, name: str, politely: bool) -> None:
        peer = self.peers.pop(name, None)
        if peer is None:
            return
        if politely:
            peer.send(Disconnect())
            assert peer.closed
        else:
            peer.drop()
        self.models[name].left_at = self.now
        if not self.models[name].kept:
            self.forget(name)

    @rule(name=clients, text=filters, qos=st.integers(0, 2))
    def subscribe(self, name: str, text: str, qos: int) -> None:
        peer = self.peers.get(name)
        if peer is not None:
            self.absorb(name)
            assert peer.subscribe(text, qos=qos) == [qos]
            self.models[name].subscriptions[text] = qos

    @rule(name=clients, text=filters)
    def unsubscribe(self, name: str, text: str) -> None:
        peer = self.peers.get(name)
        if peer is not None:
            self.absorb(name)
            peer.send(Unsubscribe(9, (parse_filter(text.encode()),)))
            known = self.models[name].subscriptions.pop(text, None) is not None
            assert peer.take(Unsuback).reasons == (0x00 if known else 0x11,)

    @rule(messages=st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(1, 2)), min_size=1, max_size=5))
    def publish(self, messages: list[tuple[str, int]]) -> None:
        for topic, qos in messages:
            self.publish_one(topic, qos)

    def publish_one(self, topic: str, qos: int) -> None:
        self.count += 1
        payload = b"%d" % self.count
        for model in self.models.values():
            granted = [q for text, q in model.subscriptions.items() if matches(text, topic)]
            level = min(qos, max(granted, default=0))
            if model.session and level > 0:
                model.owed.append(Expected(payload, level))
        for name in CLIENTS:
            self.absorb(name)
        self.writer.send(Publish(topic, payload, qos, 1))
        if qos == 2:
            self.writer.send(Ack(PUBREL, 1))
        self.writer.inbox.clear()
        for name in CLIENTS:
            self.absorb(name, qos_0=payload)

    @rule(name=clients, which=st.integers(0, WINDOW - 1))
    def acknowledge(self, name: str, which: int) -> None:
        """In any order: PUBACK, or PUBREC and later PUBCOMP."""
        peer = self.peers.get(name)
        if peer is None:
            return
        self.absorb(name)
        held = self.held[name]
        model = self.models[name]
        waiting = [entry for entry in model.owed if entry.payload in held.messages]
        if not waiting:
            return
        entry = waiting[which % len(waiting)]
        packet_id = held.messages.pop(entry.payload)
        if entry.qos == 1:
            peer.send(Ack(PUBACK, packet_id))
            model.owed.remove(entry)
        else:
            peer.send(Ack(PUBREC, packet_id))
            entry.released = True
            held.released_ids[entry.payload] = packet_id

    @rule(name=clients)
    def complete(self, name: str) -> None:
        peer = self.peers.get(name)
        if peer is None:
            return
        self.absorb(name)
        held = self.held[name]
        for entry in list(self.models[name].owed):
            packet_id = held.released_ids.get(entry.payload, 0)
            if entry.released and packet_id in held.releases:
                held.releases.discard(packet_id)
                del held.released_ids[entry.payload]
                self.models[name].owed.remove(entry)
                peer.send(Ack(PUBCOMP, packet_id))
                return

    @rule(seconds=st.sampled_from([1, 1, 1, 60, EXPIRY_S + 1]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.world.advance(seconds)
        for name, model in self.models.items():
            if name not in self.peers and model.session and self.now - model.left_at >= EXPIRY_S:
                self.forget(name)

    # ---- what must hold

    def forget(self, name: str) -> None:
        self.models[name] = Model()
        self.held[name] = Held()

    def absorb(self, name: str, qos_0: bytes = b"") -> None:
        """Take what came since the last look."""
        peer = self.peers.get(name)
        if peer is None:
            return
        held = self.held[name]
        for packet in peer.inbox:
            if isinstance(packet, Publish) and packet.qos == 0:
                assert packet.payload == qos_0
            elif isinstance(packet, Publish):
                assert packet.payload not in held.messages, "twice on one connection"
                held.messages[packet.payload] = packet.packet_id
            else:
                assert isinstance(packet, Ack)
                assert packet.kind == PUBREL
                held.releases.add(packet.packet_id)
        peer.inbox.clear()

    @invariant()
    def every_client_holds_the_oldest_of_what_it_is_owed(self) -> None:
        for name in CLIENTS:
            self.absorb(name)
        for name in self.peers:
            owed = self.models[name].owed
            in_flight = owed[:WINDOW]
            assert list(self.held[name].messages) == [entry.payload for entry in in_flight if not entry.released]
            released = {self.held[name].released_ids[entry.payload] for entry in in_flight if entry.released}
            assert self.held[name].releases == released

    @invariant()
    def the_broker_keeps_its_own_rules(self) -> None:
        for client in self.world.broker.sessions.clients.values():
            client.session.check_invariants()
        assert set(self.world.broker.sessions.clients) - {"writer"} == {
            name for name, model in self.models.items() if model.session
        }
        self.world.broker.exchange.routes.check_invariants()

    @invariant()
    def what_is_stored_of_a_session_is_what_it_is(self) -> None:
        """Q1, Q2: with nothing under way, the store could replace the broker's memory."""
        stored_sessions = self.world.stores.sessions
        assert self.world.broker.exchange.state.nothing_open()
        clients = list(self.world.broker.sessions.clients.values())
        assert stored_sessions.count() == sum(client.session.record is not None for client in clients)
        for client in clients:
            if not client.stored():
                continue
            session = client.session
            stored = stored_sessions.load(session.client_id)
            assert stored is not None
            assert (stored.record.expiry_s, stored.record.disconnected_us) == (
                session.expiry_s,
                session.disconnected_us,
            )
            assert stored.subscriptions == session.subscriptions
            assert stored.incoming == set(session.incoming or ())
            window = session.window
            qos_2 = {i: owed for i in window.packet_ids() if (owed := window.owed(i)) is not None and owed.qos == 2}
            assert list(stored.inflight.items()) == list(qos_2.items())
            assert stored.released == {i for i in qos_2 if window.is_released(i)}


def peer_properties() -> Properties:
    return Properties(receive_maximum=1000, maximum_packet_size=2_097_152, topic_alias_maximum=32)


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
