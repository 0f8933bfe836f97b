"""Zones that are not stored, beside those that are: a session is owed messages of both."""

from pathlib import Path

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.model.protocol import PUBCOMP, PUBREC, PUBREL
from holdfast.node.settings.tree import Settings, Storage, ZoneSettings
from holdfast.node.storage import DiskStorage
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import DiskWorld
from tests.slow_world import kept
from tests.world import Peer


class PartlyStored(DiskWorld):
    """Nothing below `free/` is written."""

    def make_stores(self, policy: Policy) -> Stores:
        super().make_stores(policy)
        self.disk.close()
        zones = {"free": ZoneSettings(filter="free/#", store=False)}
        settings = Settings(storage=Storage(data=self._folder, min_free_bytes=0, sync_on_loop="never"), zones=zones)
        self.disk = DiskStorage(settings, policy, self.clock)
        return self.disk.stores()


def complete(peer: Peer, payload: bytes) -> None:
    """See a message through that has come, and leave the others alone."""
    [packet] = [packet for packet in peer.inbox if isinstance(packet, Publish) and packet.payload == payload]
    peer.inbox.remove(packet)
    for answer in (PUBREC, PUBCOMP):
        peer.send(Ack(answer, packet.packet_id))
    peer.inbox.remove(Ack(PUBREL, packet.packet_id))


def test_what_is_not_stored_comes_once_beside_what_is(tmp_path: Path) -> None:
    """Promise 2: a message read from the log does not move the place in the queue of the others."""
    with PartlyStored(tmp_path) as world:
        reader = kept(world, "c", receive_maximum=2)
        reader.subscribe("#", qos=2)
        writer = world.connect("writer")
        for index, topic in enumerate(["a/1", "a/2", "free/1"]):
            writer.send(Publish(topic, topic.encode(), 2, index + 1))
        complete(reader, b"a/1")
        writer.send(Publish("a/3", b"a/3", 2, 4))
        for payload in (b"a/2", b"a/3", b"free/1"):
            complete(reader, payload)
        assert reader.inbox == []
