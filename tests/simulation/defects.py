"""Defects that are planted into the product, to see that the simulations find them.

Each brings back an earlier text of the design, or a mistake that is easily made; its docstring says what is wrong, and
names the attack on the cluster that it lets through. A plant is undone with its `MonkeyPatch`.

Three rules have no plant here. Hundreds of seeds did not tell whether they are there, since another rule stands in
front of each: that revisions of one node's channels are compared (its writer keeps their order), that the open batch is
written when sessions are lost, and that a claim forgets the session at hand (a replaced channel has forgotten it).
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from holdfast.broker.connections.connections import ClientConnections
from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.cluster.cluster_log import ClusterLog
from holdfast.cluster.groups.assigned_work import AssignedWork
from holdfast.cluster.groups.dispatcher import GroupDispatcher
from holdfast.cluster.groups.led_group import LedGroup, group_id_of
from holdfast.cluster.groups.member_shares import MemberShares
from holdfast.cluster.registry.log_registry import LogRegistry
from holdfast.cluster.vnodes import retained_compaction, vnode_leader
from holdfast.cluster.vnodes.retained_compaction import RetainedCompaction
from holdfast.cluster.vnodes.writer import ItemOutcome, VnodeWriter
from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.ordered_log import UnknownOutcome
from holdfast.durable.sessions.publish_numbers import PublishNumbers
from holdfast.durable.sessions.session_store import KeepAssignments, KeepIncoming
from holdfast.durable.state_machine import channels, closing, machine, record_time, scope
from holdfast.durable.state_machine.channels import Channels
from holdfast.durable.state_machine.epochs import judge_record
from holdfast.durable.state_machine.leadership import Leadership
from holdfast.durable.state_machine.outcome import APPLIED, REPEATED, AssignedPlace, Outcome
from holdfast.durable.state_machine.shards import Shards
from holdfast.durable.state_machine.step_items import step_item
from holdfast.durable.state_machine.tables import CLUSTER, RETAINED
from holdfast.exchange.inbound import Inbound
from holdfast.records.cluster.items import Horizon, MessageItem
from holdfast.records.cluster.rows import AssignmentRow, ClockRow, assignment_key, encode_assignment
from holdfast.records.retained import retained_key, retained_order, retained_topic
from holdfast.records.session.assignments import DoneAssignments
from holdfast.topics.subscription import SubscriptionRecord


def acknowledged_when_appended(patch: pytest.MonkeyPatch) -> None:
    """A receipt comes with the answer of the log, before its record was decided (A1)."""

    def answered(self: Any, record: Any, result: Any) -> None:
        if isinstance(result, UnknownOutcome):
            return
        record.answered = True
        outcome = ItemOutcome(Outcome(0, APPLIED), 0)
        for index, settled in enumerate(record.settled):
            # Of a batch: a claim has to wait for its revision.
            if record in self._unsettled and isinstance(settled, partial):
                record.settled[index] = None
                settled(outcome)
                settled.func.__self__._hand_over()  # type: ignore[attr-defined]
        self._arrived(record)

    patch.setattr(VnodeWriter, "_answered", answered)


def acknowledged_by_another_vnode(patch: pytest.MonkeyPatch) -> None:
    """A receipt for one vnode covers the batch in all of them, also where it is not decided (A1, A16)."""
    receipt = ClusterLog._receipt

    def receipt_for_all(self: Any) -> Receipt | None:
        made = receipt(self)
        if made is None:
            return None
        furthest = max(made.by_vnode)
        return Receipt(furthest, made.fenced, (furthest,) * len(made.by_vnode))

    patch.setattr(ClusterLog, "_receipt", receipt_for_all)


def acknowledged_when_the_writer_is_closed(patch: pytest.MonkeyPatch) -> None:
    """What a writer has not seen decided when its epoch is closed counts as decided (A1)."""

    def settled(self: Any, vnode: int, _outcome: ItemOutcome) -> None:
        self._open[vnode].popleft()

    patch.setattr(ClusterLog, "_settled", settled)


def sessions_are_opened_without_a_wait(patch: pytest.MonkeyPatch) -> None:
    """A node opens a session though it has not applied what the session was sent elsewhere (A3)."""

    async def has_all_of(_self: Any, _session_id: str) -> bool:
        return True

    patch.setattr(ClusterLog, "has_all_of", has_all_of)


def delivered_waits_for_clients(patch: pytest.MonkeyPatch) -> None:
    """What a node applies before it has clients is not noted as delivered: who connects first does not read it."""
    applied = ClusterLog.applied

    def without_noting(self: Any, vnode: int, entry: Any, outcome: Outcome) -> None:
        before = dict(self._delivered)
        applied(self, vnode, entry, outcome)
        if self._deliver is None:
            self._delivered.clear()
            self._delivered.update(before)

    patch.setattr(ClusterLog, "applied", without_noting)


def packet_id_is_a_step_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """The id of an incoming QoS 2 message and the message are two items, in two records (A16)."""
    add_message = VnodeWriter.add_message

    def add_apart(self: Any, session: Any, message: Any, packet_id: int, number: int, user: str | None) -> None:
        if packet_id:
            self.add(step_item(KeepIncoming(session.session_id, packet_id), 0), None, session)
            self.flush()
        add_message(self, session, message, 0, number, user)

    patch.setattr(VnodeWriter, "add_message", add_apart)


def owners_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """An item counts whoever has claimed the session meanwhile (A1, A2)."""
    patch.setattr(Channels, "_holds", lambda _self, _session: True)


def repetitions_count(patch: pytest.MonkeyPatch) -> None:
    """A record that comes twice is applied twice (A4)."""

    def judge_without_numbers(tables: Any, record: Any) -> str:
        verdict = judge_record(tables, record)
        return APPLIED if verdict == REPEATED else verdict

    patch.setattr(machine, "judge_record", judge_without_numbers)


def numbers_at_hand_decide(patch: pytest.MonkeyPatch) -> None:
    """A node judges publish numbers by what it remembers, as it does without a cluster (A9)."""
    identify = Inbound._identify

    def identify_by_memory(self: Any, client: Any, packet_id: int, number: int) -> None:
        if number >= 0 and not self.numbering.take(client.session.client_id, number, Batch(0)):
            packet_id, number = 0, 0  # acknowledged as a repetition: the table has a number above 0
        identify(self, client, packet_id, number)

    patch.setattr(Inbound, "_identify", identify_by_memory)
    patch.setattr(PublishNumbers, "forget", lambda _self, _session_id: None)


def number_is_stored_apart(patch: pytest.MonkeyPatch) -> None:
    """The number of a message counts though its session is fenced, and the message does not (A16)."""
    message = Channels.message

    def note_number_first(self: Any, index: int, item: MessageItem) -> bool:
        if item.number >= 0 and not self._holds(item.session):
            self._is_new_number(self._scope.record.sessions[item.session].session_id, item)
        return message(self, index, item)

    patch.setattr(Channels, "message", note_number_first)


def wills_are_published_by_their_nodes(patch: pytest.MonkeyPatch) -> None:
    """The node that loses a connection publishes its will, and so does the log (A7, A17)."""

    def leave_will(self: Any, client: Any, will: Any) -> None:
        session = client.session
        self.wills.leave(session.client_id, will, 0, lambda: None)

    patch.setattr(BrokerSessions, "leave_will", leave_will)


def wills_of_closed_epochs_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """Who closes the epoch of a node makes its sessions offline, and forgets their wills (A17)."""
    closed_session = closing._closed_session
    patch.setattr(closing, "_closed_session", lambda session, at_us: closed_session(session.without_will(), at_us))


def wills_stay_when_they_are_published(patch: pytest.MonkeyPatch) -> None:
    """A will that was published is not taken out of its session by the same record (A7)."""
    replace = Channels._replace

    def keep_will(self: Any, session_id: str, record: Any, before: Any) -> Any:
        published = any(one.is_will for one in self._scope.outcome.published)
        return replace(self, session_id, before if published and record.will is None else record, before)

    patch.setattr(Channels, "_replace", keep_will)


def releases_wait_for_receipts(patch: pytest.MonkeyPatch) -> None:
    """A release is written when the last batch of its channel is decided: a claim may come first (A17)."""
    release = ClientConnections._release

    async def release_late(self: Any, connection: Any) -> None:
        done = asyncio.get_running_loop().create_future()
        follow_up = self._exchange.state.follow_up
        follow_up(connection.session_id, lambda: None if done.done() else done.set_result(None))
        await done
        await release(self, connection)

    patch.setattr(ClientConnections, "_release", release_late)


def claims_have_no_condition(patch: pytest.MonkeyPatch) -> None:
    """A claim counts whoever is registered by then: an older connection replaces a newer one (A25)."""
    patch.setattr(Channels, "_may_claim", lambda _self, _item, _row, _revision: True)


def claims_without_outcome_stay(patch: pytest.MonkeyPatch) -> None:
    """Who hears nothing of its claim in time leaves it as it is: it lands later, without a channel (A5, A17)."""
    remove = LogRegistry.remove

    async def remove_known(self: Any, registration: Any, *, goodbye: bool = False) -> bool:
        if registration.client_id not in self._log._held:
            return False
        return await remove(self, registration, goodbye=goodbye)

    patch.setattr(LogRegistry, "remove", remove_known)


def claims_end_no_session(patch: pytest.MonkeyPatch) -> None:
    """A claim takes a session over though its time had come with the connection before (A17)."""

    def settle(self: Any, _index: int, session_id: str, session: Any, *, is_replaced: bool) -> None:
        self._replace(session_id, channels._offline_since(session, 0), session)

    patch.setattr(Channels, "_settle_claimed", settle)


def retained_versions_are_positions(patch: pytest.MonkeyPatch) -> None:
    """A retained message does not win over one that its publisher has seen, if its vnode's time is behind (A18)."""
    retain = Shards._retain

    def retain_at_position(self: Any, message: Any, serial: int, shard: int, _version: int) -> None:
        retain(self, message, serial, shard, message.position_us)

    patch.setattr(Shards, "_retain", retain_at_position)


