"""Sessions and publish numbers of all vnodes of a node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.sessions.publish_numbers import numbers_key
from holdfast.durable.sessions.session_store import KeepInflight, KeepSession, keep_progress
from holdfast.durable.state_machine.step_items import step_item
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.cluster.items import Border, DropGeneration, MessageItem
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.records.session.progress import Progress, ProgressEntry
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
from tests.unit.durable.state_machine.vnode import a_will, message
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, Node, client_of, opened

CLIENTS = [f"client {number}" for number in range(12)]
GROUP = f"{GROUP_PREFIX}$share/g/t"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture
def node(engine: Engine) -> Node:
    return Node(engine)


def keep(node: Node, client: str, record: SessionRecord) -> None:
    node.stores.vnodes[vnode_of(client, VNODES)].write(Changes(), [KeepSession(client, record, None)])


def test_lists_of_all_vnodes_are_merged_in_order(node: Node) -> None:
    assert {vnode_of(client, VNODES) for client in CLIENTS} == set(range(VNODES))
    for number, client in enumerate(CLIENTS):
        # Times in another order than names.
        left_us = 1 + number * 7 % 12
        will = a_will(5) if number % 3 else None
        keep(node, client, SessionRecord(expiry_s=60, disconnected_us=left_us, will=will))
        keep(node, f"here {number:02d}", SessionRecord(expiry_s=60, disconnected_us=0))
        keep(node, f"queued {number:02d}", SessionRecord(expiry_s=60, disconnected_us=0, queue="redis"))
    by_end = sorted(CLIENTS, key=lambda client: CLIENTS.index(client) * 7 % 12)
    for sessions in (node.stores.sessions, node.restarted().stores.sessions):
        assert sessions.count() == 36
        assert sessions.expiring(2**62, 100) == by_end
        assert sessions.expiring(2**62, 5) == by_end[:5]
        assert sessions.expiring(60_000_000 + 4, 100) == by_end[:3]
        assert sessions.connected("here 03", 4) == [f"here {number:02d}" for number in range(4, 8)]
        assert sessions.with_external_queue("", 3) == [f"queued {number:02d}" for number in range(3)]
        wills = [(5_000_000 + 1 + CLIENTS.index(client) * 7 % 12, client) for client in by_end]
        wills = [entry for entry in wills if CLIENTS.index(entry[1]) % 3]
        assert sessions.waiting_wills(0, "", 100) == wills
        assert sessions.waiting_wills(*wills[2], 3) == wills[3:6]
        assert sessions.record(CLIENTS[3]) == SessionRecord(expiry_s=60, disconnected_us=1 + 21 % 12)
        assert sessions.load("nobody") is None


def test_a_group_is_in_the_vnode_of_its_key(node: Node) -> None:
    keep(node, GROUP, SessionRecord(expiry_s=60, disconnected_us=1))
    assert node.stores.vnodes[vnode_of(GROUP, VNODES)].session(GROUP) is not None
    assert node.stores.sessions.load(GROUP) is not None


def test_a_session_of_a_vnode_that_is_not_held_is_not_taken_for_none(engine: Engine) -> None:
    stores = VnodeStores(engine, ManualClock(), VNODES, held=[1])
    assert stores.sessions.load(client_of(1)) is None
    assert stores.numbers.last(client_of(1)) == -1
    for ask in (stores.sessions.record, stores.sessions.load, stores.numbers.last):
        with pytest.raises(MisuseError, match="vnode 0"):
            ask(client_of(0))


def test_messages_that_a_session_names_are_found_in_any_vnode(engine: Engine) -> None:
    logs, gone = Logs(), []
    for vnode in range(VNODES):
        logs.write(vnode, message(b"a", b"of %d" % vnode))
    node = Node(engine)
    places: list[Message] = [one.message for outcome in node.catch_up(logs) for one in outcome.published]
    client = client_of(0)
    entries = [ProgressEntry(9, 1, places[0].shard, places[0].position_us)]
    logs.write(
        0,
        step_item(KeepSession(client, SessionRecord(expiry_s=60, disconnected_us=0), None), 0),
        step_item(KeepInflight(client, 7, Owed(places[1], 2), 1), 0),
        step_item(keep_progress(client, Progress({}, entries, 9)), 0),
    )
    assert node.catch_up(logs)[0].accepted == [True] * 3
    for at in (node, node.restarted()):
        loaded = at.stores.sessions.load(client)
        assert loaded is not None
        assert loaded.inflight[7].message.payload == b"of 1"
        assert loaded.unacknowledged[9].payload == b"of 0"
    logs.write(1, Border("default", 2, "paged", {}), DropGeneration("default", 1))
    node.catch_up(logs)
    stores = VnodeStores(engine, ManualClock(), VNODES, gone=lambda *place: gone.append(place))
    loaded = stores.sessions.load(client)
    assert loaded is not None
    assert loaded.inflight == {}
    assert gone == [(client, places[1].shard, places[1].position_us)]
    assert stores.sessions.missing() == 1


def test_numbers_are_those_that_the_log_has_taken(node: Node) -> None:
    logs = Logs()
    client = client_of(1)
    published = message(b"a").message
    logs.write(1, message(b"a", number=7), MessageItem(0, published, number=9, user="u"), message(b"a", number=3))
    node.catch_up(logs)
    for numbers in (node.stores.numbers, node.restarted().stores.numbers):
        assert numbers.last(client) == 7
        assert numbers.last(numbers_key(client, "u")) == 9
        assert numbers.last(numbers_key(client, "v")) == -1
