"""Members of one group in a `ClusterWorld`, and what they do."""

from collections.abc import Iterable

from holdfast.broker.policy import Policy
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.wire.packets import Ack, Publish
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

KEPT = Properties(session_expiry_interval=100)
FILTER = "$share/workers/jobs/#"
GROUP = f"\0group\0{FILTER}"


def led_world(policy: Policy | None = None) -> ClusterWorld:
    """Three nodes, whose vnodes have leaders: node 1 leads both."""
    world = ClusterWorld(policy=policy)
    world.lead(3)
    return world


def leader(world: ClusterWorld) -> ClusterNode:
    vnode = vnode_of(GROUP, len(world.logs))
    return next(node for node in world.nodes if not node.dead and node.leaders[vnode].leads())


def kept(node: ClusterNode, name: str, *, receive_maximum: int | None = None) -> Peer:
    properties = Properties(session_expiry_interval=100, receive_maximum=receive_maximum)
    return node.connect(name, clean_start=False, properties=properties)


def publish(writer: Peer, payloads: Iterable[bytes], qos: int = 1) -> None:
    for number, payload in enumerate(payloads, 1):
        writer.send(Publish(f"jobs/{number}", payload, qos, number))


def work(*members: Peer) -> list[bytes]:
    """What the members were sent, acknowledged until nothing follows."""
    done: list[bytes] = []
    while any(peer.inbox for peer in members):
        for peer in members:
            for packet in list(peer.inbox):
                peer.inbox.remove(packet)
                if isinstance(packet, Publish):
                    done.append(packet.payload)
                    peer.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
                elif isinstance(packet, Ack) and packet.kind not in (PUBACK, PUBREC, PUBCOMP):
                    peer.send(Ack(PUBCOMP, packet.packet_id))
    return done


def assigned_rows(world: ClusterWorld) -> list[object]:
    return [one for node in world.nodes for one in node.groups.standing.assigned_at]
