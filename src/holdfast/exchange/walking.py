"""Retained messages on their way to new subscriptions, a few in each turn.

A walk that a SUBACK promised to a session that is kept is stored, and goes on after a crash (`records/walks.py`).
"""

from typing import TYPE_CHECKING, Final

from holdfast.durable.sessions import KeepWalk
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, Walk
from holdfast.exchange.under_way import UnderWay
from holdfast.model.owed import OwedRetained

if TYPE_CHECKING:
    from holdfast.exchange.delivery import Delivery

#: Messages in one turn, whether they are sent or skipped.
_MOST: Final = 100


class Walking:
    """Sends retained messages as the client makes room."""

    def __init__(self, delivery: "Delivery", under_way: UnderWay, *, upgrade_qos: bool) -> None:
        self._delivery: Final = delivery
        self._under_way: Final = under_way
        self._upgrade_qos: Final = upgrade_qos

    def send(self, client: Client, channel: Channel) -> None:
        """Retained messages for new subscriptions [MQTT-3.3.1-9]."""
        window = client.session.window
        steps = 0
        while client.walks and not channel.congested and window.room():
            if steps == _MOST:
                # Enough for one turn: neither a million that are sent nor a million that are skipped hold up others.
                self._delivery.mark(channel)
                break
            steps += 1
            walk = client.walks[0]
            message = next(walk.messages, None)
            if message is None:
                self._end(client, client.walks.pop(0))
                continue
            walk.at = message.topic
            record = walk.subscribed.record
            qos = record.qos if self._upgrade_qos else min(message.qos, record.qos)
            if record.hides(message.topic) or walk.skips(message.topic, qos):
                continue
            identifiers = (record.identifier,) if record.identifier else ()
            owed = OwedRetained(message, qos, identifiers=identifiers, newest=walk.newest)
            owed.repeated = walk.repeated and qos == 1
            self._delivery.send_owed(client, channel, owed)
            walk.ahead = walk.ahead or qos == 2
        if client.walks:
            self._keep(client, client.walks[0])

    def _keep(self, client: Client, walk: Walk) -> None:
        """How far a walk is goes with the QoS 2 messages that it has put into flight, so that they come once."""
        if walk.ahead and walk.stored and client.stored():
            self._under_way.step(KeepWalk(client.session.client_id, walk.subscribed.record.filter.raw, walk.record()))

    def _end(self, client: Client, walk: Walk) -> None:
        """It is forgotten with the next progress, which knows what of it is unacknowledged."""
        self._keep(client, walk)
        if walk.stored and client.stored():
            if client.ended_walks is None:
                client.ended_walks = []
            client.ended_walks.append(walk.subscribed.record.filter.raw)
            self._delivery.has_come_further(client)
