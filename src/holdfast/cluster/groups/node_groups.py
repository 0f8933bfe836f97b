"""Groups at one node: it dispatches those of the vnodes that it leads, and serves the members that are connected to it.

    MemberShares ──▶ reports ──▶ the node that leads the group's vnode ──▶ GroupDispatcher ──▶ packs ──▶ MemberShares

1. Reports and packs may be lost, and are repeated once a second while something is open. Nothing rests on one of them.
2. A pack of an earlier lead than the last one that is known here is ignored, and so is one for an earlier epoch.
3. Whether a group stands, and whom it lists, is what is applied here of its vnode.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from holdfast.cluster.cluster_log import ClusterLog
from holdfast.cluster.groups.dispatch_services import DispatchServices, StoredMember
from holdfast.cluster.groups.dispatcher import GroupDispatcher
from holdfast.cluster.groups.led_group import MemberName, Place, group_id_of
from holdfast.cluster.groups.member_shares import MemberShares, ShareServices
from holdfast.cluster.groups.standing_groups import StandingGroups
from holdfast.cluster.groups.subscribe_asks import PATIENCE_S, SubscribeAsks
from holdfast.cluster.vnodes.writer import ItemOutcome, Settled, Timers
from holdfast.durable.log import MessageLog
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.sessions.session_store import (
    DropSubscription,
    SessionStep,
    SessionStore,
    StoredShares,
)
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import CLUSTER, StateTables
from holdfast.durable.takeover.registry import NodeLife
from holdfast.exchange.drops import DROP_SESSION_ENDED
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.plans import FilterWatch
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.cluster.group_packs import (
    GroupPack,
    GroupReport,
    WorkResult,
    bounded,
    decode_group_packet,
    encode_pack,
    encode_report,
)
from holdfast.records.cluster.items import Item, ReadRegistration
from holdfast.records.cluster.record import SessionEntry, revision_of
from holdfast.records.cluster.rows import (
    LEADER_KEY,
    LeaderRow,
    RegistrationRow,
    decode_leader,
)
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.topics.filters import SHARE_PREFIX, TopicFilter
from holdfast.topics.subscription import SubscriptionRecord

_log = structlog.get_logger()

#: Messages that were applied lately, and need not be read again.
_RECENT: Final = 10_000
#: Reports without members that follow the last one with some, one a second: the leader has to hear of it.
_LAST_REPORTS: Final = 10


class GroupStores(NamedTuple):
    """What this node has of all vnodes."""

    tables: Sequence[StateTables]
    sessions: SessionStore
    #: What is stored of a session that groups ask for.
    shares: Callable[[str], StoredShares | None]
    messages: MessageLog
    #: The last position of each shard that is applied here.
    heads: Mapping[int, int]
    new_queue: Callable[[str, dict[bytes, SubscriptionRecord]], LogQueue]
    #: History for a group, from its start up to a moment.
    new_replay: Callable[[str, SubscriptionRecord, int], LogQueue]
    #: Who is registered, as of what is applied here.
    registration: Callable[[str], RegistrationRow | None]
    #: The last record of a vnode that is applied here.
    applied: Callable[[int], int]


class LeaderLink:
    """What goes to the leader of a vnode, and comes from it."""

    def __init__(self) -> None:
        self.lead = 0
        self.node = 0
        self.stream = 0
        self.taken = 0
        self.number = 0
        self.first_result = 1
        self.results: Final[deque[WorkResult]] = deque()
        self.is_due = False
        #: Seconds since there was something to report.
        self.quiet_s = _LAST_REPORTS

    def follow(self, lead: int, node: int) -> None:
        """Another node leads, or the same one after a restart: it knows nothing of what was said before."""
        self.lead, self.node = lead, node
        self.stream = self.taken = 0
        self.first_result = 1
        self.is_due = True
        self.quiet_s = 0


class NodeGroups:
    """Requires: the event loop; `tick` once a second; `load` when what is on disk is applied.

    `send` takes a packet to a node, perhaps. `received` takes what others have sent.
    """

    def __init__(
        self,
        life: NodeLife,
        log: ClusterLog,
        stores: GroupStores,
        clock: Clock,
        timers: Timers,
        send: Callable[[int, bytes], None],
        strategy: str,
        *,
        upgrade_qos: bool = False,
    ) -> None:
        self._life: Final = life
        self._log: Final = log
        self._stores: Final = stores
        self._clock: Final = clock
        self._timers: Final = timers
        self._send: Final = send
        self._strategy: Final = strategy
        self._upgrade_qos: Final = upgrade_qos
        vnodes = len(stores.tables)
        self.standing: Final = StandingGroups(self._changed)
        self._asks: Final = SubscribeAsks(timers)
        self._links: Final = [LeaderLink() for _vnode in range(vnodes)]
        self.dispatchers: Final[list[GroupDispatcher | None]] = [None] * vnodes
        #: By vnode, the revision up to which it is applied here.
        self._known: Final = [0] * vnodes
        self._recent: Final[OrderedDict[Place, Message]] = OrderedDict()
        self._shares: MemberShares | None = None
        self._exchange: Exchange | None = None
        self._watch: FilterWatch | None = None
        self._is_scheduled = False
        for vnode in range(vnodes):
            self.standing.load(vnode, stores.tables[vnode], stores.sessions)
            self._known[vnode] = revision_of(stores.applied(vnode) + 1, 0) - 1
        log.groups = self

    def attach(self, exchange: Exchange) -> MemberShares:
        """The shared subscriptions of this node's broker."""
        self._exchange = exchange
        self._shares = MemberShares(
            exchange,
            ShareServices(
                self._stores.new_queue,
                self._stores.heads,
                self._find,
                lambda group_id, *name: name in self.standing.listed(group_id),
                self._asks.begin,
                self._result,
                self._changed,
                self.standing.assignments_of,
                self.standing.record,
                self._known.__getitem__,
                self._vnode_of,
                self._log.held_revision,
            ),
        )
        return self._shares

    def end(self) -> None:
        """This node is no member any more: it leads nothing."""
        for vnode in range(len(self.dispatchers)):
            self._end_dispatcher(vnode)

    def _end_dispatcher(self, vnode: int) -> None:
        dispatcher, self.dispatchers[vnode] = self.dispatchers[vnode], None
        if dispatcher is not None:
            dispatcher.end()

    # ---- QoS 0

    def watch_filters(self, watch: FilterWatch) -> None:
        """Have the other nodes send QoS 0 messages for groups that this node dispatches."""
        self._watch = watch
        for dispatcher in self.dispatchers:
            for group in () if dispatcher is None else dispatcher.groups.values():
                watch.subscribed(group.record.filter)

    def _want(self, topic_filter: TopicFilter) -> None:
        if self._watch is not None:
            self._watch.subscribed(topic_filter)

    def _want_no_more(self, topic_filter: TopicFilter) -> None:
        if self._watch is not None:
            self._watch.unsubscribed(topic_filter)

    def pass_on(self, messages: list[Message]) -> None:
        """Messages of QoS 0, published at any node."""
        for message in messages:
            for dispatcher in self.dispatchers:
                if dispatcher is not None:
                    dispatcher.pass_on(message)

    # ---- what the log says

    def offer(self, messages: list[Message]) -> None:
        """Messages that are applied, before they count as delivered."""
        if self._shares is not None and self._shares.groups:
            for message in messages:
                if message.qos and message.position_us:
                    self._recent[message.shard, message.position_us] = message
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
        for dispatcher in self.dispatchers:
            if dispatcher is not None:
                dispatcher.offer(messages)

    def applied(self, vnode: int, outcome: Outcome) -> None:
        """A record of a vnode was applied, and its messages are delivered."""
        self.standing.applied(vnode, outcome)
        self._known[vnode] = revision_of(outcome.sequence + 1, 0) - 1
        if self._shares is not None:
            for assigned in outcome.assigned:
                self._shares.assigned.begin(assigned.row.member)
        if outcome.leader_changed:
            self._look_for_leader(vnode)
        own = self.dispatchers[vnode]
        if own is not None and (outcome.assigned or outcome.unassigned):
            own.applied(outcome)
        left = [step.client_id for step in outcome.steps if _leaves_group(step)]
        for dispatcher in self.dispatchers:
            if dispatcher is not None:
                for session_id in (*outcome.ended, *left):
                    dispatcher.session_changed(session_id)
                if outcome.published:
                    dispatcher.dispatch()
        if outcome.published and self._shares is not None:
            self._shares.applied()

    def _leader(self, vnode: int) -> LeaderRow | None:
        value = self._stores.tables[vnode].get(CLUSTER, LEADER_KEY)
        return None if value is None else decode_leader(value)

    def _look_for_leader(self, vnode: int) -> None:
        """Dispatch if this node leads; report to the node that does."""
        row = self._leader(vnode)
        link = self._links[vnode]
        if row is not None and row.revision > link.lead:
            link.follow(row.revision, row.node)
            self._schedule()
        dispatcher = self.dispatchers[vnode]
        leads = row is not None and (row.node, row.epoch) == (self._life.node, self._life.epoch)
        if not leads or row is None:
            self._end_dispatcher(vnode)
        elif dispatcher is None or dispatcher.lead != row.revision:
            self._end_dispatcher(vnode)
            services = self._dispatch_services(vnode)
            groups = [one for one in self.standing.ids() if self._vnode_of(one) == vnode]
            self.dispatchers[vnode] = GroupDispatcher(self._life.node, vnode, row.revision, services, groups)

    # ---- for dispatchers

    def _dispatch_services(self, vnode: int) -> DispatchServices:
        return DispatchServices(
            self._stores.tables[vnode],
            self.standing.listed,
            self.standing.record,
            self._stores.new_queue,
            self._stores.new_replay,
            partial(self._propose, vnode),
            self._after_all_of,
            self._stored_member,
            lambda node, pack: self._deliver(node, encode_pack(pack)),
            _call_soon,
            self._clock.monotonic_us,
            self._discarded,
            self._want,
            self._want_no_more,
            self._strategy,
            self._upgrade_qos,
        )

    def _propose(self, vnode: int, item: Item, settled: Settled | None, session: SessionEntry | None) -> None:
        self._log.propose_in(vnode, item, settled, session)

    def _after_all_of(self, session_id: str, then: Callable[[], None]) -> None:
        """Read the registration through the log: what was there before it is applied here when that is answered."""

        def settled(outcome: ItemOutcome) -> None:
            if outcome.outcome is not None:
                then()
            elif any(self.dispatchers):
                # The log of that vnode takes no more now.
                self._timers.call_later(PATIENCE_S, partial(self._after_all_of, session_id, then))

        self._log.add(session_id, ReadRegistration(session_id), settled)

    def _stored_member(self, group_id: str, name: MemberName) -> StoredMember:
        session_id, revision = name
        stored = self._stores.shares(session_id)
        if stored is not None and stored.record.revision == revision and stored.record.expiry_s:
            is_member = any(group_id_of(one) == group_id for one in stored.subscriptions)
            done = stored.assignments.get(self._vnode_of(group_id))
            settled = 0 if done is None else done.settled
            return StoredMember(has_session=True, is_stored=True, is_member=is_member, settled=settled)
        row = self._stores.registration(session_id)
        is_connected = row is not None and not row.released_us and row.revision == revision
        if is_connected and row is not None:
            tables = self._stores.tables[self._vnode_of(session_id)]
            is_connected = closed_at(tables, row.node, row.epoch) == OPEN
        return StoredMember(has_session=is_connected, is_stored=False, is_member=is_connected, settled=0)

    def _vnode_of(self, session_id: str) -> int:
        return vnode_of(session_id, len(self._links))

    def _discarded(self, group_id: str, count: int) -> None:
        if self._exchange is not None:
            key = group_id[len(GROUP_PREFIX) :]
            now_us = self._clock.wall_us()
            self._exchange.drops.lose(DROP_SESSION_ENDED, key, count, now_us, "the session of its member has ended")

    # ---- for members

    def _find(self, levels: tuple[bytes, ...], place: Place) -> Message | None:
        recent = self._recent.get(place)
        if recent is not None:
            return recent
        shard, position_us = place
        found = self._stores.messages.scan(shard, levels, position_us).next(1, position_us + 1)
        return found[0] if found else None

    def _result(self, group_id: str, place: Place, is_done: bool) -> None:
        link = self._links[self._vnode_of(group_id)]
        link.results.append(WorkResult(group_id, *place, is_done))
        link.is_due = True
        self._schedule()

    def _changed(self, group_id: str) -> None:
        self._links[self._vnode_of(group_id)].is_due = True
        self._schedule()

    # ---- packets

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        for vnode, link in enumerate(self._links):
            if link.is_due and link.lead:
                self._report(vnode, link)

    def _report(self, vnode: int, link: LeaderLink) -> None:
        link.is_due = False
        link.number += 1
        members = () if self._shares is None else self._shares.members(lambda one: self._vnode_of(one) == vnode)
        results = bounded(link.results)
        if members or results:
            link.quiet_s = 0
        report = GroupReport(
            self._life.node,
            self._life.epoch,
            vnode,
            link.lead,
            link.number,
            link.stream,
            link.taken,
            self._known[vnode],
            tuple(members),
            link.first_result,
            results,
        )
        self._deliver(link.node, encode_report(report))

    def _deliver(self, node: int, packet: bytes) -> None:
        if node == self._life.node:
            asyncio.get_running_loop().call_soon(self.received, packet)
        else:
            self._send(node, packet)

    def received(self, packet: bytes) -> None:
        """A report or a pack of any node. One that cannot be read is passed over, with a warning."""
        try:
            found = decode_group_packet(packet)
        except PermanentError as error:
            _log.warning("a packet of another node cannot be read", about="groups", why=str(error))
            return
        if found.vnode >= len(self._links):
            _log.warning("a packet of another node cannot be read", about="groups", why=f"no vnode {found.vnode}")
        elif isinstance(found, GroupReport):
            dispatcher = self.dispatchers[found.vnode]
            if dispatcher is not None:
                dispatcher.report(found)
        else:
            self._take(found)

    def _take(self, pack: GroupPack) -> None:
        link = self._links[pack.vnode]
        if pack.epoch != self._life.epoch or pack.lead < link.lead or self._shares is None:
            return
        if pack.lead > link.lead:
            link.follow(pack.lead, pack.node)
        if pack.stream < link.stream:
            return
        if pack.stream > link.stream:
            link.stream, link.taken = pack.stream, 0
        while link.results and link.first_result <= pack.heard:
            link.results.popleft()
            link.first_result += 1
        for number, reference in enumerate(pack.references, pack.first):
            if number == link.taken + 1:
                link.taken = number
                self._shares.take(reference)
        for sent in pack.messages:
            self._shares.pass_on(sent)
        for ask in pack.confirmed:
            self._asks.confirm(ask)

    def tick(self) -> None:
        """A second has passed."""
        for vnode, link in enumerate(self._links):
            self._look_for_leader(vnode)
            link.quiet_s += 1
            if link.quiet_s <= _LAST_REPORTS:
                link.is_due = True
        if self._shares is not None:
            self._shares.tick()
        for dispatcher in self.dispatchers:
            if dispatcher is not None:
                dispatcher.tick()
        self._schedule()


def _call_soon(action: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(action)


def _leaves_group(step: SessionStep) -> bool:
    return isinstance(step, DropSubscription) and step.raw.startswith(SHARE_PREFIX)
