"""Brokers that are one node, and brokers that are a cluster of three: a test of either fixture runs over both."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.broker_backends import OpenSlowWorld, OpenWorld


@pytest.fixture(params=["node", "cluster"])
def open_world(request: pytest.FixtureRequest, tmp_path: Path) -> "OpenWorld":
    """On disk."""
    from tests.broker_backends import BACKENDS  # the sources are chosen when pytest is configured

    return BACKENDS[request.param](tmp_path)


@pytest.fixture(params=["memory", "cluster"])
def slow_world(request: pytest.FixtureRequest, tmp_path: Path) -> "OpenSlowWorld":
    """With receipts that the test hands out."""
    from tests.broker_backends import open_slow_world

    return open_slow_world(request.param, tmp_path)
