"""The state machine of a vnode against a model of its rules, over logs with repetitions, gaps, stale epochs and faults.

Two nodes apply every record. One opens its tables again before each, and carries out closings by slices at any time.
After every record their outcomes, tables and digests are those of each other, and of the model.
"""

import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.sessions.session_store import (
    DropSession,
    KeepIncoming,
    KeepSession,
    SessionStep,
    keep_progress,
)
from holdfast.durable.state_machine.closing import close_slice
from holdfast.durable.state_machine.machine import StateMachine
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.step_items import step_item
from holdfast.durable.state_machine.tables import CLUSTER, META, RETAINED, MemoryTables
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.will import StoredWill
from holdfast.records.cluster import items as it
from holdfast.records.cluster.record import ClusterRecord, SessionEntry, decode_record, encode_record
from holdfast.records.cluster.rows import LEADER_KEY, decode_leader, decode_registration, session_of_registration
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.meta_keys import generations_of, head_key
from holdfast.records.positions import ShardHead, decode_head
from holdfast.records.retained import decode_retained, retained_topic
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.records.session.progress import Progress
from holdfast.records.session.session_record import SessionRecord
from tests.property.vnode_model import FOREVER, S, VnodeModel

pytestmark = pytest.mark.compiled

#: About ten seconds. HOLDFAST_CLUSTER_EXAMPLES for a longer run.
EXAMPLES = int(os.environ.get("HOLDFAST_CLUSTER_EXAMPLES", "150"))
CLUSTER_ID = bytes(16)
T = 1_700_000_000 * S
CLIENTS = ["a", "b"]
GROUP = f"{GROUP_PREFIX}$share/g/t"
NODES = [1, 2, 3]
TOPICS = [b"t", b"u"]
SETTINGS = VnodeSettings((VnodeZone("default", 7, "learned", {}),))

wills = st.none() | st.builds(
    StoredWill,
    st.sampled_from(TOPICS),
    st.sampled_from([b"", b"w"]),
    st.integers(0, 2),
    retain=st.booleans(),
    properties=st.just(b""),
    delay_s=st.sampled_from([0, 5, 40, FOREVER]),
    expiry_s=st.just(-1),
)
records = st.builds(
    SessionRecord, expiry_s=st.sampled_from([0, 10, 90, FOREVER]), disconnected_us=st.just(0), will=wills
)
messages = st.builds(
    Message,
    st.sampled_from(TOPICS),
    st.sampled_from([b"", b"x"]),
    st.integers(0, 2),
    st.just(ClientId("p")),
    st.just(T),
    retain=st.booleans(),
)
#: How far clocks are from the right time.
skews = st.sampled_from([0] * 8 + [-5 * S, 5 * S, 600 * S, -600 * S, 300_000_000 * S])


def one_of(data: st.DataObject, *items: it.Item) -> it.Item:
    return items[data.draw(st.integers(0, len(items) - 1))]


class VnodeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = VnodeModel()
        self.plain, self.sliced = MemoryTables(), MemoryTables()
        self.plain_machine = StateMachine(CLUSTER_ID, self.plain)
        self.now_us = T
        self.log: list[bytes] = []
        #: Revisions that were ever accepted, by client.
        self.revisions: dict[str, list[int]] = {client: [0] for client in [*CLIENTS, GROUP]}
        self.slice_at = ""
        self.links = 0
        self.append(self.record(1, 3, 1, [it.ChangeSettings(1, SETTINGS)]), 0)

    # ---- what nodes write

    @rule(data=st.data(), passed_s=st.sampled_from([0, 0, 1, 6, 16, 31, 70]), stamp_skew=skews, writer_skew=skews)
    def write(self, data: st.DataObject, passed_s: int, stamp_skew: int, writer_skew: int) -> None:
        self.now_us += passed_s * S
        node = data.draw(st.sampled_from(NODES))
        known, number = self.model.last.get(node, (3, 0))
        epoch = data.draw(st.sampled_from([known] * 8 + [known + 1, known - 1]))
        number = 0 if epoch != known else number
        number += data.draw(st.sampled_from([1] * 10 + [0, 2]))
        sessions = [SessionEntry(client, self.a_revision(data, client)) for client in [*CLIENTS, *CLIENTS, GROUP]]
        items = [self.an_item(data) for _item in range(data.draw(st.integers(1, 6)))]
        seen = data.draw(st.sampled_from([0] * 5 + [self.now_us, self.now_us + 400 * S]))
        record = self.record(node, epoch, number, items, sessions, time_us=self.now_us + writer_skew, seen=seen)
        self.append(record, stamp_skew)

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        self.append(data.draw(st.sampled_from(self.log)), 0)

    @rule(foreign=st.binary(max_size=5))
    def write_foreign(self, foreign: bytes) -> None:
        self.append(b"?" + foreign, 0)

    @rule(limit=st.integers(1, 2))
    def slice(self, limit: int) -> None:
        changes, self.slice_at = close_slice(self.sliced, self.slice_at, limit)
        self.sliced.write(changes.changes, changes.steps)

    def record(
        self,
        node: int,
        epoch: int,
        number: int,
        items: list[it.Item],
        sessions: list[SessionEntry] | None = None,
        *,
        time_us: int = T,
        seen: int = 0,
    ) -> bytes:
        return encode_record(ClusterRecord(CLUSTER_ID, node, epoch, number, time_us, seen, sessions or [], items))

    def a_revision(self, data: st.DataObject, client: str) -> int:
        known = self.revisions[client]
        return data.draw(st.sampled_from([known[-1]] * 4 + known[-3:]))

    def an_item(self, data: st.DataObject) -> it.Item:
        kind = data.draw(st.integers(0, 20))
        client = data.draw(st.sampled_from(CLIENTS))
        entry = data.draw(st.integers(0, 3))
        of_entry = CLIENTS[entry % 2]
        live = self.model.registered.get(client)
        revision = self.a_revision(data, client)
        if kind < 4:
            number = data.draw(st.sampled_from([-1, -1, 1, 2, 3]))
            packet_id = data.draw(st.integers(0, 2))
            return it.MessageItem(entry, data.draw(messages), packet_id=packet_id, number=number)
        if kind < 8:
            return step_item(self.a_step(data, of_entry), entry)
        if kind < 11:
            self.links += 1
            expected = data.draw(st.sampled_from([revision, 0 if live is None or live.left_us else live.revision]))
            version = (data.draw(st.integers(1, 4)) + self.links // 4, 1, self.links)
            return it.Claim(client, data.draw(st.integers(1, 2)), version, expected)
        if kind < 13:
            return it.Release(client, data.draw(st.integers(1, 2)), data.draw(st.booleans()))
        if kind == 13:
            return one_of(data, it.ReadRegistration(client), it.WillDue(client, revision))
        if kind == 14:
            session = self.model.sessions.get(client)
            ends_us = 0 if session is None else session.end_us or 0
            return it.Expire(client, data.draw(st.sampled_from([ends_us, ends_us, T])))
        if kind == 15:
            return one_of(data, it.Lead(), it.Lead(), it.Tick(), it.Tick(), it.Resign())
        if kind == 16:
            node = data.draw(st.sampled_from(NODES))
            return it.Closed(node, self.model.last.get(node, (3, 0))[0] + data.draw(st.integers(-1, 1)))
        return self.an_item_of_a_leader(data, kind)

    def an_item_of_a_leader(self, data: st.DataObject, kind: int) -> it.Item:
        shard = self.model.shard
        generation = 1 if shard is None else len(shard.starts)
        if kind == 17:
            not_before = data.draw(st.sampled_from([0, 0, self.now_us + 50 * S]))
            number = generation + data.draw(st.sampled_from([1, 1, 0, 2]))
            return it.Border("default", number, "learned", {}, b"", not_before)
        if kind == 18:
            topic = data.draw(st.sampled_from(TOPICS))
            version = self.model.retained.get(topic, (5, b""))[0]
            drop = it.DropGeneration("default", data.draw(st.integers(1, generation + 1)))
            return one_of(data, drop, it.Horizon(topic, version))
        if kind == 19:
            position = data.draw(st.integers(0, 3))
            return one_of(
                data,
                it.Assign(GROUP, 7, position, "a", 1),
                it.Unassign(GROUP, 7, position),
                step_item(keep_progress(GROUP, Progress({7: position}, [], 0)), 4),
                step_item(KeepSession(GROUP, SessionRecord(expiry_s=FOREVER, disconnected_us=0), None), 4),
            )
        control = data.draw(st.integers(1, 8))
        nodes = tuple(data.draw(st.lists(st.sampled_from(NODES), min_size=2, unique=True)))
        return one_of(data, it.Holders(control, nodes), it.ChangeSettings(control, SETTINGS), it.Level(control))

    def a_step(self, data: st.DataObject, client: str) -> SessionStep:
        kind = data.draw(st.integers(0, 5))
        if kind < 4:
            return KeepSession(client, data.draw(records), None)
        if kind == 4:
            return DropSession(client, SessionRecord(expiry_s=0, disconnected_us=0))
        return KeepIncoming(client, data.draw(st.integers(1, 3)))

    # ---- what becomes of it

    def append(self, record: bytes, stamp_skew: int) -> None:
        self.log.append(record)
        entry = LogEntry(len(self.log), self.now_us + stamp_skew, record)
        outcome = self.plain_machine.apply(entry)
        other = StateMachine(CLUSTER_ID, self.sliced).apply(entry)
        self.plain.write(outcome.changes, outcome.steps)
        self.sliced.write(other.changes, other.steps)
        verdict = self.model.apply(entry.sequence, entry.stamp_us, decode_record(record, CLUSTER_ID))
        for found in (outcome, other):
            assert found.verdict == verdict
            self.check_outcome(found)
        assert outcome.digest == other.digest
        assert self.state(self.plain) == self.state(self.sliced) == self.expected()
        for tables in (self.plain, self.sliced):
            tables.sessions.check_invariants()
        for client in CLIENTS:
            found_row = self.model.registered.get(client)
            if found_row is not None and found_row.revision != self.revisions[client][-1]:
                self.revisions[client].append(found_row.revision)
        if self.model.leader is not None and self.model.leader[2] != self.revisions[GROUP][-1]:
            self.revisions[GROUP].append(self.model.leader[2])

    def check_outcome(self, outcome: Outcome) -> None:
        model = self.model
        assert outcome.time_us == model.now_us
        if outcome.accepted != model.accepted:
            found = zip(model.record.items, outcome.accepted, model.accepted, strict=True)
            raise AssertionError([entry for entry in found if entry[1] != entry[2]])
        assert model.published == [
            (found.index, found.message.topic, found.message.position_us, found.serial, found.version, found.is_will)
            for found in outcome.published
        ]
        assert outcome.revisions == model.revisions
        assert model.reads == {index: 0 if row is None else row.revision for index, row in outcome.reads.items()}
        assert outcome.ended == model.ended
        if outcome.fenced:
            sessions = model.record.sessions
            assert outcome.fenced == [sessions[index] for index in model.fenced]
        else:
            assert model.fenced == []

    def state(self, tables: MemoryTables) -> dict[str, Any]:
        """What can be read, with every closing carried out."""
        changes, _after = close_slice(tables, "", 1000)
        registrations = {}
        for key, value in changes.scan(CLUSTER, b"\x09", b"\x0a", 0):
            row = decode_registration(value)
            registrations[session_of_registration(key)] = (row.revision, row.version, row.released_us)
        sessions = {}
        for client in [*CLIENTS, GROUP]:
            record = changes.session(client)
            if record is not None:
                stored = tables.sessions.load(client)
                assert stored is not None
                ends = (record.disconnected_us, max(record.will_due_us(), 0), max(record.ends_us(), 0))
                sessions[client] = (*ends, record.expiry_s, record.will is not None, sorted(stored.incoming))
        head = tables.get(META, head_key(7))
        shard = ShardHead(0, 0, 0) if head is None else decode_head(head)
        leader = tables.get(CLUSTER, LEADER_KEY)
        return {
            "registrations": registrations,
            "sessions": sessions,
            "retained": {
                retained_topic(key): (decode_retained(value).stored_us, decode_retained(value).stored.message.payload)
                for key, value in tables.scan(RETAINED, b"\x01", b"\x02", 0)
            },
            "head": (shard.position_us, shard.serial),
            "generations": [key[-1] for key, _value in tables.scan(META, *generations_of("default"), 0)],
            "assigned": len(tables.scan(CLUSTER, b"\x0a", b"\x0b", 0)),
            "leader": 0 if leader is None or self.model.leader is None else decode_leader(leader).tick_us,
        }

    def expected(self) -> dict[str, Any]:
        model = self.model
        shard = model.shard
        assert shard is not None
        return {
            "registrations": {
                client: (row.revision, row.version, row.left_us or 0) for client, row in model.registered.items()
            },
            "sessions": {
                client: (
                    found.offline_us or 0,
                    found.will_us or 0,
                    found.end_us or 0,
                    found.expiry_s,
                    found.will is not None,
                    sorted(found.incoming),
                )
                for client, found in model.sessions.items()
            },
            "retained": model.retained,
            "head": (shard.positions[-1], len(shard.positions)) if shard.positions else (0, 0),
            "generations": sorted(shard.kept),
            "assigned": len(model.assigned),
            "leader": 0 if model.leader is None else model.leader[3],
        }


def test_two_nodes_and_the_model_come_to_the_same_after_every_record() -> None:
    run_state_machine_as_test(
        VnodeMachine,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None),
    )
