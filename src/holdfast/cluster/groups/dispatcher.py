"""The groups of a vnode, dispatched by the node that leads it, for as long as it leads.

    reports of nodes ──▶ members, free windows, results ──┐
    messages that are applied here ───────────────────────┴─▶ groups ──▶ packs of references, one node each
                                                                  └────▶ Assign, for QoS 2 ──▶ the vnode's log

1. What counts is in the vnode's log: which groups stand, who their members are, how far they have come, which QoS 2
   message is whose. All of it counts from the leader alone, by its `Lead`; a leader that was replaced changes nothing.
2. A group begins where the subscription of its first member does, not where its leader hears of it.
3. QoS 1 work is open until its node says that it is done, or back. If the node is closed, or silent for ten seconds, it
   is given out again.
4. A listed member that no node reports is dropped once this node has applied what was in the member's own log by then,
   and found it without a session or without the subscription. Its session may be on its way to another node.
5. A SUBSCRIBE that waits is confirmed when a `KeepMember` has counted that was proposed after it was reported, and so
   behind every `DropMember` for an earlier subscription of the same session. Being listed is not enough.
"""

from collections import Counter, deque
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Final

from holdfast.cluster.groups.assignments import Assignments, stored_progress
from holdfast.cluster.groups.dispatch_services import DispatchServices
from holdfast.cluster.groups.led_group import LedGroup, LedMember, MemberName, OpenWork, Place, group_record
from holdfast.cluster.groups.standing_groups import format_member
from holdfast.cluster.vnodes.writer import ItemOutcome, Settled
from holdfast.durable.log import NO_END
from holdfast.durable.sessions.session_store import (
    DropMember,
    DropSession,
    KeepGroup,
    KeepMember,
    KeepSession,
    SessionStep,
    keep_progress,
)
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.step_items import step_item
from holdfast.model.message import Message
from holdfast.records.cluster.group_packs import GroupMessage, GroupPack, GroupReport, MemberState, Reference, bounded
from holdfast.records.cluster.items import Assign
from holdfast.records.cluster.record import SessionEntry
from holdfast.records.session.groups import GroupRecord
from holdfast.records.session.progress import Progress
from holdfast.records.session.session_record import SessionRecord
from holdfast.session.state import NEVER
from holdfast.topics.matcher import Matcher

#: A group ends with its last member, and no sooner.
_GROUP_RECORD: Final = SessionRecord(expiry_s=NEVER, disconnected_us=1)
#: Seconds without a report after which the members of a node are given nothing, and what they have goes to others.
SILENT_S: Final = 10
#: Messages that are given out for one group before others get their turn.
_MOST: Final = 1000


class NodeLink:
    """What goes to the members at one node, and comes from them."""

    def __init__(self, stream: int, node: int, epoch: int) -> None:
        self.stream: Final = stream
        self.node: Final = node
        self.epoch: Final = epoch
        #: The numbers of the last report and of the last result.
        self.reported = 0
        self.heard = 0
        #: References that its node has not taken, as far as is known; the first one's number.
        self.first = 1
        self.references: Final[deque[Reference]] = deque()
        #: How many of these were sent. They are sent again once a second.
        self.sent = 0
        self.messages: Final[list[GroupMessage]] = []
        self.members: set[tuple[str, MemberName]] = set()
        #: The SUBSCRIBEs that its last report had, and those of them whose members are listed for certain.
        self.asks: set[int] = set()
        self.confirmed: Final[set[int]] = set()
        self.silent_s = 0
        self.is_due = False


