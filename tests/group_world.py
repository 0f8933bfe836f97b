"""Short ways to say what members of a shared subscription do."""

from holdfast.model.protocol import PUBACK
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties
from tests.world import Peer


def join(peer: Peer, text: str = "$share/g/a", qos: int = 1, **user: str) -> Suback:
    """Subscribe with user properties; the whole SUBACK."""
    asked = tuple((name.replace("_", "-"), value) for name, value in user.items())
    peer.send(Subscribe(9, (Subscription(parse_filter(text.encode()), qos),), Properties(user_properties=asked)))
    return peer.take(Suback)


def work(*peers: Peer) -> list[list[bytes]]:
    """Each takes one message and acknowledges it, in turn, until nothing comes; what each of them got."""
    got: list[list[bytes]] = [[] for _peer in peers]
    while any(peer.inbox for peer in peers):
        for peer, mine in zip(peers, got, strict=True):
            if peer.inbox:
                message = peer.take(Publish)
                mine.append(message.payload)
                if message.qos:
                    peer.send(Ack(PUBACK, message.packet_id))
    return got


def leave(peer: Peer, text: str = "$share/g/a") -> None:
    peer.send(Unsubscribe(9, (parse_filter(text.encode()),)))
    peer.take(Unsuback)
