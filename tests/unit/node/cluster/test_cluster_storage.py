"""What a node of a cluster does about the disk under it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from holdfast.cluster.membership.readiness import NodeBounds, Readiness
from holdfast.durable.state_machine.machine import StateMachine, applied_row
from holdfast.model.clock import ManualClock
from holdfast.model.reasons import QUOTA_EXCEEDED, SUCCESS
from holdfast.node.assembly import policy_of
from holdfast.node.cluster.cluster_storage import ClusterStorage
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage
from holdfast.storage.rocks.engine.disk_space import DiskState
from holdfast.storage.rocks.log.head_marks import read_marks
from holdfast.storage.rocks.log.published_heads import read_heads
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, message
from tests.unit.storage.rocks.vnodes.vnode_world import Logs


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


def apply(storage: ClusterStorage, logs: Logs) -> None:
    for number, vnode in storage.vnodes.vnodes.items():
        machine = StateMachine(CLUSTER_ID, vnode)
        for entry in logs.entries[number][applied_row(vnode).sequence :]:
            outcome = machine.apply(entry)
            vnode.write(outcome.changes, outcome.steps, outcome.published)


def stored(folder: Path) -> int:
    """Messages that readers beside the node see."""
    return sum(head.serial for head in read_heads(folder).values())


def test_readers_beside_the_node_see_what_a_sync_has_covered_and_all_of_it_when_it_has_stopped(tmp_path: Path) -> None:
    """L1: a head is published behind the sync, never before it."""
    folder = tmp_path / "data"
    settings = Settings(cluster=ClusterSettings(name="c", node=1, vnodes=2), storage=Storage(data=folder))
    logs = Logs()
    storage = ClusterStorage(settings, policy_of(settings), ManualClock())
    told: list[int] = []
    try:
        apply(storage, logs)
        logs.write(0, message(b"a/1"), message(b"a/2"))
        apply(storage, logs)
        before = storage.engine.written
        storage._sync(lambda: told.append(1))
        logs.write(1, message(b"a/3"))
        apply(storage, logs)
        assert (stored(folder), told) == (0, [])
        storage._synced(before)
        assert (stored(folder), told) == (2, [1])
    finally:
        storage.close()
    assert stored(folder) == 3
    # The next life begins with what is on disk, whatever its last one has published.
    (folder / "heads").unlink()
    ClusterStorage(settings, policy_of(settings), ManualClock()).close()
    assert stored(folder) == 3


def test_marks_of_a_node_name_heads_that_a_sync_has_covered(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    settings = Settings(cluster=ClusterSettings(name="c", node=1, vnodes=2), storage=Storage(data=folder))
    logs = Logs()
    storage = ClusterStorage(settings, policy_of(settings), ManualClock())
    try:
        apply(storage, logs)
        logs.write(0, message(b"a/1"), message(b"a/2"))
        apply(storage, logs)
        storage._marks.write()
        assert [len(read_marks(folder, part.id)) for part in storage.vnodes.log.parts()] == [0] * 4
        storage._sync(lambda: None)
        storage.engine.sync_now()
        storage._synced(storage.engine.synced)
        storage._marks.write()
        storage._marks.write()
        found = {part.id: read_marks(folder, part.id) for part in storage.vnodes.log.parts() if part.head_serial}
        assert [(len(marks), *marks.mark(0)) for marks in found.values()] == [
            (1, *read_heads(folder)[shard]) for shard in found
        ]
        assert sum(marks.mark(0).serial for marks in found.values()) == 2
    finally:
        storage.close()