class GroupDispatcher:
    """Requires: this node leads the vnode by `lead`; `offer` before messages are delivered, `tick` once a second."""

    def __init__(self, node: int, vnode: int, lead: int, services: DispatchServices, standing: Iterable[str]) -> None:
        """`standing` are the groups of the vnode."""
        self._node: Final = node
        self._vnode: Final = vnode
        self.lead: Final = lead
        self._services: Final = services
        self._streams = 0
        self._links: Final[dict[int, NodeLink]] = {}
        self.groups: Final[dict[str, LedGroup]] = {}
        self._matcher: Final[Matcher[str, LedGroup]] = Matcher()
        #: Groups that members of a session are listed in.
        self._groups_of: Final[dict[str, set[str]]] = {}
        self._assignments: Final = Assignments(services)
        #: Members that no node reports, and whose sessions last as long as their connections.
        self._doubtful: Final[set[tuple[str, MemberName]]] = set()
        self._is_scheduled = False
        for group_id in standing:
            self._load(group_id)

    def end(self) -> None:
        """This node leads no longer."""
        for group in self.groups.values():
            self._services.wants_no_more(group.record.filter)
        self.groups.clear()

    # ---- groups and their members

    def _load(self, group_id: str) -> None:
        """Go on with a group that stands."""
        record = self._services.group_of(group_id)
        start = stored_progress(self._services.tables, group_id)
        is_replaying = record is not None and record.replaying
        group = self._add(group_id, start, 0 if record is None else record.since_us, is_replaying=is_replaying)
        group.steal_after_us = 0 if record is None else record.steal_after_us
        listed = sorted(self._services.listed(group_id))
        for name in listed:
            self._list(group, name)
        for name in listed:  # all are listed by now: a group ends with the last one
            self._check(group_id, name)

    def _add(self, group_id: str, start: dict[int, int], since_us: int = 0, *, is_replaying: bool = False) -> LedGroup:
        services = self._services
        assigned = self._assignments.places_of(group_id)
        history = None
        if is_replaying and services.new_replay is not None:
            history = services.new_replay(group_id, group_record(group_id, None, since_us), NO_END)
        group = LedGroup(group_id, services.strategy, start, assigned, services.new_queue, history, since_us)
        self.groups[group_id] = group
        self._matcher.subscribe(group.record.filter, group_id, group)
        self._services.wants(group.record.filter)
        return group

    def _list(self, group: LedGroup, name: MemberName) -> None:
        group.listed.add(name)
        self._groups_of.setdefault(name[0], set()).add(group.id)

    def _step(self, step: SessionStep, settled: Settled | None = None) -> None:
        self._services.propose(step_item(step, 0), settled, SessionEntry(step.client_id, self.lead))

    def _join(self, state: MemberState) -> LedGroup | None:
        """The group of a member that reports itself. One that is not listed has to say where it begins."""
        group = self.groups.get(state.group)
        name = (state.session_id, state.revision)
        if group is not None and name in group.listed:
            return group
        if state.since is None:
            return None
        if group is None:
            start = {}
            if not state.replay_from_us:
                # What an earlier group of this name has had was published before this member's SUBACK.
                start = dict(state.since)
                for shard, position_us in stored_progress(self._services.tables, state.group).items():
                    start[shard] = max(start.get(shard, 0), position_us)
            is_replaying = state.replay_from_us > 0
            group = self._add(state.group, start, state.replay_from_us, is_replaying=is_replaying)
            group.steal_after_us = state.steal_after_us
            self._step(KeepSession(group.id, _GROUP_RECORD, None))
            self._step(KeepGroup(group.id, _record_of(group)))
            self._step(keep_progress(group.id, Progress(start, [], 0)))
        self._list(group, name)
        if not state.ask:
            self._step(KeepMember(group.id, format_member(name)))
        return group

    def _confirm(self, link: NodeLink, group: LedGroup, state: MemberState) -> None:
        """List a member whose SUBSCRIBE waits, behind all that was said of it before; then tell its node (rule 5)."""
        if state.ask in link.confirmed:
            link.is_due = True  # its node has not heard it
        elif state.ask not in link.asks:
            link.asks.add(state.ask)
            name = (state.session_id, state.revision)
            self._step(KeepMember(group.id, format_member(name)), partial(self._kept, link, state.ask))

    def _kept(self, link: NodeLink, ask: int, outcome: ItemOutcome) -> None:
        if outcome.accepted and ask in link.asks:
            link.confirmed.add(ask)
            link.is_due = True
            self.flush()

    def _check(self, group_id: str, name: MemberName, *, has_left: bool = False) -> None:
        """Drop a member that no node reports, if it is none any more (rule 4).

        `has_left` if its node has reported it before, and does not any more.
        """
        self._services.after_all_of(name[0], lambda: self._drop_if_gone(group_id, name, has_left))

    def _drop_if_gone(self, group_id: str, name: MemberName, has_left: bool) -> None:
        group = self.groups.get(group_id)
        if group is None or name not in group.listed or name in group.members:
            return
        stored = self._services.stored_member(group_id, name)
        if stored.is_member and (stored.is_stored or not has_left):
            if not stored.is_stored:
                self._doubtful.add((group_id, name))  # its node may be gone, and its session with it
            return
        group.listed.discard(name)
        self._groups_of[name[0]].discard(group_id)
        self._step(DropMember(group_id, format_member(name)))
        if not group.listed:
            self._step(DropSession(group_id, _GROUP_RECORD))
            self._matcher.unsubscribe(group.record.filter, group_id)
            self._services.wants_no_more(group.record.filter)
            del self.groups[group_id]

    # ---- reports

    def report(self, report: GroupReport) -> None:
        """The members at a node. One that is of another lead, or older than the last, is ignored."""
        if report.lead != self.lead:
            return
        link = self._links.get(report.node)
        if link is not None and link.epoch < report.epoch:
            self._lose(link)
            link = None
        if link is None:
            self._streams += 1
            link = self._links[report.node] = NodeLink(self._streams, report.node, report.epoch)
        if report.epoch < link.epoch or report.number <= link.reported:
            return
        link.reported = report.number
        link.silent_s = 0
        taken = report.taken if report.stream == link.stream else 0
        while link.references and link.first <= taken:
            link.references.popleft()
            link.first += 1
            link.sent = max(0, link.sent - 1)
        self._take_results(link, report)
        seen: set[tuple[str, MemberName]] = set()
        asks: set[int] = set()
        unseen = Counter([(one.group, one.session_id, one.revision) for one in link.references])
        for state in report.members:
            group = self._join(state)
            if group is not None:
                member = self._note(group, link, state, report.known)
                member.unseen = unseen[group.id, *member.name]
                seen.add((group.id, member.name))
                if state.ask:
                    asks.add(state.ask)
                    self._confirm(link, group, state)
        for group_id, name in link.members - seen:
            self._miss(link, group_id, name, has_left=True)
        link.members = seen
        link.asks = asks
        link.confirmed.intersection_update(asks)
        for group_id in {group_id for group_id, _name in seen} | {result.group for result in report.results}:
            if group_id in self.groups:
                self._dispatch(self.groups[group_id])
        self.flush()

    def _take_results(self, link: NodeLink, report: GroupReport) -> None:
        back: dict[str, list[Place]] = {}
        for number, result in enumerate(report.results, report.first_result):
            if number <= link.heard:
                continue
            link.heard = number
            link.is_due = True
            group = self.groups.get(result.group)
            place = (result.shard, result.position_us)
            if group is None:
                continue
            if result.is_done:
                group.finish(place)
            elif place in group.open and group.open[place].link == link.stream:
                back.setdefault(group.id, []).append(place)
        for group_id, places in back.items():
            self.groups[group_id].give_back(places)

    def _note(self, group: LedGroup, link: NodeLink, state: MemberState, known: int) -> LedMember:
        name = (state.session_id, state.revision)
        member = group.members.get(name)
        if member is None or member.link != link.stream:
            member = group.members[name] = LedMember(name, link.stream, state.qos)
        member.qos = state.qos
        member.free = state.free
        member.in_flight = state.in_flight
        member.settled = state.settled
        member.assigned = [revision for revision in member.assigned if revision > known]
        if state.steal_after_us and not group.steal_after_us:
            group.steal_after_us = state.steal_after_us
            self._step(KeepGroup(group.id, _record_of(group)))
        return member

    def _miss(self, link: NodeLink, group_id: str, name: MemberName, *, has_left: bool = False) -> None:
        """A node does not report a member any more: it has left, or moved, or its connection is gone."""
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(name)
        if group is None or member is None or member.link != link.stream:
            return
        del group.members[name]
        self._check(group_id, name, has_left=has_left)

    def _lose(self, link: NodeLink) -> None:
        """A node is gone, or does not answer: its members get nothing, and others get what they had."""
        del self._links[link.node]
        for group_id, name in link.members:
            self._miss(link, group_id, name)
        for group in list(self.groups.values()):
            group.give_back([place for place, work in group.open.items() if work.link == link.stream])
            self._dispatch(group)

    # ---- messages

    def offer(self, messages: list[Message]) -> None:
        """Messages of the log, before they count as delivered. Requires: `dispatch` when they do."""
        if not self.groups:
            return
        for message in messages:
            if message.qos and message.position_us:
                for group in self._matcher.match(message.topic):
                    group.offer(message)

    def dispatch(self) -> None:
        """Give out what waits, as far as members have room."""
        for group in list(self.groups.values()):
            self._dispatch(group)
        self.flush()

    def pass_on(self, message: Message) -> None:
        """A message of QoS 0: for a member that is connected now."""
        for group in list(self._matcher.match(message.topic)):
            if group.is_replaying():
                continue  # it is read from the log, in its place
            member = group.pick(message, needs_room=False)
            link = None if member is None else self._link(member.link)
            if member is not None and link is not None:
                link.messages.append(GroupMessage(group.id, *member.name, message))
                link.is_due = True
        self.flush()

    def _dispatch(self, group: LedGroup) -> None:
        if not any(member.room() > 0 for member in group.members.values()):
            return
        for _message in range(_MOST):
            message = group.next()
            if message is None:
                break
            member = group.pick(message)
            if member is None:
                group.wait(message)
                return
            self._give(group, member, message)
        if group.reads_on():
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._services.soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        self.dispatch()

    def _give(self, group: LedGroup, member: LedMember, message: Message) -> None:
        qos = member.qos if self._services.upgrade_qos else min(member.qos, message.qos)
        place = (message.shard, message.position_us)
        if qos == 2:
            group.assigning[place] = message
            member.assigning += 1
            item = Assign(group.id, *place, *member.name)
            self._services.propose(item, partial(self._assigned, group, member, place), None)
            return
        link = self._link(member.link)
        assert link is not None, "a member has a link"
        group.open[place] = OpenWork(message, member.name, member.link, self._services.now_us())
        member.unseen += 1
        link.references.append(Reference(group.id, *member.name, *place))
        link.is_due = True

    def _assigned(self, group: LedGroup, member: LedMember, place: Place, outcome: ItemOutcome) -> None:
        """Whoever has it now, it is given out no more; unless this node leads no longer, and everything here ends."""
        member.assigning -= 1
        if outcome.outcome is not None:
            group.assigning.pop(place, None)

    def _link(self, stream: int) -> NodeLink | None:
        return next((link for link in self._links.values() if link.stream == stream), None)

    def flush(self) -> None:
        """Send what nodes are to be told."""
        for link in list(self._links.values()):
            if link.is_due:
                self._send(link)

    def _send(self, link: NodeLink) -> None:
        link.is_due = False
        while True:
            references = bounded(islice(link.references, link.sent, None))
            messages = bounded(link.messages)
            del link.messages[: len(messages)]
            numbers = (link.epoch, link.stream, link.heard, link.first + link.sent)
            link.sent += len(references)
            confirmed = tuple(sorted(link.confirmed))
            pack = GroupPack(self._node, self._vnode, self.lead, *numbers, references, messages, confirmed)
            self._services.send(link.node, pack)
            if link.sent == len(link.references) and not link.messages:
                return

    # ---- what the log says

    def applied(self, outcome: Outcome) -> None:
        """A record of the group's own vnode was applied."""
        self._assignments.applied(outcome)
        for assigned in outcome.assigned:
            row = assigned.row
            group = self.groups.get(assigned.group)
            member = None if group is None else group.members.get((row.member, row.member_revision))
            if member is not None:
                member.assigned.append(row.revision)

    def session_changed(self, session_id: str) -> None:
        """A session has ended, or has unsubscribed from something."""
        for group_id in sorted(self._groups_of.get(session_id, ())):
            for name in sorted(self.groups[group_id].listed if group_id in self.groups else ()):
                if name[0] == session_id:
                    self._check(group_id, name)

    # ---- once a second

    def tick(self) -> None:
        for link in list(self._links.values()):
            link.silent_s += 1
            closed = closed_at(self._services.tables, link.node, link.epoch) != OPEN
            if closed or link.silent_s > SILENT_S:
                self._lose(link)
            elif link.references:
                link.sent = 0
                link.is_due = True
        doubtful = sorted(self._doubtful)
        self._doubtful.clear()
        for group_id, name in doubtful:
            self._check(group_id, name)
        for group in list(self.groups.values()):
            self._steal(group)
            self._keep_progress(group)
        self._assignments.sweep(self._settled_by)
        self.dispatch()

    def _keep_progress(self, group: LedGroup) -> None:
        if group.was_replaying and not group.is_replaying():
            group.was_replaying = False
            self._step(KeepGroup(group.id, _record_of(group)))
        sent = group.progress()
        if sent != group.stored:
            group.stored = sent
            self._step(keep_progress(group.id, Progress(sent, [], 0)))

    def _settled_by(self, group_id: str, name: MemberName) -> int | None:
        """Up to which revision a member has done its assignments, as its node says; None if none reports it."""
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(name)
        return None if member is None else member.settled

    def _steal(self, group: LedGroup) -> None:
        """Give QoS 1 work that rests for too long to other members that have room."""
        if not group.steal_after_us:
            return
        due_us = self._services.now_us() - group.steal_after_us
        for place, work in list(group.open.items()):
            if work.given_us > due_us:
                continue
            other = group.pick(work.message, besides=work.member)
            if other is None:
                return
            del group.open[place]
            self._give(group, other, work.message)


def _record_of(group: LedGroup) -> GroupRecord:
    return GroupRecord(group.since_us, replaying=group.is_replaying(), steal_after_us=group.steal_after_us)