def removals_leave_nothing(patch: pytest.MonkeyPatch) -> None:
    """A removal takes the message out of its own vnode, and that of another vnode is shown again (A18)."""
    retain = Shards._retain

    def retain_or_delete(self: Any, message: Any, serial: int, shard: int, version: int) -> None:
        retain(self, message, serial, shard, version)
        if not message.payload:
            self._scope.tables.delete(RETAINED, retained_key(message.topic))

    patch.setattr(Shards, "_retain", retain_or_delete)


def horizons_do_not_wait_for_members(patch: pytest.MonkeyPatch) -> None:
    """A leader has a removal taken out though a member is behind where it looked: there the message returns (A18)."""

    def due_at_once(self: Any) -> list[Horizon]:
        self._look()
        found: list[Horizon] = self._found
        self._found = []
        return found

    patch.setattr(RetainedCompaction, "due", due_at_once)


def horizons_do_not_wait_for_time(patch: pytest.MonkeyPatch) -> None:
    """A removal is taken out though a message below it may still come, in a vnode whose time is behind (A18)."""
    clock = retained_compaction._clock
    patch.setattr(retained_compaction, "_clock", lambda tables: ClockRow(1 << 62, 0, 0, 0, 0, clock(tables).version))


def horizons_ignore_other_vnodes(patch: pytest.MonkeyPatch) -> None:
    """A removal is taken out though another vnode has the message that it hides (A18)."""
    judged = RetainedCompaction._judged

    def judged_alone(self: Any, key: bytes, value: bytes, clocks: Any, *, is_removed: bool) -> Any:
        found = judged(self, key, value, clocks, is_removed=is_removed)
        return Horizon(retained_topic(key), retained_order(value)[0]) if found is None and is_removed else found

    patch.setattr(RetainedCompaction, "_judged", judged_alone)


