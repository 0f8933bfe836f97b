"""Wills in a cluster: the log publishes them, each once, and none behind a goodbye."""

from holdfast.wire.packets import Connack, Connect, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterWorld


def test_a_goodbye_counts_though_its_client_is_back_before_its_last_steps_are_decided() -> None:
    """A17: the release stands in front of the next claim, also while the last batch of its channel has no receipt."""
    with ClusterWorld() as world:
        one, _two, three = world.nodes
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        client = one.connect("client", clean_start=True, will=Will("wills", b"gone", 1))
        for log in world.logs:
            log.hold_appends = True
        client.send(Publish("a", b"1", 1, 1), Disconnect())
        client.drop()
        again = one.peer()
        again.send(Connect(5, "client", clean_start=False, properties=Properties(session_expiry_interval=100)))
        for log in world.logs:
            log.hold_appends = False
            while log.held:
                world.do(log.arrive)
        again.take(Connack)
        assert watcher.inbox == []
