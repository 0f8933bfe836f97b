"""What the folder of a node in a cluster holds: each shard with generations of its own."""

from collections import Counter
from pathlib import Path

from holdfast.records.cluster.items import Border, DropGeneration
from holdfast.storage.rocks.checking.overview import generations_of, patterns_of
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, Node, opened, shard_of


def test_generations_of_each_shard_are_counted_apart(tmp_path: Path) -> None:
    logs = Logs()
    for vnode in range(VNODES):
        for _record in range(3 + vnode):
            logs.write(vnode, message(b"a/1"), message(b"audit/1"))
    logs.write(0, Border("default", 2, "paged", {}))
    logs.write(0, message(b"a/2"))
    logs.write(1, Border("default", 2, "paged", {}))
    logs.write(1, message(b"a/3"), message(b"a/4"))
    logs.write(1, DropGeneration("default", 1))
    with opened(tmp_path) as engine:
        Node(engine).catch_up(logs)
        rows = generations_of(engine)
        found = {(row.zone, row.shards, row.number): (row.messages, row.end_us > 0) for row in rows}
        assert found == {
            ("audit", (shard_of(0, "audit"),), 1): (3, False),
            ("audit", (shard_of(1, "audit"),), 1): (4, False),
            ("default", (shard_of(0),), 1): (3, True),
            ("default", (shard_of(0),), 2): (1, False),
            # What was before it is gone: its first serial tells how many there are.
            ("default", (shard_of(1),), 2): (2, False),
        }
        assert {row.zone: row.filters for row in rows} == {"audit": ("audit/#",), "default": ()}
        assert all(row.start_us > 0 for row in rows)
        patterns: Counter[tuple[int, int]] = Counter()
        for row in patterns_of(engine, "default"):
            patterns[row.shard, row.generation] += row.messages
        assert patterns == {(shard_of(0), 1): 3, (shard_of(0), 2): 1, (shard_of(1), 2): 2}
