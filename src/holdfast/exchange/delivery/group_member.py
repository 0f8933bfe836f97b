"""Which member of a group gets a message: by the strategy of the group, among those that can take it.

share-window         a member takes at most so many at once, and the rest is for others
share-steal-after    QoS 1 work that a member has not acknowledged for so long goes to another one
"""

from typing import Final

from holdfast.exchange.client import BrokerClient, Group, Subscribed
from holdfast.model.message import Message

ROUND_ROBIN: Final = "round_robin"
LEAST_INFLIGHT: Final = "least_inflight"
HASH: Final = "hash"
STICKY: Final = "sticky"


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
        return ready[_stable_hash(message.publisher) % len(ready)]
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


def _stable_hash(text: str) -> int:
    """The same on every start, unlike hash(); FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
