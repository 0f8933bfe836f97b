"""Which servers may be removed: those that are away, and whose node has another one that is current."""

from typing import Any

import pytest

from holdfast.cluster.nats.replaced_servers import replaced_servers


def report(leader: str, by: str = "", **replicas: bool) -> dict[str, Any]:
    """`replicas` are names, with whether they are current; `by` is who says so, the leader if it is empty."""
    named = [{"name": name.replace("_", "-"), "current": current} for name, current in replicas.items()]
    return {"server_name": by or leader, "jetstream": {"meta": {"leader": leader, "replicas": named}}}


@pytest.mark.parametrize(
    ("found", "removed"),
    [
        (report("node-2-aaaaaaaa", node_1_bbbbbbbb=True, node_3_cccccccc=True), []),
        (report("node-2-aaaaaaaa", node_1_bbbbbbbb=False, node_3_cccccccc=True), []),
        (
            report("node-2-aaaaaaaa", node_1_bbbbbbbb=False, node_1_dddddddd=True, node_3_cccccccc=True),
            ["node-1-bbbbbbbb"],
        ),
        (report("node-1-aaaaaaaa", node_1_bbbbbbbb=False, node_2_cccccccc=True), ["node-1-bbbbbbbb"]),
        (report("node-2-aaaaaaaa", node_1_bbbbbbbb=False, node_1_dddddddd=False), []),
        (report("node-2-aaaaaaaa", node_11_bbbbbbbb=False, node_1_dddddddd=True), []),
        (report("one", two=False), []),
        (report("node-2-aaaaaaaa", "node-3-cccccccc", node_1_bbbbbbbb=False, node_1_dddddddd=True), []),
        (report("", "", node_1_bbbbbbbb=False, node_1_dddddddd=True), []),
        ({}, []),
    ],
    ids=[
        "all are there",
        "a server is away and has no successor",
        "a server has a successor",
        "the successor leads the group",
        "both servers of a node are away",
        "a node whose number begins alike",
        "servers that Holdfast did not name",
        "not the leader's report",
        "no leader",
        "no report",
    ],
)
def test_a_server_is_removed_if_it_is_away_and_was_replaced(found: dict[str, Any], removed: list[str]) -> None:
    assert replaced_servers(found) == removed
