"""Messages of shared subscriptions: one member gets each, and what no member has room for waits.

    plan ──▶ deliver ──▶ pick a member ──▶ assign
                  └────▶ no member has room: the group's backlog ──▶ drain, as members make room

1. Order holds: as long as older messages wait, a new one waits behind them.
2. A QoS 2 message is noted as the group's before it is sent: after a crash it goes to no other member.
3. A group that is in the past reads everything from the log, QoS 0 too, until it has reached the present.
4. QoS 1 work that rests for longer than the group allows is given to another member that has room for it. QoS 2 work
   is not: it would be delivered twice.
5. With `share-window`, a member takes at most so many at once, and the rest is for others.
"""

from typing import Final

from holdfast.durable.sessions.session_store import DropInflight
from holdfast.exchange.client import BrokerClient, Group, Subscribed
from holdfast.exchange.control import Timer
from holdfast.exchange.delivery.frames import message_with_place
from holdfast.exchange.delivery.sender import Sender
from holdfast.exchange.drops import DROP_NO_MEMBER, DROP_QUEUE
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pending_publish import PendingPublish
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.message import Message
from holdfast.model.owed import Owed, OwedShared
from holdfast.model.protocol import V5
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

# Strategies: which member of a group gets a message, among those that can take it.
ROUND_ROBIN: Final = "round_robin"
LEAST_INFLIGHT: Final = "least_inflight"
HASH: Final = "hash"
STICKY: Final = "sticky"

#: Messages read from a backlog at once.
_READ: Final = 100
#: … and given out at most in one loop iteration for one group.
_MOST: Final = 1000
#: Messages stolen at most in one go, and those for which no other member is found before it is given up for now.
_STOLEN_AT_ONCE: Final = 1000
_REFUSED_AT_ONCE: Final = 100
#: Between two looks at what rests: at least, and at most if something is due and no other member has room for it.
_LOOK_AFTER_US: Final = 100_000
_LOOK_AGAIN_US: Final = 1_000_000


