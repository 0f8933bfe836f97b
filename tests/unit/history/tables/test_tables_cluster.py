"""Sessions, queues and retained messages of a node in a cluster: one table each, of all its vnodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.sessions.session_store import KeepSession, KeepSubscription, keep_progress
from holdfast.history.explanation import ACKNOWLEDGED, NOT_FOR_IT, OWED, explain
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables.session_view import read_session
from holdfast.history.tables.tables import QUEUES, RETAINED, SCHEMAS, SESSIONS, TableQuery, key_ranges, table_batches
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.session.progress import Progress
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord
from tests.unit.durable.state_machine.vnode import T, message
from tests.unit.history.cluster_folder import NodeFolder
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, opened, shard_of

CLIENTS = [f"client {number}" for number in range(12)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture
def folder(engine: Engine) -> NodeFolder:
    folder = NodeFolder(engine)
    folder.apply()
    return folder


def keep(folder: NodeFolder, client: str, since: dict[int, int], sent: dict[int, int]) -> None:
    topic_filter = parse_filter(b"a/+")
    record = SubscriptionRecord(topic_filter, 1, False, False, 0, 0, 0, since_heads=since)
    steps = [
        KeepSession(client, SessionRecord(expiry_s=60, disconnected_us=T), None),
        KeepSubscription(client, record),
        keep_progress(client, Progress(sent, [], 0)),
    ]
    folder.node.stores.vnodes[vnode_of(client, VNODES)].write(Changes(), steps)


def rows(folder: NodeFolder, table: str, keys_each: int | None = None, **query: Any) -> list[dict[str, Any]]:
    folder.publish()
    asked = TableQuery(table, tuple(SCHEMAS[table].names), **query)
    with HistoryReader.open(folder.engine.folder) as reader:
        return [
            row
            for keys in key_ranges(reader, asked, keys_each)
            for batch in table_batches(reader, asked, T, keys)
            for row in batch.to_pylist()
        ]


def test_sessions_of_all_vnodes_are_one_table_in_order(folder: NodeFolder) -> None:
    assert {vnode_of(client, VNODES) for client in CLIENTS} == set(range(VNODES))
    for client in CLIENTS:
        keep(folder, client, {}, {})
    for keys_each in (None, 5):
        found = [row["client_id"] for row in rows(folder, SESSIONS, keys_each) if row["client_id"] in CLIENTS]
        assert found == sorted(CLIENTS, key=lambda client: (len(client), client))


def test_a_queue_begins_in_each_shard_where_its_subscription_did(folder: NodeFolder) -> None:
    folder.fill(2)
    heads = folder.node.stores.log.heads()
    keep(folder, "late", dict(heads), {})
    folder.fill(3)
    found = {row["shard"]: row for row in rows(folder, QUEUES, exact=True) if row["client_id"] == "late"}
    for vnode in range(VNODES):
        shard = shard_of(vnode)
        later = [row for row in folder.of(shard) if row[1] > heads[shard]]
        assert found[shard]["owed_at_most"] == len(later)
        assert found[shard]["owed"] == len([row for row in later if row[3].startswith("a/")]) > 0


def test_the_newest_retained_message_of_a_topic_counts_whichever_vnode_has_it(folder: NodeFolder) -> None:
    logs = folder.logs
    logs.write(0, message(b"a", b"older", retain=True), message(b"b", b"older", retain=True))
    logs.write(1, message(b"a", b"newer", retain=True), message(b"b", b"", retain=True))
    logs.write(0, message(b"c", b"alone", retain=True))
    folder.apply()
    for keys_each in (None, 1):
        found = {row["topic"]: row["payload"] for row in rows(folder, RETAINED, keys_each)}
        assert found == {"a": b"newer", "c": b"alone"}
    assert [row["topic"] for row in rows(folder, RETAINED, levels=(b"c",))] == ["c"]


def test_an_explanation_compares_each_shard_with_where_the_subscription_began_there(folder: NodeFolder) -> None:
    folder.fill(1)
    since = folder.node.stores.log.heads()
    folder.fill(1)
    sent = folder.node.stores.log.heads()
    folder.fill(1)
    keep(folder, "reader", since, sent)
    folder.publish()
    with HistoryReader.open(folder.engine.folder) as reader:
        session = read_session(reader, "reader")
        assert session is not None
        answer = explain(reader, session, parse_filter(b"#"), 0, 1000, [], T)
    found = {(fate.message.shard, fate.message.position_us): fate.state for fate in answer.fates}
    assert answer.found == len(folder.rows) == len(found)
    for shard, position_us, _serial, topic, _payload in folder.rows:
        matches = topic.startswith("a/") and position_us > since[shard]
        wanted = NOT_FOR_IT if not matches else ACKNOWLEDGED if position_us <= sent[shard] else OWED
        assert found[shard, position_us] == wanted
