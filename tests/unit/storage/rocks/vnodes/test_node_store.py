"""The stores of a node in a cluster: which folders they take, and which vnodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.zones import Zone
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError
from holdfast.records.generations import family_name
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.startup import open_log
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, Node, log_families, opened, shard_of


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


def test_the_folder_of_a_node_without_a_cluster_is_refused_and_keeps_its_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        open_log(engine, [], Zone("default"), [], ManualClock(), "1")
        families = log_families(engine)
        with pytest.raises(SettingsError, match="without a cluster \\(zone 'default'\\)"):
            VnodeStores(engine, ManualClock(), VNODES)
        assert log_families(engine) == families != []


def test_the_folder_of_a_node_in_a_cluster_is_refused_without_one_and_keeps_its_messages(engine: Engine) -> None:
    Node(engine).catch_up(Logs())
    families = log_families(engine)
    with pytest.raises(SettingsError, match="in a cluster"):
        open_log(engine, [], Zone("default"), [], ManualClock(), "1")
    assert log_families(engine) == families != []


def test_fewer_vnodes_than_the_folder_has_are_refused(engine: Engine) -> None:
    Node(engine).catch_up(Logs())
    families = log_families(engine)
    with pytest.raises(SettingsError, match="has vnode 1, and the cluster has 1 vnodes"):
        VnodeStores(engine, ManualClock(), VNODES - 1)
    assert log_families(engine) == families


def test_a_vnode_that_is_not_held_is_not_read_and_keeps_its_messages(engine: Engine) -> None:
    logs = Logs()
    for vnode in range(VNODES):
        logs.write(vnode, message(payload=b"of %d" % vnode))
    node = Node(engine)
    node.catch_up(logs)
    stores = VnodeStores(engine, ManualClock(), VNODES, held=[1])
    assert list(stores.vnodes) == [1]
    assert sorted(stores.log.heads()) == [shard_of(1), shard_of(1, "audit")]
    assert family_name(shard_of(0), 1) in engine.families()
    assert [one.payload for one in node.restarted().replay()[shard_of(0)]] == [b"of 0"]
