"""A node that cannot serve clients for a while: they are told so, and told where to go."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import SERVER_UNAVAILABLE, USE_ANOTHER_SERVER
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterWorld

KEPT = Properties(session_expiry_interval=1000)
TEN_MINUTES_US = 600_000_000


class Unfit:
    """An `Admission` that refuses some clients."""

    def __init__(self, reason: int = SERVER_UNAVAILABLE, *clients: str, reference: str = "") -> None:
        self._error = PeerError(reason, "use another node")
        self._clients = clients
        self._reference = reference

    def refusal(self, session_id: str) -> PeerError | None:
        return self._error if not self._clients or session_id in self._clients else None

    def server_reference(self) -> str:
        return self._reference


def test_clients_are_sent_away_with_the_address_of_another_node_and_go_on_there() -> None:
    with ClusterWorld() as world:
        one, two, three = world.nodes
        reader = one.connect("reader", clean_start=True, properties=KEPT)
        reader.subscribe("t", qos=1)
        old = one.connect("old", V311)
        one.broker.connections.admission = Unfit(USE_ANOTHER_SERVER, reference="10.0.0.2:1883 10.0.0.3:1883")
        world.do(lambda: one.broker.connections.send_away(1))
        assert len(one.broker.connections) == 1, "so many at once, not more"
        world.do(lambda: one.broker.connections.send_away(9))
        goodbye = reader.take(Disconnect)
        assert (goodbye.reason, goodbye.properties.server_reference) == (0x9C, "10.0.0.2:1883 10.0.0.3:1883")
        assert reader.closed
        assert old.closed
        refused = one.connect("reader", clean_start=False, properties=KEPT).connack
        assert (refused.reason, refused.properties.server_reference) == (0x9C, "10.0.0.2:1883 10.0.0.3:1883")
        assert one.connect("old", V311).connack.reason == 3
        again = two.connect("reader", clean_start=False, properties=KEPT)
        assert again.connack.session_present
        three.connect("writer").send(Publish("t", b"1", 1, 1))
        assert again.payloads() == [b"1"]


def test_without_an_address_clients_are_told_that_the_server_is_busy_or_unavailable() -> None:
    """0x88 may stand in CONNACK alone; DISCONNECT has 0x89 for it."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        client, other = one.connect("a"), one.connect("b")
        one.broker.connections.admission = Unfit(SERVER_UNAVAILABLE, "a")
        world.do(lambda: one.broker.connections.send_away(9))
        goodbye = client.take(Disconnect)
        assert (goodbye.reason, goodbye.properties.server_reference) == (0x89, None)
        assert goodbye.properties.reason_string == "use another node"
        assert one.connect("a").connack.reason == 0x88
        other.send(Publish("t", b"", 1, 1))
        assert other.take(Ack).packet_id == 1, "clients of another vnode are served"


def test_sessions_of_a_node_that_was_closed_are_not_told_that_they_were_taken_over() -> None:
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        client = one.connect("a", clean_start=True, properties=KEPT)
        one.broker.connections.admission = Unfit()
        world.do(one.log.end)
        assert client.take(Disconnect).reason == 0x89
        one.fence()
        assert two.connect("a", clean_start=False, properties=KEPT).connack.session_present


def test_the_will_of_a_client_that_is_sent_away_comes_as_for_any_connection_that_ends() -> None:
    with ClusterWorld() as world:
        one, _two, three = world.nodes
        world.lead(3)
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        one.connect("doomed", will=Will("wills", b"gone", 1))
        one.broker.connections.admission = Unfit()
        world.do(lambda: one.broker.connections.send_away(9))
        world.lead(3)
        assert watcher.payloads() == [b"gone"]


def test_a_connect_without_a_majority_is_refused_within_the_patience_of_the_registry() -> None:
    """The row "CONNECT while a vnode has no quorum" of what bad input gets."""
    with ClusterWorld() as world:
        one = world.nodes[0]
        world.hold_appends()
        new, old = one.peer(), one.peer(V311)
        new.send(Connect(V5, "p1", properties=KEPT))
        old.send(Connect(V311, "p2"))
        for _part in range(10):
            world.advance(0.5)
        assert new.take(Connack).reason == 0x88
        assert old.take(Connack).reason == 3


@pytest.mark.parametrize("ahead_us", [TEN_MINUTES_US, -TEN_MINUTES_US])
def test_a_node_with_a_wrong_clock_drops_no_message_before_its_time(ahead_us: int) -> None:
    """A12: what a message may wait is judged by the time that the logs agree on."""
    with ClusterWorld() as world:
        one, two, _three = world.nodes
        world.lead(3)
        one.clock.be_ahead(ahead_us)
        reader = one.connect("reader", clean_start=True, properties=KEPT)
        reader.subscribe("t", qos=1)
        two.connect("writer").send(Publish("t", b"1", 1, 1, properties=Properties(message_expiry_interval=60)))
        assert [packet.properties.message_expiry_interval for packet in reader.take_all(Publish)] == [60]
        reader.send(Ack(4, 1))
        reader.drop()
        two.connect("writer").send(Publish("t", b"2", 1, 1, properties=Properties(message_expiry_interval=60)))
        world.lead(20)
        again = one.connect("reader", clean_start=False, properties=KEPT)
        assert [packet.payload for packet in again.take_all(Publish)] == [b"2"]
