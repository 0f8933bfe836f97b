"""Shared subscriptions: the members of a group split the messages among them [MQTT-4.8.2-4].

A group is `$share/<name>/<filter>`. It lives as long as a member's session. What no member has room for, or is
online for, is kept in the group's own queue and given out in order as members get room: a message is never in the
queue of one member while another could take it.

    share-window         a member takes at most so many at once, and the rest is for others
    share-steal-after    QoS 1 work that a member has not acknowledged for so long goes to another one
"""

from collections.abc import Callable
from typing import Final

from holdfast.durable.queue import ClientQueue
from holdfast.exchange.client import Client, Subscribed
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.topics.subscription import SubscriptionRecord

ROUND_ROBIN: Final = "round_robin"
LEAST_INFLIGHT: Final = "least_inflight"
HASH: Final = "hash"
STICKY: Final = "sticky"


class Group:
    """The members of one shared subscription.

    1. `members` are in the order in which they joined.
    """

    def __init__(self, key: str, strategy: str, record: SubscriptionRecord, backlog: ClientQueue) -> None:
        #: `$share/<name>/<filter>`.
        self.key: Final = key
        self.strategy: Final = strategy
        #: Its subscription, as if it were a client: the filter, and where it began.
        self.record: Final = record
        #: What to do when it has reached the present; None while it is there.
        self.joined: Callable[[], None] | None = None
        #: How long QoS 1 work may rest with a member before another one gets it; 0 for as long as it is online.
        self.steal_after_us = 0
        #: Messages that nobody could take yet.
        self.backlog = backlog
        #: Read from the backlog and not given out yet, the next one last.
        self.held: list[Owed] = []
        self.members: Final[dict[str, Subscribed]] = {}
        #: Client ids of members that have a stored session, or had one.
        self.stored_members: Final[set[str]] = set()
        #: Whether it may have members besides these whose sessions are stored: an earlier version began it.
        self.unlisted = False
        #: The name under which its progress is stored; empty if it is not.
        self.stored_as = ""
        #: Whether it has come further than its stored progress says.
        self.unsaved = False
        #: The last batch with a message that it has to wait for, while nothing can be written.
        self.held_batch = 0
        self._turn = 0
        self._favourite = ""

    def pick(self, message: Message, *, besides: Client | None = None) -> Subscribed | None:
        """The member that gets `message` now; None if nobody has room for it or may read it."""
        ready = [
            member
            for member in self.members.values()
            if member.client is not besides and self._ready(member.client, message, member.record.share_window)
        ]
        if not ready:
            return None
        if len(ready) == 1:
            return ready[0]
        if self.strategy == LEAST_INFLIGHT:
            return self._least_loaded(ready)
        if self.strategy == HASH:
            return ready[_stable_hash(message.publisher) % len(ready)]
        if self.strategy == STICKY:
            return self._sticky(ready)
        self._turn += 1
        return ready[self._turn % len(ready)]

    def owes(self) -> bool:
        """Whether something waits for a member."""
        return len(self.held) > 0 or self.backlog.count() > 0

    def keeps_backlog(self) -> bool:
        """Whether some member will take later what nobody takes now."""
        for member in self.members.values():
            if member.client.channel is not None or member.client.session.persistent():
                return True
        return False

    def _ready(self, client: Client, message: Message, share_window: int) -> bool:
        channel = client.channel
        if channel is None or channel.congested:
            return False
        if channel.access is not None and not channel.access.may_receive(message.topic):
            return False
        if message.qos == 0:
            return True
        window = client.session.window
        if share_window and window.count_of(self.key) >= share_window:
            return False
        return not client.behind and window.room()

    def _least_loaded(self, ready: list[Subscribed]) -> Subscribed:
        """The fewest in flight; among equals, in turn."""
        self._turn += 1
        best = ready[self._turn % len(ready)]
        least = len(best.client.session.window)
        for member in ready:
            count = len(member.client.session.window)
            if count < least:
                best = member
                least = count
        return best

    def _sticky(self, ready: list[Subscribed]) -> Subscribed:
        for member in ready:
            if member.client.session.client_id == self._favourite:
                return member
        self._favourite = ready[0].client.session.client_id
        return ready[0]


def _stable_hash(text: str) -> int:
    """The same on every start, unlike hash(); FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
