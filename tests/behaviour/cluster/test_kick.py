"""An administrator ends a connection: told with 0x98, the session stays, and the registration goes."""

from holdfast.model.protocol import V5
from holdfast.wire.packets import Connect, Disconnect, Will
from holdfast.wire.properties import Properties
from tests.behaviour.cluster.test_claims import registered
from tests.cluster_world import ClusterNode, ClusterWorld

KEPT = Properties(session_expiry_interval=1000)


def kick(world: ClusterWorld, node: ClusterNode, session_id: str) -> str:
    found: list[str] = []
    world.do(lambda: found.append(node.broker.kick(session_id, "an administrator closed the connection")))
    return found[0]


def test_a_connection_that_is_kicked_is_told_why_and_its_session_stays() -> None:
    """R9: its release takes out its own registration."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        watcher = three.connect("s1")
        watcher.subscribe("wills", qos=1)
        client = one.connect("p1", clean_start=True, properties=KEPT, will=Will("wills", b"gone", 1))
        assert [kick(world, node, "p1") for node in (two, one)] == ["", "127.0.0.1"]
        assert client.take(Disconnect).reason == 0x98
        assert client.closed
        assert [registered(node, "p1") for node in world.nodes] == [None, None, None]
        assert watcher.payloads() == [b"gone"]
        assert two.connect("p1", clean_start=False, properties=KEPT).connack.session_present
        assert kick(world, one, "p1") == ""


def test_a_client_that_waits_for_its_connack_is_not_kicked() -> None:
    with ClusterWorld() as world:
        one = world.nodes[0]
        world.log_of("p1").hold_appends = True
        waiting = one.peer()
        waiting.send(Connect(V5, "p1", clean_start=False, properties=KEPT))
        assert kick(world, one, "p1") == ""
        world.let_appends_through()
        assert not waiting.closed
