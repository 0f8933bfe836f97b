"""Messages of shared subscriptions: one member gets each, and what nobody has room for waits.

    plan ──▶ deliver ──▶ pick a member ──▶ assign
                  └────▶ nobody has room: the group's backlog ──▶ drain, as members make room

1. Order holds: as long as older messages wait, a new one waits behind them.
2. A QoS 2 message is noted as the group's before it is sent: after a crash it goes to no other member.
"""

from typing import TYPE_CHECKING, Final

from holdfast.durable.sessions import DropInflight
from holdfast.exchange.client import Subscribed
from holdfast.exchange.counters import DROP_NO_MEMBER, DROP_QUEUE
from holdfast.exchange.drops import Drops
from holdfast.exchange.groups import Group
from holdfast.exchange.passage import Passage
from holdfast.exchange.under_way import UnderWay
from holdfast.model.message import Message
from holdfast.model.owed import Owed

if TYPE_CHECKING:
    from holdfast.exchange.delivery import Delivery

#: Messages read from a backlog at once.
_READ: Final = 100


class GroupDelivery:
    """Gives the messages of groups to their members."""

    def __init__(self, delivery: "Delivery", drops: Drops, under_way: UnderWay, *, upgrade_qos: bool) -> None:
        self._delivery: Final = delivery
        self._drops: Final = drops
        self._under_way: Final = under_way
        self._upgrade_qos: Final = upgrade_qos

    def deliver(self, group: Group, passage: Passage) -> None:
        message = passage.message
        if message.qos > 0 and group.owes():
            # What waits is older. This one cannot be read back yet: it counts as delivered when this is over.
            self.drain(group)
            if group.owes():
                self._keep_for(group, message)
                return
        member = group.pick(message)
        if member is not None:
            self._assign(group, member, message)
        elif message.qos > 0 and group.keeps_backlog():
            self._keep_for(group, message)
        else:
            self._drops.drop(DROP_NO_MEMBER, group.key, message, self._delivery.now_us)

    def _assign(self, group: Group, member: Subscribed, message: Message) -> None:
        """Give a message to the member that was picked for it, by the options of its own subscription."""
        record = member.record
        qos = record.qos if record.qos < message.qos or self._upgrade_qos else message.qos
        identifiers = (record.identifier,) if record.identifier else ()
        channel = member.client.channel
        if channel is None:
            return
        owed = Owed(message, qos, identifiers=identifiers, group=group.key)
        noted = bool(group.stored_as) and qos == 2 and message.position_us > 0
        self._delivery.send_owed(member.client, channel, owed, after_commit=noted)
        if group.stored_as:
            group.unsaved = True
        if noted:
            # With the member's own entry, if it has one, in one commit: it goes to nobody else, whatever happens.
            self._under_way.step(DropInflight(group.stored_as, 0, message.shard, message.position_us))

    def _keep_for(self, group: Group, message: Message) -> None:
        full = group.backlog.append([Owed(message, message.qos, group=group.key)])
        self._drops.lose(DROP_QUEUE, group.key, full, self._delivery.now_us)

    def give_back(self, group: Group, pack: list[Owed]) -> None:
        """A member left with these unacknowledged, oldest first: others get them, or they wait for somebody.

        They wait in memory, at most as many as fit into the windows of members: the group's queue is beyond them.
        """
        for index, owed in enumerate(pack):
            member = group.pick(owed.message)
            if member is not None:
                self._assign(group, member, owed.message)
            elif group.keeps_backlog():
                group.held.extend(reversed(pack[index:]))
                return
            else:
                self._drops.drop(DROP_NO_MEMBER, group.key, owed.message, self._delivery.now_us)

    def drain(self, group: Group) -> None:
        """Give out what was kept for a group, in order, as far as members have room."""
        while True:
            if not group.held:
                group.held = group.backlog.read(0, _READ)
                group.held.reverse()
            if not group.held:
                if not group.backlog.at_end():
                    self._search_on(group)
                return
            owed = group.held[-1]
            member = group.pick(owed.message)
            if member is None:
                return
            group.held.pop()
            group.backlog.acknowledge(owed.serial)
            self._assign(group, member, owed.message)

    def _search_on(self, group: Group) -> None:
        """A long stretch without anything for the group: go on in the next turn."""
        for member in group.members.values():
            client = member.client
            if client.channel is not None:
                if client not in self._delivery.searching:
                    self._delivery.searching.append(client)
                return
