"""Stores of a test, closed when it ends: the log of one node; with the mark `cluster_too` that of a cluster, too."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.unit.storage.rocks.log.store import OpenStore, Store

NODE, CLUSTER = "node", "cluster"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("cluster_too"):
        (fixture,) = {"store", "open_store"} & set(metafunc.fixturenames)
        metafunc.parametrize(fixture, [NODE, CLUSTER], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cluster refuses the layout `learned` (tests/unit/storage/rocks/vnodes/test_vnode_messages.py)."""
    items[:] = [item for item in items if not item.get_closest_marker("cluster_too") or not is_refused(item)]


def is_refused(item: pytest.Item) -> bool:
    values = item.callspec.params.values() if isinstance(item, pytest.Function) else ()
    return CLUSTER in values and "learned" in values


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["Store"]:
    """One zone, one shard that `p` publishes into."""
    store = store_class(request)(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["OpenStore"]:
    """Opens a store with the settings that it is given."""
    opened: list[Store] = []

    def open_one(*zones: Any, **settings: Any) -> "Store":
        opened.append(store_class(request)(tmp_path / "data", *zones, **settings))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def store_class(request: pytest.FixtureRequest) -> Any:
    # Not at the top: this file is read before tests/conftest.py has picked the tree to test.
    from tests.unit.storage.rocks.log.cluster_store import ClusterStore
    from tests.unit.storage.rocks.log.store import Store

    return ClusterStore if is_cluster(request) else Store


def is_cluster(request: pytest.FixtureRequest) -> bool:
    return getattr(request, "param", NODE) == CLUSTER
