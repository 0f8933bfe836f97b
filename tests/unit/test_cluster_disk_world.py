"""What stands in for a connection to the servers in a world of three nodes has the methods of the real ones."""

import inspect

import pytest

from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.node_cluster import ClusterConnection
from tests.cluster_disk_world import Connection

METHODS = [name for name, _ in inspect.getmembers(Connection, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_the_stand_in_is_called_like_the_real_one(name: str) -> None:
    real = getattr(NatsConnection, name, None) or getattr(ClusterConnection, name, None)
    assert real is not None, f"neither NatsConnection nor ClusterConnection has {name}"
    if name == "close":
        return
    given, wanted = (list(inspect.signature(of).parameters) for of in (getattr(Connection, name), real))
    assert given == wanted
    assert inspect.iscoroutinefunction(getattr(Connection, name)) == inspect.iscoroutinefunction(real)
