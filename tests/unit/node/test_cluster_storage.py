"""What a node of a cluster does about the disk under it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from holdfast.cluster.readiness import NodeBounds, Readiness
from holdfast.model.clock import ManualClock
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.node.assembly import policy_of
from holdfast.node.cluster_storage import ClusterStorage
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage
from holdfast.storage.rocks.engine.disk_space import DiskState


class Disk:
    """A `DiskWatch` by shape: it is as full as a test says."""

    def __init__(self) -> None:
        self.state = DiskState.OK
        self.found = DiskState.OK
        self.free_bytes = 0

    def check(self) -> DiskState:
        self.state = self.found
        return self.state


def test_a_full_disk_makes_the_node_unready_and_refuses_messages_until_there_is_room(tmp_path: Path) -> None:
    settings = Settings(cluster=ClusterSettings(name="c", node=1, vnodes=1), storage=Storage(data=tmp_path / "data"))
    clock = ManualClock()
    storage = ClusterStorage(settings, policy_of(settings), clock)
    try:
        disk: Any = Disk()
        storage._disk = disk  # type: ignore[misc]
        node: Any = SimpleNamespace(readiness=Readiness(1, 1, NodeBounds(), clock))
        broker: Any = SimpleNamespace(exchange=SimpleNamespace(intake=SimpleNamespace(refusing=SUCCESS)))
        for found, full, reason in (
            (DiskState.LOW, False, SUCCESS),
            (DiskState.FULL, True, QUOTA_EXCEEDED),
            (DiskState.OK, False, SUCCESS),
        ):
            disk.found = found
            storage._check_space(broker, node)
            assert (node.readiness.disk_full, broker.exchange.intake.refusing) == (full, reason)
    finally:
        storage.close()
