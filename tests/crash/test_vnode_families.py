"""A node of a cluster is killed, or loses power, around every step that makes, writes or drops a generation.

Column families are made and dropped apart from the batches that say so. The database is copied between any two of these
steps, and each copy is opened: its families are those of its rows, and when it has read what is missing, it shows what
a node shows that was never killed.

A13: killed at any step of a border, a drop.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.records.cluster.items import Border, DropGeneration
from holdfast.records.generations import family_parts
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.wal_scan import wal_files
from tests.conformance.state_stores import rows
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.vnodes.vnode_world import Logs, Node, log_families, opened

STEPS = ("create_family", "write", "drop_family")


def history() -> Logs:
    logs = Logs()
    logs.write(0, message(b"a", b"1", retain=True), message(b"audit/x", b"2"))
    logs.write(0, message(b"a", b"3"), Border("default", 2, "paged", {}), message(b"a", b"4"))
    logs.write(1, Border("audit", 2, "timeline", {}))
    logs.write(1, message(b"audit/x", b"5"), Border("audit", 3, "paged", {}), message(b"audit/x", b"6"))
    logs.write(0, DropGeneration("default", 1), message(b"a", b"7"))
    logs.write(1, DropGeneration("audit", 2))
    logs.write(1, Border("audit", 4, "paged", {}), DropGeneration("audit", 3), message(b"audit/x", b"8"))
    return logs


class Copies:
    """Copies the folder of an engine before each step."""

    def __init__(self, engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.folder = folder
        self.taken: list[Path] = []
        for name in STEPS:
            monkeypatch.setattr(engine, name, self.around(name, getattr(engine, name)))

    def around(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def copied(*arguments: Any) -> Any:
            self.take(f"before {name}")
            return step(*arguments)

        return copied

    def take(self, name: str) -> None:
        copy = self.folder / f"{len(self.taken):03d} {name}"
        shutil.copytree(self.engine.folder, copy)
        self.taken.append(copy)


def contents(node: Node) -> object:
    """Everything that is the same on all nodes."""
    messages = {
        shard: [(one.position_us, one.payload) for one in found] for shard, found in node.replay().items() if found
    }
    return (
        messages,
        node.stores.log.heads(),
        [rows(vnode) for vnode in node.stores.vnodes.values()],
        node.stores.retained.versions(),
        log_families(node.engine),
    )


def check_families(node: Node) -> None:
    """A family for every generation, and no other one that holds anything."""
    live = [generation.record for part in node.stores.log.parts() for generation in part.live]
    named = {record.family(record.shards[0]) for record in live}
    there = set(log_families(node.engine))
    assert named <= there
    last = {record.shards[0]: record.number for record in live}
    for name in there - named:
        shard, number = family_parts(name) or (0, 0)
        assert number > last.get(shard, 0), "it was made for a record that is read again"
        assert list(node.engine.family(name).items()) == []


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_node_that_dies_at_any_step_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, power_loss: bool
) -> None:
    logs = history()
    with opened(tmp_path / "whole") as engine:
        Node(engine)
        with monkeypatch.context() as copying:
            copies = Copies(engine, tmp_path, copying)
            steady = Node(engine)
            steady.catch_up(logs)
            copies.take("at the end")
        expected = contents(steady)
    reached: set[int] = set()
    for copy in copies.taken:
        if power_loss:
            # All that the last WAL has is lost; what was made or dropped is not.
            os.truncate(wal_files(copy / "rocks")[-1], 0)
        with opened(copy) as engine:
            assert engine.damage == []
            node = Node(engine)
            check_families(node)
            reached.add(node.applied(0) + node.applied(1))
            node.catch_up(logs)
            check_families(node)
            assert contents(node) == expected, copy.name
        shutil.rmtree(copy)
    total = sum([len(log) for log in logs.entries])
    assert max(reached) <= total
    assert power_loss or reached == set(range(total + 1))
