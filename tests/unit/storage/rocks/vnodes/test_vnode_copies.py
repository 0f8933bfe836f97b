"""Stores of nodes are copies of each other: made from the logs alone, or from a checkpoint and what follows it."""

from pathlib import Path

from holdfast.durable.state_machine.machine import applied_row
from holdfast.records.cluster.items import Border, DropGeneration
from holdfast.storage.rocks.checkpoint import create_checkpoint
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, Node, opened


def told(node: Node) -> object:
    """All that readers and the state machine see: messages with places, heads, and the digest of each vnode."""
    places = {
        shard: [(one.position_us, one.topic, one.payload) for one in found] for shard, found in node.replay().items()
    }
    marks = [applied_row(vnode) for vnode in node.stores.vnodes.values()]
    return places, node.stores.log.heads(), [(mark.sequence, mark.digest) for mark in marks]


def fill(logs: Logs, first: int) -> None:
    """Messages in every vnode and zone, and generations that begin and go."""
    for number in range(first, first + 3):
        for vnode in range(VNODES):
            logs.write(vnode, message(b"a/%d" % number, b"%d" % number, retain=True), message(b"audit/x", qos=2))
        logs.write(0, Border("default", number + 2, "paged", {}), message(b"a", b"behind a border"))
    logs.write(0, DropGeneration("default", first + 1))


def test_a_store_is_copied_into_another_one_by_records_or_by_a_checkpoint_and_records(tmp_path: Path) -> None:
    """L22: append with given positions, head, snapshot, install. Nothing else passes from one store to the other."""
    logs = Logs()
    with opened(tmp_path / "first") as engine:
        first = Node(engine)
        fill(logs, 0)
        first.catch_up(logs)
        (tmp_path / "installed").mkdir()
        create_checkpoint(engine, tmp_path / "installed" / "rocks")
        halfway = told(first)
        fill(logs, 3)
        first.catch_up(logs)
        expected = told(first)
        assert expected != halfway
    with opened(tmp_path / "second") as engine:
        second = Node(engine)
        second.catch_up(logs)
        assert told(second) == told(second.restarted()) == expected
    with opened(tmp_path / "installed") as engine:
        installed = Node(engine)
        assert told(installed) == halfway
        outcomes = installed.catch_up(logs)
        assert 0 < len(outcomes) < sum(map(len, logs.entries))
        assert told(installed) == told(installed.restarted()) == expected
