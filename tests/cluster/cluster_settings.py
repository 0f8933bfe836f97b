"""Settings of nodes whose cluster is on the NATS servers of the tests."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from bench.cluster.nats_servers import PASSWORD, USER
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Settings, Storage, ZoneSettings
from tests.cluster.nats_world import NatsWorld

_numbers = count(1)


class ClusterFolder:
    """The settings of a cluster that no other test has: a file for commands, and an object for nodes."""

    def __init__(self, servers: NatsWorld, folder: Path) -> None:
        self.folder = folder
        self.name = f"cluster-{next(_numbers)}"
        self.password_file = folder / "cluster.password"
        self.password_file.write_text(f"{PASSWORD}\n")
        ports = [process.client_port for process in servers.processes]
        self.nats = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
        self.monitors = ",".join(f"127.0.0.1:{process.monitor_port}" for process in servers.processes)

    def settings(self, node: int = 1, *, zones: dict[str, ZoneSettings] | None = None, **changed: Any) -> Settings:
        given: dict[str, Any] = {
            "name": self.name,
            "node": node,
            "vnodes": 2,
            "nats": self.nats,
            "monitors": self.monitors,
            "user": USER,
            "password_file": self.password_file,
            "stream_bytes": 64 << 20,
        }
        storage = Storage(data=self.folder / f"node-{node}")
        return Settings(cluster=ClusterSettings(**(given | changed)), storage=storage, zones=zones or {})

    def arguments(self, **changed: Any) -> list[str]:
        """The same for a command line."""
        settings = self.settings(**changed)
        values = {
            f"cluster.{key}": getattr(settings.cluster, key)
            for key in ("name", "node", "vnodes", "nats", "monitors", "user", "password_file", "stream_bytes")
        }
        values["storage.data"] = settings.storage.data
        return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