class GroupDelivery:
    """Gives the messages of groups to their members."""

    def __init__(self, state: LoopState, settings: ExchangeSettings, timer: Timer, sender: Sender) -> None:
        self._state: Final = state
        self._drops: Final = state.drops
        self._upgrade_qos: Final = settings.upgrade_outgoing_qos
        self._timer: Final = timer
        self._sender: Final = sender

    def deliver(self, group: Group, pending: PendingPublish) -> None:
        if group.dispatched:
            return
        message = pending.message
        if message.qos == 0 and group.joined is not None:
            return  # it is read from the log, in its place
        if message.qos > 0 and group.owes():
            # What waits is older. This one cannot be read back yet: it counts as delivered when this is over.
            self.drain(group)
            if group.owes():
                self._keep_for(group, message)
                return
        member = pick_member(group, message)
        if member is not None:
            self._assign(group, member, message)
        elif message.qos > 0 and group.keeps_backlog():
            self._keep_for(group, message)
        else:
            self._drops.drop(DROP_NO_MEMBER, group.key, message, self._state.now_us)

    def deliver_now(self, group: Group, pending: PendingPublish) -> bool:
        """Deliver before the commit; False if the message has to wait for it."""
        message = pending.message
        if not message.position_us:
            self.deliver(group, pending)
            return True
        member = None if group.owes() else pick_member(group, message)
        if member is not None:
            self._assign(group, member, message)
        return member is not None

    def deliver_passed_on(self, group: Group, messages: list[Message]) -> None:
        """QoS 0 that came too late for the log and too early for the group, which is in the present from now on."""
        for message in messages:
            levels = message.topic.split(SEPARATOR)
            if levels_match(group.record.filter.levels, levels, dollar=is_dollar(message.topic)):
                member = pick_member(group, message)
                if member is not None:
                    self._assign(group, member, message)

    def _assign(
        self,
        group: Group,
        member: Subscribed,
        message: Message,
        *,
        past: bool = False,
        assignment: tuple[int, int] = (0, 0),
    ) -> None:
        """Give a message to the member that was picked for it, by the options of that member's subscription."""
        record = member.record
        qos = record.qos if record.qos < message.qos or self._upgrade_qos else message.qos
        identifiers = (record.identifier,) if record.identifier else ()
        channel = member.client.channel
        if channel is None:
            return
        owed = OwedShared(
            message_with_place(message) if past and channel.version == V5 else message,
            qos,
            identifiers=identifiers,
            group=group.key,
            source=message,
            past=past,
            due_us=self._timer.now_us() + group.steal_after_us if group.steal_after_us else 0,
            vnode=assignment[0],
            revision=assignment[1],
        )
        noted = bool(group.stored_as) and qos == 2 and message.position_us > 0
        packet_id = self._sender.send_owed(member.client, channel, owed, after_commit=noted)
        if not packet_id and self._sender.shared_done is not None:
            self._sender.shared_done(member.client, owed)
        self._sender.progress.group_changed(group)
        if noted:
            # With the member's own entry, if it has one, in one commit: it goes to no other member, whatever happens.
            self._state.step(DropInflight(group.stored_as, 0, message.shard, message.position_us))

    def _keep_for(self, group: Group, message: Message) -> None:
        full = group.backlog.append([Owed(message, message.qos, group=group.key)])
        self._drops.lose(DROP_QUEUE, group.key, full, self._state.now_us)

    def give_back(self, group: Group, given: list[Owed]) -> None:
        """A member left with these unacknowledged, oldest first: others get them, or they wait for a member.

        They wait in memory, at most as many as fit into the windows of members: the group's queue is beyond them.
        """
        for index, owed in enumerate(given):
            member = pick_member(group, owed.message)
            if member is not None:
                self._assign_again(group, member, owed)
            elif group.keeps_backlog():
                group.held.extend(reversed(given[index:]))
                return
            else:
                self._drops.drop(DROP_NO_MEMBER, group.key, owed.message, self._state.now_us)

    def _assign_again(self, group: Group, member: Subscribed, owed: Owed) -> None:
        """Give to a member what another one was given before."""
        if isinstance(owed, OwedShared):
            self._assign(group, member, owed.source, past=owed.past, assignment=(owed.vnode, owed.revision))
        else:
            self._assign(group, member, owed.message)

    def steal(self, group: Group, now_us: int) -> int:
        """Give what rests for too long to others who have room; how long until the next look, in microseconds."""
        wait_us = group.steal_after_us
        for member in list(group.members.values()):
            wait_us = min(wait_us, self._steal_from(group, member.client, now_us))
        return max(wait_us, _LOOK_AFTER_US)

    def _steal_from(self, group: Group, client: BrokerClient, now_us: int) -> int:
        window = client.session.window
        refused = stolen = 0
        for packet_id in window.packet_ids():
            owed = window.owed(packet_id)
            if not isinstance(owed, OwedShared) or owed.group != group.key or owed.qos != 1 or not owed.due_us:
                continue
            if window.is_stolen(packet_id):
                continue
            if owed.due_us > now_us:
                return owed.due_us - now_us if not refused else min(owed.due_us - now_us, _LOOK_AGAIN_US)
            other = pick_member(group, owed.source, besides=client)
            if other is None:
                refused += 1
            else:
                stolen += 1
                window.steal(packet_id)
                self._state.counters.stolen += 1
                self._assign_again(group, other, owed)
            if stolen >= _STOLEN_AT_ONCE:
                return 0
            if refused >= _REFUSED_AT_ONCE:
                break
        return _LOOK_AGAIN_US if refused else group.steal_after_us

    def drain(self, group: Group) -> None:
        """Give out what was kept for a group, in order, as far as members have room."""
        left = _MOST
        while True:
            if left <= 0:
                self._search_on(group)  # enough for one loop iteration
                return
            if not group.held:
                group.held = group.backlog.read(0, _READ)
                group.held.reverse()
            if not group.held:
                if not group.backlog.at_end():
                    self._search_on(group)
                elif group.joined is not None:
                    joined = group.joined
                    group.joined = None
                    joined()
                return
            owed = group.held[-1]
            member = pick_member(group, owed.message)
            if member is None:
                return
            group.held.pop()
            group.backlog.acknowledge(owed.serial)
            left -= 1
            if isinstance(owed, OwedShared):
                self._assign_again(group, member, owed)
            else:
                self._assign(group, member, owed.message, past=group.joined is not None)

    def _search_on(self, group: Group) -> None:
        """A long stretch without anything for the group: go on in the next iteration."""
        for member in group.members.values():
            client = member.client
            if client.channel is not None:
                self._state.pump_soon(client)
                return


def pick_member(group: Group, message: Message, besides: BrokerClient | None = None) -> Subscribed | None:
    """The member that gets `message` now; None if none has room for it or may read it."""
    ready = [
        member
        for member in group.members.values()
        if member.client is not besides and _is_ready(group, member.client, message, member.record.share_window)
    ]
    if not ready:
        return None
    if len(ready) == 1:
        return ready[0]
    if group.strategy == LEAST_INFLIGHT:
        return _least_loaded(group, ready)
    if group.strategy == HASH:
        return ready[stable_hash(message.publisher) % len(ready)]
    if group.strategy == STICKY:
        return _sticky(group, ready)
    group.turn += 1
    return ready[group.turn % len(ready)]


def _is_ready(group: Group, client: BrokerClient, message: Message, share_window: int) -> bool:
    channel = client.channel
    if channel is None or channel.congested:
        return False
    if channel.access is not None and not channel.access.may_receive(message.topic):
        return False
    if message.qos == 0:
        return True
    window = client.session.window
    if share_window and window.count_of(group.key) >= share_window:
        return False
    return not client.behind and window.room()


def _least_loaded(group: Group, ready: list[Subscribed]) -> Subscribed:
    """The fewest in flight; among equals, in turn."""
    group.turn += 1
    best = ready[group.turn % len(ready)]
    least = len(best.client.session.window)
    for member in ready:
        count = len(member.client.session.window)
        if count < least:
            best = member
            least = count
    return best


def _sticky(group: Group, ready: list[Subscribed]) -> Subscribed:
    for member in ready:
        if member.client.session.client_id == group.favourite:
            return member
    group.favourite = ready[0].client.session.client_id
    return ready[0]


def stable_hash(text: str) -> int:
    """The same on every start, unlike hash(); FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
