"""Retained messages on their way to new subscriptions, a slice in each loop iteration.

A walk that a SUBACK promised to a session that is kept is stored, and goes on after a crash (`records/walks.py`).

How long a scan takes is up to a client, and to those who left retained messages. So it is cut into slices by the keys
that it visits, and one loop iteration has a budget of them for all clients together:

    iteration   │ a: slice │ b: slice │ c: slice │ d: slice │ everything else │
    the next    │ e: slice │ f: slice │ a: slice │ b: slice │ everything else │

1. In one iteration a client gets one slice at most, and everybody who waits gets one before anybody gets two.
"""

from typing import TYPE_CHECKING, Final

from holdfast.durable.retained import RetainedScan, ScanBudget
from holdfast.durable.sessions import KeepWalk
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, Walk
from holdfast.exchange.under_way import UnderWay
from holdfast.model.message import Message
from holdfast.model.owed import OwedRetained

if TYPE_CHECKING:
    from holdfast.exchange.delivery import Delivery

#: Keys that one client's filters visit in one loop iteration: half a millisecond; and as many messages at most.
SLICE_KEYS: Final = 100
#: Keys that all clients' filters visit in one iteration. Measured: 4 to 5 µs each, so about 2 ms.
ITERATION_KEYS: Final = 400
#: Keys visited to see whether anything is owed, before a SUBSCRIBE is answered.
_LOOK_KEYS: Final = 20


class Walking:
    """Sends retained messages as the client makes room."""

    def __init__(self, delivery: "Delivery", under_way: UnderWay, *, upgrade_qos: bool) -> None:
        self._delivery: Final = delivery
        self._under_way: Final = under_way
        self._upgrade_qos: Final = upgrade_qos
        self._left = ITERATION_KEYS
        #: Clients whose slice has to wait for the next iteration, in the order in which they get it.
        self.postponed: list[Client] = []

    def begin_iteration(self) -> None:
        """A new loop iteration has its own budget."""
        self._left = ITERATION_KEYS

    def finds_any(self, scan: RetainedScan) -> bool:
        """Whether a scan finds a message, as far as a few keys tell; True if they do not."""
        given = min(_LOOK_KEYS, self._left)
        budget = ScanBudget(given)
        found = scan.next(budget) is not None or not scan.over()
        self._left -= given - budget.left
        return found

    def send(self, client: Client, channel: Channel) -> None:
        """Retained messages for new subscriptions [MQTT-3.3.1-9]."""
        window = client.session.window
        walk = client.next_walk()
        if walk is None or channel.congested or not window.room():
            return
        if self._left <= 0:
            self.postponed.append(client)
            return
        given = min(SLICE_KEYS, self._left)
        budget = ScanBudget(given)
        steps = 0
        while walk is not None and not channel.congested and window.room():
            if steps == SLICE_KEYS or budget.left <= 0:
                # Enough for one slice: neither a million that are sent nor a million that are skipped hold up others.
                self._delivery.mark(channel)
                break
            steps += 1
            scan = walk.scan
            message = None if scan is None else scan.next(budget)
            if message is not None:
                self._send_one(client, channel, walk, message)
            elif scan is None or scan.over():
                self._end(client, walk)
                walk = client.next_walk()
            else:
                walk.at = scan.at()
        self._left -= given - budget.left
        if walk is not None:
            self._keep(client, walk)

    def _send_one(self, client: Client, channel: Channel, walk: Walk, message: Message) -> None:
        walk.at = message.topic
        record = walk.subscribed.record
        qos = record.qos if self._upgrade_qos else min(message.qos, record.qos)
        if record.hides(message.topic) or walk.skips(message.topic, qos):
            return
        identifiers = (record.identifier,) if record.identifier else ()
        owed = OwedRetained(message, qos, identifiers=identifiers, newest=walk.newest)
        owed.repeated = walk.repeated and qos == 1
        self._delivery.send_owed(client, channel, owed)
        walk.ahead = walk.ahead or qos == 2

    def _keep(self, client: Client, walk: Walk) -> None:
        """How far a walk is goes with the QoS 2 messages that it has put into flight, so that they come once."""
        if walk.ahead and walk.stored and client.stored():
            self._under_way.step(KeepWalk(client.session.client_id, walk.subscribed.record.filter.raw, walk.record()))

    def _end(self, client: Client, walk: Walk) -> None:
        """It is forgotten with the next progress, which knows what of it is unacknowledged."""
        raw = walk.subscribed.record.filter.raw
        client.end_walk(raw)
        self._keep(client, walk)
        if walk.stored and client.stored():
            if client.ended_walks is None:
                client.ended_walks = {}
            client.ended_walks[raw] = None
            self._delivery.has_come_further(client)
