"""Fifty connects of one client id, all over the cluster, with records that come late and in any order."""

from random import Random

import pytest

from holdfast.durable.takeover.registry import ChannelVersion
from holdfast.model.protocol import V5
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.wire.packets import Connack, Connect
from holdfast.wire.properties import Properties
from tests.behaviour.cluster.test_claims import registered
from tests.cluster_world import ClusterWorld
from tests.world import Peer

CONNECTS = 50


@pytest.mark.registry_modes("linear", "both")
@pytest.mark.parametrize("spacing_ms", [0, 10, 100])
def test_of_fifty_connects_the_newest_stays_and_session_present_is_right(spacing_ms: int) -> None:
    """R7, R12: equal times are ordered by node and counter."""
    chance = Random(spacing_ms)
    with ClusterWorld() as world:
        log = world.logs[vnode_of("p1", len(world.logs))]
        log.hold_appends = True
        peers: list[Peer] = []
        versions: list[ChannelVersion] = []
        for _connect in range(CONNECTS):
            node = chance.choice(world.nodes)
            peer = node.peer()
            connection = node.broker.connections.of(peer.channel)
            assert connection is not None
            peers.append(peer)
            versions.append(connection.version)
            peer.send(Connect(V5, "p1", clean_start=False, properties=Properties(session_expiry_interval=1000)))
            world.advance(spacing_ms / 1000)
            while log.held and chance.random() < 0.6:
                world.do(lambda: log.arrive(chance.randrange(len(log.held))))
        for _round in range(60):
            while log.held:
                world.do(lambda: log.arrive(chance.randrange(len(log.held))))
            world.advance(0.05)
        newest = peers[versions.index(max(versions))]
        assert [peer for peer in peers if not peer.closed] == [newest]
        answers = [packet for peer in peers for packet in peer.inbox if isinstance(packet, Connack)]
        assert len(answers) == CONNECTS
        assert {answer.reason for answer in answers} == {0, 0x89}
        present = [answer.session_present for answer in answers if answer.reason == 0]
        assert present.count(False) == 1, "the first one that was let in"
        rows = [registered(node, "p1") for node in world.nodes]
        assert {None if row is None else row.connection_id for row in rows} == {newest.channel.number}
