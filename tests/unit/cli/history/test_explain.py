"""`holdfast explain` on the folder of a node in a cluster."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.durable.changes import Changes
from holdfast.durable.sessions.session_store import KeepSession
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.session.session_record import SessionRecord
from tests.unit.history.cluster_folder import NodeFolder
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, opened


def invoke(data: Path, client: str, *more: str) -> Result:
    words = ["explain", "--client", client, "--topic", "#", "--since", "earliest", "--data", str(data), *more]
    return CliRunner().invoke(app, words)


def test_it_says_that_events_are_those_of_one_node(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        folder = NodeFolder(engine)
        folder.fill(1)
        step = KeepSession("reader", SessionRecord(expiry_s=60, disconnected_us=1), None)
        folder.node.stores.vnodes[vnode_of("reader", VNODES)].write(Changes(), [step])
        folder.publish()
    done = invoke(tmp_path, "reader")
    assert done.exit_code == 0, done.output
    assert "events are those of this node alone" in done.output
    answer = json.loads(invoke(tmp_path, "reader", "--json").stdout)
    assert answer["events_of"] == "this node"
    assert answer["found"] == len(folder.rows)
    assert {one["state"] for one in answer["messages"]} == {"not_for_it"}
    missing = invoke(tmp_path, "nobody")
    assert missing.exit_code == 1
    assert "events are those of this node alone" in missing.output
