"""Wills in a cluster: the log publishes them, each once, and none behind a goodbye."""

import pytest

from holdfast.wire.packets import Connack, Connect, Disconnect, Publish, Will
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterWorld

KEPT = Properties(session_expiry_interval=100)


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


@pytest.mark.parametrize("clean_start", [True, False])
def test_a_will_that_waits_is_dropped_when_its_client_connects_to_another_node(clean_start: bool) -> None:
    """[MQTT-3.1.2-8]: also if the session does not go on."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        world.lead(3)
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        will = Will("wills", b"gone", 1, properties=Properties(will_delay_interval=20))
        one.connect("client", clean_start=True, properties=KEPT, will=will).drop()
        again = two.connect("client", clean_start=clean_start, properties=KEPT)
        assert again.connack.session_present is not clean_start
        world.lead(30)
        assert watcher.inbox == []


def test_the_will_of_a_channel_that_a_clean_start_takes_over_is_published() -> None:
    """Its session ends with it, before the delay has passed."""
    with ClusterWorld() as world:
        one, two, three = world.nodes
        world.lead(3)
        watcher = three.connect("watcher")
        watcher.subscribe("wills", qos=1)
        will = Will("wills", b"gone", 1, properties=Properties(will_delay_interval=20))
        one.connect("client", clean_start=True, properties=KEPT, will=will)
        two.connect("client", clean_start=True, properties=KEPT)
        assert watcher.payloads() == [b"gone"]
