"""What a broker runs on, so that one test serves all: one node on a disk, or a cluster of three (`open_world`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from holdfast.model.clock import ManualClock
from tests.cluster_disk_world import NODES, START_S, ClusterDiskWorld, Servers, settings_of
from tests.disk_world import DiskWorld
from tests.slow_world import SlowWorld

#: Where the clocks of both begin.
START_US = 1_700_000_000_000_000


class OpenWorld(Protocol):
    """Opens a broker. Opened again it is a restart of the same one, with what it has stored."""

    def __call__(self, *, start_us: int = START_US, **options: Any) -> DiskWorld:
        """`start_us` is the time when it serves; `options` are those of `DiskWorld`."""

    def folders(self) -> list[Path]:
        """The data folder of each node."""


class OneNode:
    """An `OpenWorld`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, *, start_us: int = START_US, **options: Any) -> DiskWorld:
        return DiskWorld(self._folder, start_us=start_us, **options)

    def folders(self) -> list[Path]:
        return [self._folder]


class ThreeNodes:
    """An `OpenWorld` whose servers outlive the nodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: Servers | None = None

    def __call__(self, *, start_us: int = START_US, **options: Any) -> DiskWorld:
        world: Any = self.cluster(start_us=start_us, **options)
        return world  # type: ignore[no-any-return]  # by shape

    def cluster(
        self, *, start_us: int = START_US, storage: Any = None, zones: Any = None, **options: Any
    ) -> ClusterDiskWorld:
        """The cluster, for what only a cluster has."""
        begins_us = start_us - START_S * 1_000_000
        if self._servers is None:
            self._servers = Servers(ManualClock(begins_us), settings_of(self._folder, 1, storage, zones))
        else:
            clock = self._servers.clock
            clock.step_wall(begins_us - clock.wall_us())
        return ClusterDiskWorld(self._folder, self._servers, storage=storage, zones=zones, **options)

    def folders(self) -> list[Path]:
        return [settings_of(self._folder, node).storage.data for node in range(1, NODES + 1)]


BACKENDS: dict[str, Callable[[Path], OpenWorld]] = {"node": OneNode, "cluster": ThreeNodes}

#: Opens a broker whose receipts come when the test says so: in memory, or a cluster.
OpenSlowWorld = Callable[[], SlowWorld]


def open_slow_world(kind: str, folder: Path) -> OpenSlowWorld:
    if kind == "memory":
        return SlowWorld
    three_nodes: Any = ThreeNodes(folder)
    return three_nodes  # type: ignore[no-any-return]  # by shape
