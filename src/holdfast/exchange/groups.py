"""Shared subscriptions: the members of a group split the messages among them [MQTT-4.8.2-4].

A group is `$share/<name>/<filter>`. It lives as long as a member's session. While no member is online, what
matches is kept in the group's own queue and given out when one comes back.
"""

from typing import Final

from holdfast.durable.queue import ClientQueue
from holdfast.exchange.client import Client, Subscribed
from holdfast.model.message import Message

ROUND_ROBIN: Final = "round_robin"
LEAST_INFLIGHT: Final = "least_inflight"
HASH: Final = "hash"
STICKY: Final = "sticky"
STRATEGIES: Final = (LEAST_INFLIGHT, ROUND_ROBIN, HASH, STICKY)


class Group:
    """The members of one shared subscription.

    1. `members` are in the order in which they joined.
    """

    def __init__(self, key: str, strategy: str, backlog: ClientQueue) -> None:
        #: `$share/<name>/<filter>`.
        self.key: Final = key
        self.strategy: Final = strategy
        #: Messages for which nobody was online.
        self.backlog: Final = backlog
        self.members: Final[dict[str, Subscribed]] = {}
        self._turn = 0
        self._favourite = ""

    def pick(self, message: Message) -> Subscribed | None:
        """The member that gets `message`; None if nobody is online."""
        ready = [member for member in self.members.values() if _ready(member.client)]
        if not ready:
            # All are full or away: somebody who is online keeps it in the queue of its own.
            ready = [member for member in self.members.values() if member.client.channel is not None]
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

    def keeps_backlog(self) -> bool:
        """Whether some member will come back for what nobody takes now."""
        return any(member.client.session.persistent() for member in self.members.values())

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


def _ready(client: Client) -> bool:
    channel = client.channel
    return channel is not None and not channel.congested and not client.behind and client.session.window.room()


def _stable_hash(text: str) -> int:
    """The same on every start, unlike hash(); FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
