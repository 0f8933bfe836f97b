"""What a client sees of its session is the same with each `registry.mode`: a cluster runs with all of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.broker_backends import OpenWorld


@pytest.fixture(params=["node", "cluster", "cluster, both", "cluster, eventual"])
def open_world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "OpenWorld":
    """On disk."""
    from tests.broker_backends import BACKENDS  # the sources are chosen when pytest is configured
    from tests.cluster_disk_world import ClusterDiskWorld

    backend, _comma, mode = request.param.partition(", ")
    monkeypatch.setattr(ClusterDiskWorld, "mode", mode or "linear")
    return BACKENDS[backend](tmp_path)