def since_is_a_time(patch: pytest.MonkeyPatch) -> None:
    """A subscription begins at a time, not at the heads of shards: a vnode whose time is behind is not seen (A12)."""
    patch.setattr(
        SubscriptionRecord,
        "begins_before",
        lambda self, _shard, position_us: max((self.since_heads or {}).values(), default=0) < position_us,
    )


def record_time_follows_one_writer(patch: pytest.MonkeyPatch) -> None:
    """A leap of the time is believed when one writer and the stamps of its log claim it (A12)."""
    patch.setattr(
        record_time, "_record_time", lambda clock, _stamp_us, claimed_us, _other_us: max(clock.time_us, claimed_us)
    )


def leaps_of_record_time_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A session that was left while the time was in doubt has waited for all of the leap behind it (A12)."""
    patch.setattr(scope, "waits_since", lambda since_us, _leaps: since_us)
    patch.setattr(vnode_leader, "waits_since", lambda since_us, _leaps: since_us)


def record_time_stands_still_for_slow_clocks(patch: pytest.MonkeyPatch) -> None:
    """A claim that lies behind moves no time, however far, until another node writes, and leaps are forgotten (A12)."""
    leaps_of_record_time_are_forgotten(patch)
    tell = record_time._record_time

    def tell_or_stand_still(clock: ClockRow, stamp_us: int, claimed_us: int, other_us: int) -> int:
        return clock.time_us if claimed_us <= clock.time_us else tell(clock, stamp_us, claimed_us, other_us)

    patch.setattr(record_time, "_record_time", tell_or_stand_still)


def record_time_follows_the_stamps(patch: pytest.MonkeyPatch) -> None:
    """The time of a record is the stamp of the log, whatever its writer says (A12)."""
    advance = record_time.advance_clock
    patch.setattr(
        machine, "advance_clock", lambda clock, node, stamp_us, _writer_us: advance(clock, node, stamp_us, stamp_us)
    )


def groups_begin_when_their_leader_hears_of_them(patch: pytest.MonkeyPatch) -> None:
    """A group begins at the heads that its leader has when it hears of the first member, whose SUBACK did not wait."""
    join = GroupDispatcher._join

    def join_at_present(self: Any, state: Any) -> Any:
        if state.since is not None:
            state = replace(state, since=dict(self._services.new_queue(state.group, {})._delivered))
        return join(self, state)

    patch.setattr(GroupDispatcher, "_join", join_at_present)
    patch.setattr(MemberShares, "await_standing", lambda _self, _client, _records, decided: decided(set()))


def groups_that_list_a_member_confirm_it(patch: pytest.MonkeyPatch) -> None:
    """SUBACK does not wait if the group lists the member, which an earlier subscription may be the reason for (A20)."""
    await_standing = MemberShares.await_standing

    def await_unlisted(self: Any, client: Any, records: list[SubscriptionRecord], decided: Any) -> None:
        session = client.session
        groups = [group_id_of(record) for record in records]
        if all(self._services.is_listed(group_id, session.client_id, session.revision) for group_id in groups):
            decided(set())
        else:
            await_standing(self, client, records, decided)

    patch.setattr(MemberShares, "await_standing", await_unlisted)


def progress_of_groups_passes_open_work(patch: pytest.MonkeyPatch) -> None:
    """The stored progress of a group passes what members have not acknowledged: it dies with them (A20)."""
    patch.setattr(LedGroup, "progress", lambda self: self._queue.sent())


def done_assignments_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A session forgets what it has done for a group before that is settled: a late owner begins it again (A21)."""
    done = AssignedWork.done

    def done_and_forgotten(self: Any, client: Any, name: tuple[int, int]) -> None:
        before = dict(client.session.assignments or {})
        done(self, client, name)
        row = DoneAssignments(name[0], before[name[0]].settled if name[0] in before else 0, ())
        client.session.assignments[name[0]] = row
        if client.stored():
            self._state.step(KeepAssignments(client.session.client_id, row))

    patch.setattr(AssignedWork, "done", done_and_forgotten)


def places_are_assigned_again(patch: pytest.MonkeyPatch) -> None:
    """An `Assign` counts though the place is a member's already: the next leader gives it to another one (A14)."""

    def assign(self: Any, index: int, item: Any) -> bool:
        row = AssignmentRow(item.member, item.member_revision, self._scope.revision(index))
        key = assignment_key(item.group, item.shard, item.position_us)
        self._scope.tables.put(CLUSTER, key, encode_assignment(row))
        self._scope.outcome.assigned.append(AssignedPlace(item.group, (item.shard, item.position_us), row))
        return True

    patch.setattr(Leadership, "assign", assign)
    patch.setattr(GroupDispatcher, "_add", _add_without_assigned(GroupDispatcher._add))


def _add_without_assigned(add: Any) -> Any:
    def add_group(self: Any, *arguments: Any, **options: Any) -> Any:
        rows = self._assignments._rows
        assigned = dict(rows)
        rows.clear()
        group = add(self, *arguments, **options)
        rows.update(assigned)
        return group

    return add_group
