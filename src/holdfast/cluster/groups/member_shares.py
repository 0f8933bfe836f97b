"""The members of groups at one node: what its broker knows of shared subscriptions in a cluster.

    SUBSCRIBE ──▶ stored ──▶ listed in the group's vnode, as its leader confirms ──▶ SUBACK
    reference ──▶ waits until its place is applied here ──▶ the member's share ──▶ PUBLISH ──▶ done, or back
    Assign    ──▶ the same, for QoS 2; it is in flight in the member's own vnode before PUBLISH is sent

1. A member here is a session that has its connection here. A `Group` is what one member is given of a group: it has
   that member alone.
2. What a member has of QoS 0 or 1 is reported once: done, or back when its connection is gone.
3. QoS 2 is assigned in the log, and goes to no other member (`assigned_work.py`).
4. A new member is reported once its subscription is stored: a leader that finds it listed and looks into its session
   finds the subscription.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from holdfast.broker.subscriptions.share_request import STEAL_AFTER, ShareRequest
from holdfast.cluster.groups.assigned_work import AssignedWork, Assignment, AssignmentName
from holdfast.cluster.groups.led_group import Place, group_id_of, group_record
from holdfast.durable.queues.client_queue import SessionQueue
from holdfast.exchange.client import BrokerClient, Group, Subscribed
from holdfast.exchange.exchange import Exchange
from holdfast.model.message import Message
from holdfast.model.owed import Owed, OwedShared
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.group_packs import MAX_FREE, GroupMessage, MemberState, Reference
from holdfast.records.session.groups import GROUP_PREFIX, GroupRecord
from holdfast.topics.subscription import SubscriptionRecord

#: What a member takes at once with QoS 0, which has no window.
_FREE_QOS0: Final = 1000
#: Seconds that a reference waits for its place to be applied here, before it goes back.
_PATIENCE_S: Final = 5


class ShareServices(NamedTuple):
    """What members need of their node."""

    new_queue: Callable[[str, dict[bytes, SubscriptionRecord]], SessionQueue]
    #: The last position of each shard that is applied here.
    heads: Mapping[int, int]
    #: A message of the log; None if it is gone.
    find: Callable[[tuple[bytes, ...], Place], Message | None]
    #: Whether a group stands, and lists this member.
    is_listed: Callable[[str, str, int], bool]
    #: The number under which a SUBSCRIBE asks its group's leader; calls back once it is answered, or too late.
    ask: Callable[[Callable[[bool], None]], int]
    #: Told what has become of a message, or that there is something to report.
    result: Callable[[str, Place, bool], None]
    changed: Callable[[str], None]
    #: The assignments of a session, the revision up to which a vnode is applied here, and the vnode of a group.
    assignments_of: Callable[[str], Mapping[AssignmentName, Assignment]]
    #: What holds for a group that stands.
    record: Callable[[str], GroupRecord | None]
    known: Callable[[int], int]
    vnode_of: Callable[[str], int]
    #: The revision by which this node holds a session; None if it does not, or its channel has ended.
    held_revision: Callable[[str], int | None]


@dataclass(eq=False)
class LocalMember:
    """One member, and what it has in hand."""

    group_id: str
    share: Group
    subscribed: Subscribed
    steal_after_us: int = 0
    #: Whether it was no member before, and whether its subscription is stored.
    is_new: bool = False
    is_stored: bool = True
    #: The question of a SUBSCRIBE that waits; 0 for none.
    ask: int = 0
    #: Places of QoS 0 and 1 that are given to it, and not done.
    in_hand: set[Place] = field(default_factory=set)
    #: Those of them that are not applied here, and how many seconds they have waited.
    uncovered: dict[Place, int] = field(default_factory=dict)


class MemberShares:
    """A `SharedSubscriptions` by shape."""

    def __init__(self, exchange: Exchange, services: ShareServices) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._services: Final = services
        #: By session id and group.
        self._members: Final[dict[tuple[str, str], LocalMember]] = {}
        self.groups: Final[dict[str, Group]] = {}
        self.assigned: Final = AssignedWork(
            exchange.state, services.assignments_of, services.known, self._is_covered, self._hand_assigned
        )
        exchange.delivery.sender.shared_done = self._done

    # ---- SharedSubscriptions: subscriptions

    def count(self) -> int:
        return len(self.groups)

    def group_for(self, client: BrokerClient, record: SubscriptionRecord, share: ShareRequest | None) -> Group:
        group_id = group_id_of(record)
        member = self._members.get((client.session.client_id, group_id))
        if member is not None:
            group = member.share
        else:
            group = Group(group_id[len(GROUP_PREFIX) :], "", record, self._services.new_queue(group_id, {}))
            group.dispatched = True
        if share is not None and share.steal_after_us:
            group.steal_after_us = share.steal_after_us
        return group

    def join(self, group: Group, subscribed: Subscribed) -> None:
        client = subscribed.client
        group_id = GROUP_PREFIX + group.key
        group.members[client.session.client_id] = subscribed
        if group not in client.groups:
            client.groups = (*client.groups, group)
        key = (client.session.client_id, group_id)
        before = self._members.get(key)
        self._members[key] = LocalMember(group_id, group, subscribed, group.steal_after_us)
        self._members[key].is_new = before is None
        if before is not None:
            self._members[key].in_hand = before.in_hand
            self._members[key].uncovered = before.uncovered
        self.groups[group_id] = group
        if client.channel is not None and not self.assigned.is_open(client):
            self.assigned.open(client)
        self._services.changed(group_id)

    def leave(self, client: BrokerClient, group: Group) -> None:
        """Unsubscribed, or forgotten here. What is in flight it keeps: it may be about to acknowledge it.

        The group counts that as done once it is stored with the session: from then on no other node gives it out. If
        another channel has claimed the session in between, that is not stored, and goes back.
        """
        member = self._members.pop((client.session.client_id, GROUP_PREFIX + group.key), None)
        client.groups = tuple(other for other in client.groups if other is not group)
        if member is None:
            return
        waiting = {_place(owed.message) for owed in group.held if not _is_assigned(owed)} | member.uncovered.keys()
        for place in sorted(member.in_hand & waiting):
            self._services.result(member.group_id, place, False)
        kept = sorted(member.in_hand - waiting)
        if kept:
            session_id = client.session.client_id
            held = self._services.held_revision(session_id)

            def decided() -> None:
                is_stored = held is not None and self._services.held_revision(session_id) == held
                for place in kept:
                    self._services.result(member.group_id, place, is_stored)

            self._state.follow_up(session_id, decided)
        group.held = [owed for owed in group.held if _is_assigned(owed)]
        if group.held:
            client.groups = (*client.groups, group)  # they are this member's, and no other gets them
        client.session.window.leave_group(group.key)
        if not any(group_id == member.group_id for _session_id, group_id in self._members):
            self.groups.pop(member.group_id, None)
        self._services.changed(member.group_id)

    def share_out(self, client: BrokerClient) -> None:
        """The connection of a member is gone: others get what it did not acknowledge with QoS 1."""
        self.assigned.close(client)
        window = client.session.window
        for member in self._members_of(client):
            key = member.share.key
            for packet_id in window.packet_ids():
                owed = window.owed(packet_id)
                if owed is not None and owed.qos == 1 and owed.group == key:
                    window.discard(packet_id)
            member.share.held.clear()
            member.uncovered.clear()
            for place in sorted(member.in_hand):
                self._services.result(member.group_id, place, False)
            member.in_hand.clear()
            self._services.changed(member.group_id)

    def leave_all(self, client: BrokerClient) -> None:
        self.share_out(client)

    def take_from_absent(self, client: BrokerClient) -> None:
        """A member is online: it may be given something."""
        if client.groups or self._services.assignments_of(client.session.client_id):
            self.assigned.open(client)
        for member in self._members_of(client):
            self._services.changed(member.group_id)

    def describe(self, client: BrokerClient, raw: bytes, now_us: int, *, replay: bool) -> list[tuple[str, str]]:
        subscribed = client.subscribed(raw)
        record = None if subscribed is None else self._services.record(group_id_of(subscribed.record))
        if record is None:
            return []
        properties = [("ts", str(now_us)), ("replay-from", str(record.since_us or now_us))] if replay else []
        if record.steal_after_us:
            properties.append((STEAL_AFTER, str(record.steal_after_us // SECOND_US)))
        return properties

    def await_standing(
        self, client: BrokerClient, records: list[SubscriptionRecord], decided: Callable[[set[bytes]], None]
    ) -> None:
        """Call back when the groups of these subscriptions list the client, with the filters whose groups do not."""
        session_id = client.session.client_id
        asking = {record.filter.raw: self._members[session_id, group_id_of(record)] for record in records}
        left = set(asking)
        failed: set[bytes] = set()

        def heard(raw: bytes, listed: bool) -> None:
            asking[raw].ask = 0
            if not listed:
                failed.add(raw)
            left.discard(raw)
            if not left:
                decided(failed)

        def stored() -> None:
            for member in asking.values():
                member.is_stored = True
                self._services.changed(member.group_id)

        for raw, member in asking.items():
            member.ask = self._services.ask(partial(heard, raw))
            member.is_stored = not member.is_new
        self._state.follow_up(session_id, stored)

    # ---- reports

    def members(self, is_wanted: Callable[[str], bool]) -> list[MemberState]:
        """The members of some groups that are connected here."""
        found: list[MemberState] = []
        for (session_id, group_id), member in self._members.items():
            if not is_wanted(group_id) or not member.is_stored or member.subscribed.client.channel is None:
                continue
            record = member.subscribed.record
            session = member.subscribed.client.session
            done = (session.assignments or {}).get(self._services.vnode_of(group_id))
            listed = self._services.is_listed(group_id, session_id, session.revision)
            state = MemberState(
                group_id,
                session_id,
                session.revision,
                record.qos,
                free=max(0, min(self._free(member), MAX_FREE)),
                in_flight=min(len(session.window), MAX_FREE),
                settled=0 if done is None else done.settled,
                since=None if listed and not member.ask else dict(record.since_heads or {}),
                steal_after_us=member.steal_after_us,
                replay_from_us=record.since_us,
                ask=member.ask,
            )
            found.append(state)
        return found

    def _free(self, member: LocalMember) -> int:
        client = member.subscribed.client
        channel = client.channel
        if channel is None or channel.closed or channel.congested:
            return 0
        record = member.subscribed.record
        waiting = len(member.share.held) + len(member.uncovered)
        if record.qos == 0:
            return _FREE_QOS0 - waiting
        window = client.session.window
        free = 0 if window.resuming() else window.free()
        if record.share_window:
            free = min(free, record.share_window - window.count_of(member.share.key))
        return free - waiting

    # ---- what members are given

    def take(self, reference: Reference) -> None:
        """A message for a member. If that is not connected here, it goes back."""
        place = (reference.shard, reference.position_us)
        member = self._find(reference.session_id, reference.group, reference.revision)
        if member is None:
            self._services.result(reference.group, place, False)
        elif place not in member.in_hand:
            member.in_hand.add(place)
            member.uncovered[place] = 0
            self._cover(member)

    def pass_on(self, sent: GroupMessage) -> None:
        """A message of QoS 0 for a member."""
        member = self._find(sent.session_id, sent.group, sent.revision)
        if member is not None:
            self._state.schedule()
            self._exchange.delivery.groups.deliver_passed_on(member.share, [sent.message])

    def applied(self) -> None:
        """More is applied here: what waited for it may go."""
        for member in self._members.values():
            if member.uncovered:
                self._cover(member)
        self.assigned.applied()

    def tick(self) -> None:
        """A second has passed. What waits for too long goes back: this node is behind."""
        for member in list(self._members.values()):
            for place, waited_s in list(member.uncovered.items()):
                member.uncovered[place] = waited_s + 1
                if waited_s >= _PATIENCE_S:
                    del member.uncovered[place]
                    self._settle(member, place, is_done=False)

    def _is_covered(self, place: Place) -> bool:
        return self._services.heads.get(place[0], 0) >= place[1]

    def _cover(self, member: LocalMember) -> None:
        for place in [place for place in member.uncovered if self._is_covered(place)]:
            del member.uncovered[place]
            self._hand(member, place)

    def _hand(self, member: LocalMember, place: Place) -> None:
        """Put a message into a member's share; it is sent as there is room."""
        record = member.subscribed.record
        message = self._services.find(record.filter.levels, place)
        if message is None or record.hides(message.topic):
            self._settle(member, place, is_done=True)
            return
        member.share.held.insert(0, self._owed(member.share, message))
        self._state.schedule()
        self._state.pump_soon(member.subscribed.client)

    def _hand_assigned(self, client: BrokerClient, name: AssignmentName, assignment: Assignment) -> bool:
        """The same for a message that is this member's alone, whether it is still a member or not."""
        member = self._members.get((client.session.client_id, assignment.group_id))
        record = group_record(assignment.group_id, {}) if member is None else member.subscribed.record
        message = self._services.find(record.filter.levels, assignment.place)
        if message is None or record.hides(message.topic):
            return False
        share = None if member is None else member.share
        if share is None:
            key = assignment.group_id[len(GROUP_PREFIX) :]
            share = Group(key, "", record, self._services.new_queue(assignment.group_id, {}))
            share.dispatched = True
            share.members[client.session.client_id] = Subscribed(client, record, share)
            client.groups = (*client.groups, share)
        owed = self._owed(share, message, name)
        share.held.insert(0, owed)
        self._state.schedule()
        self._state.pump_soon(client)
        return True

    def _owed(self, share: Group, message: Message, name: AssignmentName = (0, 0)) -> OwedShared:
        """A message for a member; history is told with its time and place."""
        record = self._services.record(GROUP_PREFIX + share.key)
        return OwedShared(
            message,
            message.qos,
            identifiers=(),
            group=share.key,
            source=message,
            past=record is not None and record.replaying,
            due_us=0,
            vnode=name[0],
            revision=name[1],
        )

    def _done(self, client: BrokerClient, owed: Owed) -> None:
        """A member has acknowledged a message, or will never get it."""
        if isinstance(owed, OwedShared) and owed.revision:
            self.assigned.done(client, (owed.vnode, owed.revision))
            for own in self._members_of(client):
                self._services.changed(own.group_id)
            return
        if not owed.group or not owed.message.position_us:
            return
        member = self._members.get((client.session.client_id, GROUP_PREFIX + owed.group))
        place = _place(owed.message)
        if member is not None and place in member.in_hand:
            self._settle(member, place, is_done=True)

    def _settle(self, member: LocalMember, place: Place, *, is_done: bool) -> None:
        member.in_hand.discard(place)
        self._services.result(member.group_id, place, is_done)

    def _find(self, session_id: str, group_id: str, revision: int) -> LocalMember | None:
        member = self._members.get((session_id, group_id))
        if member is None:
            return None
        client = member.subscribed.client
        return member if client.channel is not None and client.session.revision == revision else None

    def _members_of(self, client: BrokerClient) -> list[LocalMember]:
        session_id = client.session.client_id
        found = [self._members.get((session_id, GROUP_PREFIX + group.key)) for group in client.groups]
        return [member for member in found if member is not None]


def _is_assigned(owed: Owed) -> bool:
    return isinstance(owed, OwedShared) and owed.revision > 0


def _place(message: Message) -> Place:
    return message.shard, message.position_us
